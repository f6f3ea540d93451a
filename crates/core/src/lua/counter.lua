-- Counts of tokens (prepended to the scripts that read or move one): whole numbers from 0 to 2^53 - 1. Lua
-- counts in doubles, which are not exact beyond: every grant would have the same token. (SAFETY.md G3;
-- Fence::MAX)
local MOST = 9007199254740991

-- The error of a mark in the admission record that is no count (nil: it is one, or there is none).
local function bad_mark(record, field, value)
  local mark = tonumber(value or 0)
  if not (mark and mark >= 0 and mark <= MOST) then
    return redis.error_reply('BADMARK ' .. record .. ' ' .. field)
  end
end

-- Moves a counter: to what, or the error of one that cannot move so far, and did not.
local function rise(key, tokens)
  local risen = redis.pcall('incrby', key, tokens)
  if type(risen) ~= 'number' then
    local why = string.match(risen.err, 'WRONGTYPE') or string.match(risen.err, 'not an integer')
      or string.match(risen.err, 'overflow')
    return why and redis.error_reply('BADCOUNTER ' .. why) or risen
  elseif risen > MOST then
    -- Not -tokens: that is '-0' for none, which Redis 7.0 takes for no number.
    redis.call('incrby', key, 0 - tokens)
    return redis.error_reply('BADCOUNTER overflow')
  end
  return risen
end

