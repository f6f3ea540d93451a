-- Publishes a message (prepended to the scripts that notify). Returns how many subscribers have it: 0
-- also if the user may not publish, or not on this channel. A message is advice, so that its failure
-- fails no script.
local function told(channel, text)
  local heard = redis.pcall('publish', channel, text)
  return type(heard) == 'number' and heard or 0
end


-- The name in messages to waiters, by which a client knows what the waiter asks for.
local function told_as(name, kind)
  return (kind == 'read' or kind == 'write') and 'quorumlock:' .. kind .. ':' .. name or name
end
