-- Take a free name for one acquisition (the canonical Redlock layout: a string, the nonce).
-- KEYS: 1 name, 2 fencing counter; 3: see queue.lua
-- ARGV: 1 nonce, 2 ttl_ms, 3 unused, 4 least token, 5 seed, 6 keep counter for ms, 7 tokens (0:
--   none); 8 to 10: see queue.lua
-- Replies: the last of the tokens (granted), {pttl} (held by another), error TOOLONG, BADCOUNTER, BADMARK
-- Rule: idempotent per nonce (SAFETY.md H18).
if LONGEST and tonumber(ARGV[2]) > LONGEST then
  return redis.error_reply('TOOLONG a lease of ' .. ARGV[2] .. ' ms; at most ' .. LONGEST)
end
if others_first() then
  return denied()
end
local set = redis.pcall('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2])
if not set or set.err then
  local held = redis.call('get', KEYS[1])
  if not held then
    return set
  elseif held ~= ARGV[1] then
    -- Also when the server is too full to take anything.
    return denied()
  end
  redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
  local token = ARGV[7] ~= '0' and redis.call('exists', KEYS[2]) == 1 and rise(KEYS[2], 0)
  if type(token) == 'table' then
    return token
  elseif token then
    served()
    return token
  end
end
if ARGV[7] == '0' then
  served()
  return 0
end
local ok, token = pcall(next_token, KEYS[2], ARGV[4], ARGV[5], ARGV[6], ARGV[7])
if not ok or type(token) == 'table' then
  -- Without a token nothing is held.
  redis.call('del', KEYS[1])
  return type(token) == 'table' and token or redis.error_reply(token)
end
served()
return token
