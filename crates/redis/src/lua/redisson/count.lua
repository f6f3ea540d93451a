-- The server counts the token of a grant as Redisson's RFencedLock does (prepended to acquire.lua,
-- in place of propose.lua).
-- KEYS: 2 mark, the last one: counter
-- ARGV: none
-- Replies: the token, error BADMARK, BADCOUNTER
-- Rule: the counter jumps above the mark, and the mark follows it. So this token is above all
-- earlier tokens of lockers that propose tokens, and their later ones are above this one
-- (PROTOCOL.md, Beside Redisson's RFencedLock).
local function token_of_grant()
  local counter, mark = KEYS[#KEYS], mark_of(KEYS[2])
  if type(mark) == 'table' then
    return mark
  end
  local token = redis.pcall('incr', counter)
  if type(token) == 'table' then
    local spoilt = string.find(token.err, 'WRONGTYPE') or string.find(token.err, 'not an integer')
      or string.find(token.err, 'overflow')
    return spoilt and redis.error_reply('BADCOUNTER ' .. counter) or token
  elseif token >= MOST - 64 then
    return redis.error_reply('BADCOUNTER ' .. counter)
  end
  if token <= mark then
    token = mark + 1
    redis.call('set', counter, string.format('%.0f', token))
  end
  -- Redisson's counter has no expiry.
  redis.call('persist', counter)
  local accepted = accept(KEYS[2], string.format('%.0f', token))
  return type(accepted) == 'table' and accepted or token
end

