-- Accepts another token for an acquisition that holds the name.
-- KEYS: 1 name, 2 mark; the last one: see check_admission.lua
-- ARGV: 1 nonce, 2 proposed token
-- Replies: 0 (accepted), the mark (the token is not above it), nil (this nonce does not hold the
--   name), error BADMARK
-- Rules: only while this nonce holds the name (PROTOCOL.md T2); only a token above the mark (T5).
return held(KEYS[1], ARGV[1]) and accept(KEYS[2], ARGV[2])
