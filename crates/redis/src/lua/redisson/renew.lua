-- Extends many leases, and sets their hold counts.
-- KEYS: the names
-- ARGV: for each name: field, ttl_ms, hold count
-- Replies: for each name: 1 (held, extended), 0 (not held by this field), or the server's error;
--   last the reply to TIME
-- Rules: never shortens a lease; needs no memory, so that a full server loses no lock
-- (SAFETY.md H15): the script writes the count only if it changed, and renews the lease even if the
-- server refuses that write.
local out = {}
for i, key in ipairs(KEYS) do
  local at = 3 * i - 2
  local count = redis.pcall('hget', key, ARGV[at])
  if type(count) == 'table' and not string.find(count.err, 'WRONGTYPE') then
    out[i] = count
  elseif type(count) ~= 'string' then
    out[i] = 0
  else
    if count ~= ARGV[at + 2] then
      redis.pcall('hset', key, ARGV[at], ARGV[at + 2])
    end
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
