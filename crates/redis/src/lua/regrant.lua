-- Grants a name to an acquisition whose window is open, on a node that may lack it: the node was
-- down, lost its memory, or its answer never arrived.
-- KEYS: 1 name, 2 mark; the last one: see check_admission.lua
-- ARGV: 1 nonce, 2 ttl_ms, 3 hold count, 4 token
-- Replies: 1 (held now), {pttl} (held by another), error NOTALOCK, BADMARK
-- Rules: a fresh grant, only on a node whose memory is proven; confirms no token; never shortens a
-- lease.
local other = conflict(KEYS[1], ARGV[1])
if other then
  return other
end
local accepted = ARGV[4] == '0' and 0 or accept(KEYS[2], ARGV[4])
if type(accepted) == 'table' then
  return accepted
end
local ttl = math.min(tonumber(ARGV[2]), LONGEST or math.huge)
return put(KEYS[1], ARGV[1], ttl, ARGV[3]) or 1
