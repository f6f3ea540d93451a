-- Redisson's layout (prepended to handoff.lua and notify_next.lua).
--
-- Programs without our queue (Redisson) subscribe to the name's channel.
local STRANGERS = true

-- Grants a free name to a field for `ttl` ms. Returns whether the field holds the name now.
local function take(name, field, ttl)
  return put(name, field, 1, ttl) == nil
end

