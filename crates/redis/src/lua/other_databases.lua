-- Returns the numbers of the server's other databases that have an admission record or a note.
-- KEYS: 1 admission record
-- ARGV: 1 number of this database
-- Replies: the numbers
-- Rule: reads only. A script's SELECT ends with the script.
local found = {}
for database in string.gmatch(redis.call('info', 'keyspace'), 'db(%d+):') do
  if database ~= ARGV[1] then
    redis.call('select', database)
    if redis.call('exists', KEYS[1]) == 1 then
      found[#found + 1] = tonumber(database)
    end
  end
end
return found
