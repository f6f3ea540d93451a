-- Returns the node info: the admission record, INFO and the time of the server, read at one instant.
-- KEYS: 1 admission record
-- ARGV: 1 list of the client; empty if it only observes
-- Replies: {record as a flat list, INFO server, INFO replication, INFO memory, seconds, microseconds},
--   error NOINFO
-- Rule: a client whose list is not the newest leaves the list and the time, for `quorumlock members`.
--   A server that cannot write answers all the same.
-- The error of a server that tells a script nothing about itself names the command.
local server = redis.pcall('info', 'server')
if type(server) == 'table' then
  return redis.error_reply('NOINFO ' .. server.err)
end
local record = redis.call('hmget', KEYS[1], 'list', 'next')
local time = redis.call('time')
local newest = record[2] ~= '' and record[2] or record[1]
if newest and ARGV[1] ~= '' and newest ~= ARGV[1] then
  local micros = time[1] .. string.format('%06d', time[2])
  redis.pcall('hset', KEYS[1], 'outdated_list', ARGV[1], 'outdated_at', micros)
end
return {
  redis.call('hgetall', KEYS[1]),
  server,
  redis.call('info', 'replication'),
  redis.call('info', 'memory'),
  time[1],
  time[2],
}
