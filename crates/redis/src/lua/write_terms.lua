-- Writes the next phase of a change of members over the one before it, or the first phase over a
-- record without a list.
-- KEYS: 1 admission record
-- ARGV: 1 incarnation of the record that the operator has seen, 2 fresh incarnation, 3 phase, 4 list,
--   5 next list or '', 6 label, 7 clock bound in ms
-- Replies: 1 (written), 0 (the run or the record is another)
-- Rule: by one phase at a time (PROTOCOL.md MEM6). The new incarnation ends the votes that rest on
--   the lists before.
local record = redis.call('hmget', KEYS[1], 'life', 'stamp', 'phase')
if record[1] ~= run_identity() or record[2] ~= ARGV[1] or (record[3] or 0) + 1 ~= tonumber(ARGV[3]) then
  return 0
end
redis.call('hdel', KEYS[1], 'outdated_list', 'outdated_at')
redis.call('hset', KEYS[1], 'stamp', ARGV[2], 'phase', ARGV[3], 'list', ARGV[4], 'next', ARGV[5],
  'label', ARGV[6], 'clock_bound_ms', ARGV[7])
return 1
