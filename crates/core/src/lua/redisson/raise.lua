-- Accept another token for an acquisition that holds the name.
-- KEYS: 1 name, 2 mark
-- ARGV: 1 field, 2 proposed token
-- Replies: 0 (accepted), a mark (the token is not above it), nil (not held by this field), error BADMARK
-- Rules: only while held (SAFETY.md a2), and only from below (a5).
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return false
end
return accept(KEYS[2], ARGV[2])
