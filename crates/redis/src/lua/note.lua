-- Writes a note on a server without a record of its present run, or takes one over.
-- KEYS: 1 admission record
-- ARGV: 1 client's time in microseconds, 2 clock bound in microseconds, 3 label, 4 list, 5 fresh id,
--   6 id of the note that is taken over ('': write one)
-- Replies: 1 (written), 0 (the note or the run is another, the run is admitted, or the clocks
--   differ)
-- Rule: the server's time is compared with the client's in the step in which it becomes that of the
--   note (PROTOCOL.md MEM3). A note that is taken over keeps its time (MEM4).
local time = agreed_time(ARGV[1], ARGV[2])
if not time then
  return 0
end
local now = run_identity()
local record = redis.call('hmget', KEYS[1], 'life', 'label', 'list', 'next', 'pending', 'note_label',
  'note_since')
local ours = record[3] == ARGV[4] or record[4] == ARGV[4]
if record[1] == now and not (ours and record[2] ~= ARGV[3]) then
  return 0
end
local noted = record[5] and string.sub(record[5], 1, #now + 1) == now .. '/' and record[6] == ARGV[3]
local id = now .. '/' .. ARGV[5]
if ARGV[6] ~= '' then
  if not noted or record[5] ~= ARGV[6] then
    return 0
  end
  redis.call('hset', KEYS[1], 'pending', id, 'note_list', ARGV[4])
  return 1
end
if noted and tonumber(record[7]) <= time then
  return 0
end
redis.call('hset', KEYS[1], 'pending', id, 'note_label', ARGV[3], 'note_list', ARGV[4], 'note_since',
  string.format('%.0f', time))
return 1
