-- Writes a lock in Redisson's layout (prepended to the scripts that grant one).
--
-- Sets the hold count of a field, and the expiry of the name in `ttl` ms. Returns an error if the
-- server refuses one of the two, and then leaves no key without an expiry: the commands of a script
-- that has failed are not undone.
local function put(name, field, holds, ttl)
  local added = redis.pcall('hset', name, field, holds)
  if type(added) == 'table' then
    return added
  end
  local expires = redis.pcall('pexpire', name, ttl)
  if type(expires) == 'table' then
    if added == 1 then
      redis.call('del', name)
    end
    return expires
  end
end

