-- Writes a note that the current run identity of the server is being watched.
-- KEYS: 1 admission record
-- ARGV: 1 fresh id, 2 cluster, 3 epoch, 4 number of nodes, 5 longest lease in ms
-- Replies: the note (an earlier client's, if one exists for this run identity), '' (admitted
--   already)
-- Rule: the client that sees the note times the admission by its own clock, never by the server's.
local now = run_identity()
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
