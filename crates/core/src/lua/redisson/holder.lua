-- What a key says of a lock in Redisson's layout (prepended to the scripts that ask).
--
-- Who holds a name, as `UUID:ID` (false: nobody), or the error of a key that is no such lock. Redisson's
-- read-write locks have a field more, which says how they are held.
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
  elseif redis.call('hexists', name, 'mode') == 1 then
    return redis.error_reply('NOTALOCK a read-write lock of Redisson')
  end
  return redis.error_reply('NOTALOCK a hash whose fields are no holders')
end

