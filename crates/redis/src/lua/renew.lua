-- Extends many leases.
-- KEYS: the names
-- ARGV: for each name: nonce, ttl_ms, unused
-- Replies: for each name: 1 (held, extended), 0 (not held by this nonce), or the server's error;
--   last the reply to TIME
-- Rules: never shortens a lease; needs no memory, so that a full server loses no lock
-- (SAFETY.md H15).
local out = {}
for i, key in ipairs(KEYS) do
  local at = 3 * i - 2
  local nonce = redis.pcall('get', key)
  if type(nonce) == 'table' and not string.find(nonce.err, 'WRONGTYPE') then
    out[i] = nonce
  elseif nonce ~= ARGV[at] then
    out[i] = 0
  else
    local ttl = math.min(tonumber(ARGV[at + 1]), LONGEST or math.huge)
    if redis.call('pttl', key) < ttl then
      redis.call('pexpire', key, ttl)
    end
    out[i] = 1
  end
end
-- The client watches the server's clock: keys expire by it, and it may be set (SAFETY.md H6).
out[#KEYS + 1] = redis.call('time')
return out
