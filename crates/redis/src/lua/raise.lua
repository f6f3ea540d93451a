-- Accepts another token for an acquisition that holds all its names.
-- KEYS: see claim.lua; the last one: see check_admission.lua
-- ARGV: 1 nonce, 2 proposed token
-- Replies: 0 (accepted), the mark (the token is not above it), nil (this nonce does not hold a
--   name), error BADMARK
-- Rules: only while this nonce holds the names (PROTOCOL.md T2); only a token above the mark (T5).
for i = 1, COUNT do
  if not held(KEYS[i], ARGV[1]) then
    return nil
  end
end
return accept_all(ARGV[2])
