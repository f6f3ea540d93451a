-- With admission, on a server that refuses SCRIPT LOAD or a transaction, and on a master whose replicas
-- may be promoted (prepended to the voting scripts, behind check_admission.lua).
-- KEYS: none
-- ARGV: none
-- Replies: error UNPROVEN
-- Rule: the script cache of such a server proves no run: its clients load the scripts in a step of its
-- own, or the server was a replica meanwhile and copied another memory. So each vote compares the run,
-- which a promotion changes (PROTOCOL.md ADM6, ADM7).
local run, role = run_identity()
if role ~= 'master' or redis.call('hget', RECORD, 'life') ~= run then
  return redis.error_reply('UNPROVEN the memory of this server must be verified again')
end
