-- Extends many leases, and sets their hold counts.
-- KEYS: the names; the last one: see check_admission.lua
-- ARGV: for each name: nonce, ttl_ms, hold count
-- Replies: for each name: 1 (held, extended), 0 (not held by this nonce), or the server's error;
--   last the reply to TIME
-- Rules: never shortens a lease; needs no memory, so that a full server loses no lock
-- (SAFETY.md H15).
local out = {}
for i = 1, #ARGV / 3 do
  local name, at = KEYS[i], 3 * i - 2
  local ttl = math.min(tonumber(ARGV[at + 1]), LONGEST or math.huge)
  out[i] = extend(name, ARGV[at], ttl, ARGV[at + 2])
end
-- The client watches the server's clock: keys expire by it, and it may be set (SAFETY.md H6).
out[#out + 1] = redis.call('time')
return out
