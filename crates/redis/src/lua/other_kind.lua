-- Names a key that holds no lock of the caller's layout (prepended to the layouts).

-- Returns what the sorted set or hash is, if it is a read-write lock.
local function as_read_write(name, kind)
  if kind == 'hash' then
    local mode, fields = redis.pcall('hget', name, 'mode'), redis.pcall('hlen', name)
    local readers = fields == 2 and '1 reader' or (tonumber(fields) or 2) - 1 .. ' readers'
    return type(mode) == 'string'
      and "Redisson's read-write lock, " .. (mode == 'read' and readers or '1 writer')
  end
  -- A hundred holders at most.
  local members = redis.pcall('zrange', name, 0, 99, 'withscores')
  local time, holders, writes = redis.call('time'), 0, false
  for at = 1, #members, 2 do
    local member = members[at]
    if member ~= 'turn' and not string.find(member, '^%x+:[rw]$') then
      return nil
    elseif member ~= 'turn' and tonumber(members[at + 1]) > time[1] * 1000 then
      holders, writes = holders + 1, writes or string.find(member, ':w$') ~= nil
    end
  end
  local who = writes and '1 writer' or holders == 1 and '1 reader' or holders .. ' readers'
  return #members > 0 and 'a read-write lock, ' .. who
end

-- Returns the error for a key of another type: `OTHERKIND` and which lock it is, or `NOTALOCK` and what it
-- is. Any other error of the server stays.
local function other_kind(name, refused)
  local kind = string.find(refused.err, 'WRONGTYPE') and redis.pcall('type', name).ok
  if not kind or kind == 'none' then
    return refused
  end
  local lock = nil
  if kind == 'string' then
    lock = redis.call('pttl', name) > 0 and "a lock of Redlock's layout"
  elseif kind == 'hash' or kind == 'zset' then
    lock = as_read_write(name, kind)
  end
  if kind == 'hash' and not lock then
    local fields = redis.pcall('hkeys', name)
    lock = #fields == 1 and string.find(fields[1], '^[%x%-]+:%-?%d+$') and "a lock of Redisson's layout"
  end
  local names = {zset = 'a sorted set'}
  return redis.error_reply(lock and 'OTHERKIND ' .. lock or 'NOTALOCK ' .. (names[kind] or 'a ' .. kind))
end

