-- Reads the holder of a lock in Redisson's layout (prepended to the scripts that need it).
--
-- Returns the holder of a name as `UUID:ID` (false: the name is free), or an error if the key is
-- not such a lock. Redisson's read-write locks have one more field, `mode`, which is `read` or
-- `write`.
local function holder_of(name)
  local fields = redis.pcall('hlen', name)
  if fields == 0 then
    return false
  elseif type(fields) == 'table' then
    return fields
  elseif fields == 1 then
    local field = redis.call('hkeys', name)[1]
    if #field > 32 and string.find(field, '^[%x%-]+:%-?%d+$') then
      return field
    end
  else
    local mode = redis.call('hget', name, 'mode')
    if mode == 'read' then
      local readers = fields == 2 and '1 reader' or (fields - 1) .. ' readers'
      return redis.error_reply("NOTALOCK Redisson's read-write lock, " .. readers)
    elseif mode then
      return redis.error_reply("NOTALOCK Redisson's read-write lock, 1 writer")
    end
  end
  return redis.error_reply('NOTALOCK a hash whose fields are no holders')
end

