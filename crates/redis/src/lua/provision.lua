-- Admits the current run identity of the server at once: on the operator's word, or because this
-- server can never have granted anything.
-- KEYS: 1 admission record
-- ARGV: 1 fresh incarnation, 2 cluster, 3 epoch, 4 number of nodes, 5 longest lease in ms,
--   6 replace an existing record (1 or 0)
-- Replies: 1 (admitted), 0 (a record exists, and ARGV 6 is 0)
-- Rule: marks stay as they are.
if ARGV[6] ~= '1' and redis.call('exists', KEYS[1]) == 1 then
  return 0
end
-- `stamp` comes first: every acquisition reads it, and the server searches the fields in order.
redis.call('hset', KEYS[1], 'stamp', ARGV[1], 'life', run_identity(), 'cluster', ARGV[2], 'epoch', ARGV[3],
  'nodes', ARGV[4], 'longest_ms', ARGV[5])
redis.call('hdel', KEYS[1], 'pending')
return 1
