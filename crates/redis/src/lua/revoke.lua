-- Revokes the incarnation in a record of another run: its scripts vote on no other memory.
-- KEYS: 1 admission record
-- ARGV: none
-- Replies: 1 (revoked), 0
-- Rule: in one step with the load of the scripts (PROTOCOL.md ADM6).
if redis.call('hget', KEYS[1], 'life') ~= run_identity() then
  return redis.call('hdel', KEYS[1], 'stamp')
end
return 0
