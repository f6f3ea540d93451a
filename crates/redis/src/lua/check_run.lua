-- With admission, on a server that refuses SCRIPT LOAD or a transaction (prepended to the voting
-- scripts, behind check_admission.lua).
-- KEYS: none
-- ARGV: none
-- Replies: error UNPROVEN
-- Rule: the script cache of such a server proves no run, since its clients load the scripts in a step
-- of its own. So each vote compares the run (PROTOCOL.md ADM6).
if redis.call('hget', RECORD, 'life') ~= run_identity() then
  return redis.error_reply('UNPROVEN the memory of this server must be verified again')
end
