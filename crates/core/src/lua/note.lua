-- Note that the present life of the server is being watched.
-- KEYS: 1 record
-- ARGV: 1 fresh id, 2 cluster, 3 epoch, 4 nodes, 5 longest lease in ms
-- Replies: the note (an earlier client's, if this life is watched already), '' (is admitted)
-- Rule: admission is timed by whoever sees the note, never by the server's own clock.
local now = life()
local record = redis.call('hmget', KEYS[1], 'life', 'stamp', 'pending')
if record[1] == now and record[2] and #record[2] == 32 then
  return ''
end
if record[3] and string.sub(record[3], 1, #now + 1) == now .. '/' then
  return record[3]
end
local note = now .. '/' .. ARGV[1]
redis.call('hset', KEYS[1], 'pending', note)
for i, field in ipairs({'cluster', 'epoch', 'nodes', 'longest_ms'}) do
  redis.call('hsetnx', KEYS[1], field, ARGV[i + 1])
end
return note
