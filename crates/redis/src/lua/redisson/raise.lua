-- Accepts another token for an acquisition that holds the name.
-- KEYS: 1 name, 2 mark
-- ARGV: 1 field, 2 proposed token
-- Replies: 0 (accepted), the mark (the token is not above it), nil (this field does not hold the
--   name), error BADMARK
-- Rules: only while this field holds the name (PROTOCOL.md T2); only a token above the mark (T5).
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return false
end
return accept(KEYS[2], ARGV[2])
