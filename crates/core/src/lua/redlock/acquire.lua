-- Take a free name for one acquisition (the canonical Redlock layout: a string, the nonce).
-- KEYS: 1 name, 2 mark; 3: see queue.lua
-- ARGV: 1 nonce, 2 ttl_ms, 3 unused, 4 proposed token (0: none); 5 to 8: see queue.lua
-- Replies: 0 (granted, and the token accepted), a mark (granted, but the token is not above it), {pttl} (held
--   by another), error TOOLONG, BADMARK
-- Rules: idempotent per nonce (SAFETY.md H18); no mark moves for a caller that is refused the name.
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
end
local accepted = ARGV[4] == '0' and 0 or accept(KEYS[2], ARGV[4])
if type(accepted) == 'table' then
  -- Without a token nothing is held.
  redis.call('del', KEYS[1])
  return accepted
end
served()
return accepted
