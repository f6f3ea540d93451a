-- Take a free name for one acquisition (Redisson's layout: a hash, field -> hold count).
-- KEYS: 1 name, 2 mark; 3: see queue.lua
-- ARGV: 1 field, 2 ttl_ms, 3 hold count, 4 proposed token (0: none); 5 to 8: see queue.lua
-- Replies: 0 (granted, and the token accepted), a mark (granted, but the token is not above it), {pttl} (held
--   by another), error TOOLONG, NOTALOCK, BADMARK
-- Rules: idempotent per field; the count is absolute, so a repeated request cannot inflate it
-- (SAFETY.md H18); no mark moves for a caller that is refused the name.
if LONGEST and tonumber(ARGV[2]) > LONGEST then
  return redis.error_reply('TOOLONG a lease of ' .. ARGV[2] .. ' ms; at most ' .. LONGEST)
end
local held = redis.call('exists', KEYS[1]) == 1
if held and redis.call('hexists', KEYS[1], ARGV[1]) == 0 or others_first() then
  -- Nobody waits for what is no lock.
  local holder = held and holder_of(KEYS[1])
  return type(holder) == 'table' and holder or denied()
end
-- The token first: should it fail, nothing is held.
local accepted = ARGV[4] == '0' and 0 or accept(KEYS[2], ARGV[4])
if type(accepted) == 'table' then
  return accepted
end
redis.call('hset', KEYS[1], ARGV[1], ARGV[3])
redis.call('pexpire', KEYS[1], ARGV[2])
served()
return accepted
