-- Returns the node info: the admission record and INFO of the server, read at one instant.
-- KEYS: 1 admission record
-- ARGV: none
-- Replies: {record as a flat list, INFO server, INFO replication, INFO memory}
-- Rule: reads only.
return {
  redis.call('hgetall', KEYS[1]),
  redis.call('info', 'server'),
  redis.call('info', 'replication'),
  redis.call('info', 'memory'),
}
