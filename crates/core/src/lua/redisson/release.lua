-- Give back one acquisition, and wake who waits, or hand the name over.
-- KEYS: 1 name, 2 channel, 3 waiters, 4 mark
-- ARGV: 1 field; 2 as what it stands in the queue (hand.lua), if it gives up waiting; 3 for how many
--   microseconds it has waited, if it stands there from now on: it keeps its turn, and nobody is woken;
--   4 for how many ms it stays, if those before it have their turn first
-- Replies: 0 (was not held), else 1 + whom it woke (wake.lua)
-- Rules: matches this acquisition, never its owner; needs no memory (SAFETY.md H15, H16).
if ARGV[2] and not ARGV[3] then
  redis.pcall('zrem', KEYS[3], ARGV[2])
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  -- Won without this node, or freed by an earlier request that was cut before it told anybody: who
  -- waits here alone would not hear of it (SAFETY.md e6, decision 0031).
  if redis.call('exists', KEYS[1]) == 0 then
    wake(KEYS[1], KEYS[3], KEYS[2], KEYS[4], ARGV[1])
  end
  return 0
end
redis.call('del', KEYS[1])
if ARGV[3] then
  stand(KEYS[3], ARGV[2], ARGV[3], math.max(tonumber(ARGV[4]) or 0, 1000))
  if not ARGV[4] then
    return 1
  end
end
return 1 + wake(KEYS[1], KEYS[3], KEYS[2], KEYS[4], ARGV[1])
