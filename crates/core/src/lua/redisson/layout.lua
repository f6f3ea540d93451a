-- What wake.lua must know of Redisson's layout (prepended to it).
--
-- Programs that know of no queue listen to a name's channel.
local STRANGERS = true

-- Gives a free name to a field: whether it holds it now.
local function take(name, field, ttl)
  return redis.pcall('hset', name, field, 1) == 1 and redis.call('pexpire', name, ttl) == 1
end

