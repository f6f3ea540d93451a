-- Give back one acquisition, and wake who waits.
-- KEYS: 1 name, 2 channel, 3 waiters
-- ARGV: 1 nonce
-- Replies: 0 (was not held), else 1 + whom it woke (wake.lua)
-- Rules: matches this acquisition, never its owner; needs no memory (SAFETY.md H15, H16).
local held = redis.call('get', KEYS[1])
if held ~= ARGV[1] then
  -- Won without this node, perhaps: who waits here alone would not hear of it (SAFETY.md e6).
  if not held and redis.call('exists', KEYS[3]) == 1 then
    wake(KEYS[1], KEYS[3], KEYS[2])
  end
  return 0
end
redis.call('del', KEYS[1])
return 1 + wake(KEYS[1], KEYS[3], KEYS[2])
