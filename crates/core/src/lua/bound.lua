-- With admission (prepended to the voting scripts, its three values filled in by a client that has
-- verified this life of the server): one read proves that the memory is still the one verified,
-- after a flush, a resynchronisation or a barrier as well (H13). The script cache does not outlive
-- the server, so a restart answers NOSCRIPT (H9, H10). (SAFETY.md A3)
local RECORD, STAMP, LONGEST = '@RECORD@', '@STAMP@', @LONGEST@
if redis.call('hget', RECORD, 'stamp') ~= STAMP then
  return redis.error_reply('UNPROVEN the memory of this server must be verified again')
end
