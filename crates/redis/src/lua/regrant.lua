-- Grants all names of an acquisition whose window is open, on a node that may lack them: the node was
-- down, lost its memory, or its answer never arrived.
-- KEYS: see claim.lua; the last one: see check_admission.lua
-- ARGV: 1 nonce, 2 ttl_ms, 3 hold count, 4 token
-- Replies: 1 (held now), {pttl} (another holds a name), error OTHERKIND, NOTALOCK, BADMARK
-- Rules: a fresh grant, only on a node whose memory is proven; confirms no token; never shortens a
-- lease.
for i = 1, COUNT do
  local other = conflict(KEYS[i], ARGV[1])
  if other then
    return other
  end
end
local accepted = ARGV[4] == '0' and 0 or accept_all(ARGV[4])
if type(accepted) == 'table' then
  return accepted
end
local ttl = math.min(tonumber(ARGV[2]), LONGEST or math.huge)
for i = 1, COUNT do
  local refused = put(KEYS[i], ARGV[1], ttl, ARGV[3])
  if refused then
    return refused
  end
end
return 1
