-- Returns the holder of a name.
-- KEYS: 1 name
-- ARGV: none
-- Replies: {id, hold count, pttl}, or nil (free), error NOTALOCK
-- Rule: reads only.
local who, holds = holder(KEYS[1])
if type(who) ~= 'string' then
  return who
end
return {who, holds or '1', redis.call('pttl', KEYS[1])}
