-- Take a free name for one acquisition (Redisson's layout: a hash, field -> hold count).
-- KEYS: 1 name, 2 fencing counter; 3: see queue.lua
-- ARGV: 1 field, 2 ttl_ms, 3 hold count, 4 least token, 5 seed, 6 keep counter for ms, 7 tokens (0:
--   none); 8 to 10: see queue.lua
-- Replies: the last of the tokens (granted), {pttl} (held by another), error TOOLONG, NOTALOCK, BADCOUNTER,
--   BADMARK
-- Rule: idempotent per field; the count is absolute, so a repeated request cannot inflate it
-- (SAFETY.md H18).
if LONGEST and tonumber(ARGV[2]) > LONGEST then
  return redis.error_reply('TOOLONG a lease of ' .. ARGV[2] .. ' ms; at most ' .. LONGEST)
end
local held = redis.call('exists', KEYS[1]) == 1
if held and redis.call('hexists', KEYS[1], ARGV[1]) == 0 or others_first() then
  -- Who waits has been told by then that it is a lock.
  local holder = held and not KEYS[3] and holder_of(KEYS[1])
  return type(holder) == 'table' and holder or denied()
end
-- The token first: should it fail, nothing is held.
local token = ARGV[7] == '0' and 0
  or held and redis.call('exists', KEYS[2]) == 1 and rise(KEYS[2], 0)
  or next_token(KEYS[2], ARGV[4], ARGV[5], ARGV[6], ARGV[7])
if type(token) == 'table' then
  return token
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[3])
redis.call('pexpire', KEYS[1], ARGV[2])
served()
return token
