-- Admits the present run of a server under its mature note.
-- KEYS: 1 admission record, then the marks that the other nodes reported
-- ARGV: 1 client's time in microseconds, 2 clock bound in microseconds, 3 label, 4 id of the note,
--   5 age of a mature note in microseconds, 6 fresh incarnation, 7 phase, 8 list, 9 next list or '',
--   10 longest lease in ms, 11 clock bound in ms, 12 protocol, then one token for each of those marks
-- Replies: 1 (admitted), 0 (the note or the run is another, the note is too young, or the clocks
--   differ), error BADMARK
-- Rule: marks only rise. The note is judged in the step that ends it (PROTOCOL.md MEM3, MEM4).
local time = agreed_time(ARGV[1], ARGV[2])
if not time then
  return 0
end
local now = run_identity()
local note = redis.call('hmget', KEYS[1], 'pending', 'note_label', 'note_since')
if note[1] ~= ARGV[4] or string.sub(ARGV[4], 1, #now + 1) ~= now .. '/' or note[2] ~= ARGV[3] then
  return 0
end
if time - note[3] < tonumber(ARGV[5]) then
  return 0
end
for i = 2, #KEYS do
  local accepted = accept(KEYS[i], ARGV[i + 11])
  if type(accepted) == 'table' then
    return accepted
  end
end
-- A server that refuses the write must not lose its record by it.
redis.call('hset', KEYS[1], 'stamp', ARGV[6])
redis.call('del', KEYS[1])
-- `stamp` comes first: every acquisition reads it, and the server searches the fields in order.
redis.call('hset', KEYS[1], 'stamp', ARGV[6], 'life', now, 'label', ARGV[3], 'phase', ARGV[7],
  'list', ARGV[8], 'next', ARGV[9], 'longest_ms', ARGV[10], 'clock_bound_ms', ARGV[11],
  'protocol', ARGV[12])
return 1
