-- Claim a resource for a fencing token and write it, in one step.
-- KEYS: 1 value (a string), 2 the largest token seen
-- ARGV: 1 token, 2 new value
-- Replies: {1, token} (written), {0, the largest token seen} (stale: nothing was written)
-- Rule: refuse a token smaller than one already seen. The old value from which the new one is
-- computed must have been read by fenced_get.lua under the same token. KEYS[2] must never expire or
-- be evicted.
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
redis.call('set', KEYS[1], ARGV[2])
return {1, ARGV[1]}
