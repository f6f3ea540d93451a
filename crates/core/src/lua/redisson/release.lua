-- Give back one acquisition, and wake who waits.
-- KEYS: 1 name, 2 channel, 3 waiters
-- ARGV: 1 field
-- Replies: 0 (was not held), else 1 + whom it woke (wake.lua)
-- Rules: matches this acquisition, never its owner; needs no memory (SAFETY.md H15, H16).
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('del', KEYS[1])
return 1 + wake(KEYS[1], KEYS[3], KEYS[2])
