-- Lengthen many leases.
-- KEYS: the names
-- ARGV: for each name: nonce, ttl_ms, unused
-- Replies: for each name: 1 (held, lengthened), 0 (not held by this nonce)
-- Rules: never shortens; needs no memory, so that a full server loses no lock (safety.md H15).
local out = {}
for i, key in ipairs(KEYS) do
  local at = 3 * i - 2
  if redis.pcall('get', key) ~= ARGV[at] then
    out[i] = 0
  else
    if redis.call('pttl', key) < tonumber(ARGV[at + 1]) then
      redis.call('pexpire', key, ARGV[at + 1])
    end
    out[i] = 1
  end
end
return out
