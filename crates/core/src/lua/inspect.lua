-- Who holds a name, in either wire's layout?
-- KEYS: 1 name
-- ARGV: none
-- Replies: {id, hold count, pttl}, or nil (free)
-- Rule: reads only.
local kind = redis.call('type', KEYS[1]).ok
if kind == 'hash' then
  local fields = redis.call('hgetall', KEYS[1])
  return {fields[1], fields[2], redis.call('pttl', KEYS[1])}
elseif kind == 'string' then
  return {redis.call('get', KEYS[1]), '1', redis.call('pttl', KEYS[1])}
elseif kind == 'none' then
  return false
end
return redis.error_reply('WRONGTYPE not a lock: ' .. kind)
