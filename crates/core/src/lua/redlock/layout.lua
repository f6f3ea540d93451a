-- What wake.lua must know of Redlock's layout (prepended to it).
--
-- Nobody listens to a name's channel.
local STRANGERS = false

-- Gives a free name to a nonce: whether it holds it now.
local function take(name, nonce, ttl)
  local set = redis.pcall('set', name, nonce, 'nx', 'px', ttl)
  return set and not set.err
end

