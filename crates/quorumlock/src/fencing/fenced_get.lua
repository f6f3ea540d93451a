-- Claim a resource for a fencing token, then read it.
-- KEYS: 1 value (a string), 2 the largest token seen
-- ARGV: 1 token
-- Replies: {1, value or nil} (claimed), {0, the largest token seen} (stale)
-- Rule: claim before reading, in one step, so that no older holder can write between this read
-- and the write that is computed from it. KEYS[2] must never expire or be evicted.
local token = string.match(ARGV[1], '^%d+$') and tonumber(ARGV[1])
-- Lua's numbers are exact up to 2^53 (for our tokens, microseconds: to the year 2255).
if not token or string.format('%.0f', token) ~= ARGV[1] then
  return redis.error_reply('ERR not a fencing token: ' .. ARGV[1])
end
local seen = redis.call('get', KEYS[2]) or '0'
if token < tonumber(seen) then
  return {0, seen}
end
redis.call('set', KEYS[2], ARGV[1])
return {1, redis.call('get', KEYS[1])}
