-- Admits the run identity that a client has watched for the longest lease.
-- KEYS: 1 admission record, then the marks that the other nodes reported
-- ARGV: 1 note, 2 fresh incarnation, then one token for each of those marks
-- Replies: 1 (admitted), 0 (the note or the run identity has changed), error BADMARK
-- Rule: marks only rise.
if redis.call('hget', KEYS[1], 'pending') ~= ARGV[1] then
  return 0
end
local now = run_identity()
if string.sub(ARGV[1], 1, #now + 1) ~= now .. '/' then
  return 0
end
for i = 2, #KEYS do
  local accepted = accept(KEYS[i], ARGV[i + 1])
  if type(accepted) == 'table' then
    return accepted
  end
end
redis.call('hset', KEYS[1], 'life', now, 'stamp', ARGV[2])
redis.call('hdel', KEYS[1], 'pending')
return 1
