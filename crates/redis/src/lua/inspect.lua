-- Returns the holder of a name.
-- KEYS: 1 name
-- ARGV: none
-- Replies: {id, hold count, pttl}, or nil (free), error NOTALOCK
-- Rule: reads only.
local holder = holder_of(KEYS[1])
if type(holder) ~= 'string' then
  return holder
end
local holds = redis.call('type', KEYS[1]).ok == 'hash' and redis.call('hget', KEYS[1], holder) or '1'
return {holder, holds, redis.call('pttl', KEYS[1])}
