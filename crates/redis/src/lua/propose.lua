-- The client proposes the token of a grant (prepended to acquire.lua).
-- KEYS: see claim.lua
-- ARGV: 4 proposed token (0: none)
-- Replies: 0 (accepted, or none proposed), the mark (the token is not above it), error BADMARK
-- Rule: the script accepts only a token above the mark (PROTOCOL.md T5).
local function token_of_grant()
  return ARGV[4] == '0' and 0 or accept_all(ARGV[4])
end

