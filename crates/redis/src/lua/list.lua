-- Finds the keys that look like locks, in one step of SCAN.
-- KEYS: none
-- ARGV: 1 cursor, 2 how many keys to look at, 3 type of a lock in this layout (string or hash)
-- Replies: {cursor, key, ...}; a read-write lock has `quorumlock:write:` before its key
-- Rules: reads only. A string is a lock if it expires, and is 32 hexadecimal digits (ours, node-redlock's)
-- or 24 characters of base64 (redsync's): other values are no sign of a lock.
local step = redis.call('scan', ARGV[1], 'count', ARGV[2])
local found = {step[1]}

local function is_string_lock(key)
  local length = redis.call('strlen', key)
  return (length == 32 or length == 24) and redis.call('pttl', key) ~= -1
    and string.find(redis.call('get', key), length == 32 and '^%x+$' or '^[%w+/]+==$')
end

local function is_hash_lock(key)
  return redis.call('hlen', key) == 1 and string.find(redis.call('hkeys', key)[1], '^[%x%-]+:%-?%d+$')
end

local function is_read_write_lock(key)
  for _, member in ipairs(redis.call('zrange', key, 0, 1)) do
    if string.find(member, '^%x+:[rw]$') then
      return true
    end
  end
end

for _, key in ipairs(step[2]) do
  local kind = redis.pcall('type', key)
  if kind.err and string.find(kind.err, "can't run this command") then
    return kind
  end
  -- The user may not read the key, or its slot is on its way to this server.
  kind = kind.ok
  if string.find(key, '^quorumlock:') and not string.find(key, '^quorumlock:permit:') then
    kind = 'ours, and no lock'
  end
  if kind == ARGV[3] and (kind == 'string' and is_string_lock(key) or kind == 'hash' and is_hash_lock(key)) then
    table.insert(found, key)
  elseif kind == 'zset' and is_read_write_lock(key) then
    table.insert(found, 'quorumlock:write:' .. key)
  end
end
return found
