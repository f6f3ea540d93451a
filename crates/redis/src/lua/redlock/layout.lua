-- Redlock's layout (prepended to handoff.lua and notify_next.lua).
--
-- No program subscribes to the name's channel.
local STRANGERS = false

-- Grants a free name to a nonce for `ttl` ms. Returns whether the nonce holds the name now.
local function take(name, nonce, ttl)
  local set = redis.pcall('set', name, nonce, 'nx', 'px', ttl)
  return set and not set.err
end

