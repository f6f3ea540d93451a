-- What the server says of itself, and its record, at one instant.
-- KEYS: 1 record
-- ARGV: none
-- Replies: {record as a flat list, INFO server, INFO replication, INFO memory}
-- Rule: reads only.
return {
  redis.call('hgetall', KEYS[1]),
  redis.call('info', 'server'),
  redis.call('info', 'replication'),
  redis.call('info', 'memory'),
}
