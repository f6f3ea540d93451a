-- Releases one acquisition, then hands the name off to the next waiter, or notifies that waiter.
-- KEYS: 1 name, 2 channel, 3 waiters, 4 mark
-- ARGV: 1 nonce; 2 the caller's queue member (handoff.lua; absent: the queue keeps its members);
--   3 microseconds that the caller has waited (absent: the script removes the queue member). With
--   3, a caller that held the name keeps its place in the queue, and no waiter is notified.
-- Replies: 0 (was not held), else 1 + the result of notify_next.lua; error READONLY
-- Rules: matches this acquisition, never its owner; needs no memory (SAFETY.md H15, H16).
if ARGV[2] and not ARGV[3] then
  local refused = dequeue(KEYS[3], ARGV[2])
  if refused then
    return refused
  end
end
local dropped, free = drop(KEYS[1], ARGV[1])
if dropped == 1 and ARGV[3] then
  enqueue(KEYS[3], ARGV[2], now_us() - ARGV[3], 1000)
  return 1
end
-- Also a name that this nonce did not hold: the caller won without this node, or an earlier request
-- freed the name and was cut off before it notified a waiter. A waiter that is queued only here must
-- still be notified (PROTOCOL.md W4, REL2, decision 0016).
local notified = free and notify_next(KEYS[1], KEYS[3], KEYS[2], KEYS[4], ARGV[1]) or 0
return dropped == 1 and 1 + notified or 0
