-- With admission (prepended to the voting scripts; the client that has verified this run identity
-- of the server fills in the two values).
-- KEYS: the last one: the admission record
-- ARGV: none
-- Replies: error UNPROVEN
-- Rule: one read proves that the memory is still the verified one. A flush, a resynchronisation or a
-- barrier fails the comparison (H13). The script cache does not outlive the server, so a restarted
-- server answers NOSCRIPT (H9, H10). (SAFETY.md A3)
local RECORD, STAMP, LONGEST = KEYS[#KEYS], '@STAMP@', @LONGEST@
if redis.call('hget', RECORD, 'stamp') ~= STAMP then
  return redis.error_reply('UNPROVEN the memory of this server must be verified again')
end
