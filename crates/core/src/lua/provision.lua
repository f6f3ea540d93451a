-- Admit the present life of the server at once: on the operator's word, or because nothing can
-- ever have been granted here.
-- KEYS: 1 record
-- ARGV: 1 fresh stamp, 2 cluster, 3 epoch, 4 nodes, 5 longest lease in ms, 6 replace (1 or 0)
-- Replies: 1 (done), 0 (there is a record, and it was not to be replaced)
-- Rule: marks stay as they are.
if ARGV[6] ~= '1' and redis.call('exists', KEYS[1]) == 1 then
  return 0
end
-- First in a new record, and so found first, what every acquisition reads.
redis.call('hset', KEYS[1], 'stamp', ARGV[1], 'life', life(), 'cluster', ARGV[2], 'epoch', ARGV[3],
  'nodes', ARGV[4], 'longest_ms', ARGV[5])
redis.call('hdel', KEYS[1], 'pending')
return 1
