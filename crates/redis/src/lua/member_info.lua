-- Returns what the rules of members judge, read at one instant.
-- KEYS: 1 admission record
-- ARGV: none
-- Replies: {record as a flat list, run identity, seconds and microseconds of the server's time}
-- Rule: reads only.
local time = redis.call('time')
return {redis.call('hgetall', KEYS[1]), run_identity(), time[1], time[2]}
