-- Accept another token for an acquisition that holds the name.
-- KEYS: 1 name, 2 mark
-- ARGV: 1 nonce, 2 proposed token
-- Replies: 0 (accepted), a mark (the token is not above it), nil (not held by this nonce), error BADMARK
-- Rules: only while held (SAFETY.md a2), and only from below (a5).
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return false
end
return accept(KEYS[2], ARGV[2])
