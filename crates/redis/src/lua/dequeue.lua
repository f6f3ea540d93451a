-- Leaves the queue of a name.
-- KEYS: 1 name, 2 waiters, 3 channel, 4 mark
-- ARGV: 1 waiter
-- Replies: 0, error READONLY
-- Rule: a waiter that is no longer queued may have been notified. If the name is free, the script
-- passes the notification on, because the other waiters sleep. A replica can do neither.
local removed = redis.pcall('zrem', KEYS[2], ARGV[1])
if not shares(ARGV[1]) then
  end_turn(KEYS[1])
end
if type(removed) == 'table' and string.find(removed.err, 'READONLY') then
  return removed
elseif removed == 0 and is_free(KEYS[1]) then
  notify_next(KEYS[1], KEYS[2], KEYS[3], KEYS[4])
end
return 0
