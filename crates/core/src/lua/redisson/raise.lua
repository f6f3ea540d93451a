-- Raise the fencing counter to a token that a quorum agreed on.
-- KEYS: 1 name, 2 fencing counter
-- ARGV: 1 field, 2 token, 3 keep counter for ms
-- Replies: 1 (raised), 0 (not held by this field: does not count), -1 (as high already: does not count),
--   error BADCOUNTER, BADMARK
-- Rules: only while held (SAFETY.md, Tokens, a1 and a2); what others raised is theirs (a5).
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
local raised = raise_token(KEYS[2], ARGV[2], ARGV[3])
return type(raised) == 'table' and raised or raised and 1 or -1
