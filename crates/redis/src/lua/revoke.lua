-- Revokes the incarnation in a record of another run: its scripts vote on no other memory. Revokes the
-- whole record, or the note, of a memory that went back to an earlier one.
-- KEYS: 1 admission record
-- ARGV: incarnations and ids of notes that the client has seen superseded on this node
-- Replies: 1 and more (revoked), 0
-- Rule: in one step with the load of the scripts (PROTOCOL.md ADM6). What is superseded is compared with
-- the record of this moment: the client may have read an older one (ADM10).
local revoked = 0
for _, id in ipairs(ARGV) do
  local record = redis.call('hmget', KEYS[1], 'stamp', 'pending')
  if record[1] == id then
    revoked = revoked + redis.call('hdel', KEYS[1], 'life')
  elseif record[2] == id then
    revoked = revoked + redis.call('hdel', KEYS[1], 'pending')
  end
end
if redis.call('hget', KEYS[1], 'life') ~= run_identity() then
  return revoked + redis.call('hdel', KEYS[1], 'stamp')
end
return revoked
