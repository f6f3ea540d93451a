-- Admits the present run of the server at once, on the operator's word.
-- KEYS: 1 admission record
-- ARGV: 1 fresh incarnation, 2 label, 3 phase, 4 list, 5 longest lease in ms, 6 clock bound in ms,
--   7 protocol, 8 incarnation of the record of the present run that the operator has seen, or ''
-- Replies: 1 (admitted), 0 (the record is another)
-- Rule: marks stay as they are.
local now = run_identity()
local record = redis.call('hmget', KEYS[1], 'life', 'stamp')
local seen = record[1] == now and record[2] or ''
if seen ~= ARGV[8] then
  return 0
end
-- A server that refuses the write must not lose its record by it.
redis.call('hset', KEYS[1], 'stamp', ARGV[1])
redis.call('del', KEYS[1])
-- `stamp` comes first: every acquisition reads it, and the server searches the fields in order.
redis.call('hset', KEYS[1], 'stamp', ARGV[1], 'life', now, 'label', ARGV[2], 'phase', ARGV[3],
  'list', ARGV[4], 'next', '', 'longest_ms', ARGV[5], 'clock_bound_ms', ARGV[6],
  'protocol', ARGV[7])
return 1
