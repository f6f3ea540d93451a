-- Leave the queue of a name.
-- KEYS: 1 name, 2 waiters, 3 channel, 4 mark
-- ARGV: 1 waiter
-- Replies: 0
-- Rule: whoever was woken already passes that on: the name may be free, and the others sleep.
if redis.pcall('zrem', KEYS[2], ARGV[1]) == 0 and redis.call('exists', KEYS[1]) == 0 then
  wake(KEYS[1], KEYS[2], KEYS[3], KEYS[4])
end
return 0
