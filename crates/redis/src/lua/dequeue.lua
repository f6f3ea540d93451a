-- Leaves the queue of a name, or passes a notification on.
-- KEYS: 1 name, 2 waiters, 3 channel, 4 mark
-- ARGV: 1 the caller's queue member; '-': the caller keeps its place, and was notified
-- Replies: 0, error READONLY
-- Rule: a waiter that was notified, or is no longer queued, passes the notification on if the name is free,
-- because the other waiters sleep. So does one for several names, to which free names were left (PROTOCOL.md
-- SET5). A replica can do neither.
local score = redis.pcall('zscore', KEYS[2], ARGV[1])
local _, was_told = sign_of(tonumber(type(score) == 'string' and score or 1), 0)
local removed = redis.pcall('zrem', KEYS[2], ARGV[1])
local _, kind = parts_of(ARGV[1])
if not shares(kind) then
  end_turn(KEYS[1])
end
if type(removed) == 'table' and string.find(removed.err, 'READONLY') then
  return removed
elseif (was_told or kind == 'set') and is_free(KEYS[1]) then
  notify_next(KEYS[1], KEYS[2], KEYS[3], KEYS[4])
end
return 0
