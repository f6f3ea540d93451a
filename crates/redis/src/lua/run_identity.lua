-- The run identity of the server: its run id and replication id (prepended to the scripts that need
-- it). Also returns its role, `master` or `slave`.
local function run_identity()
  local run = string.match(redis.call('info', 'server'), 'run_id:(%x+)')
  local replication = redis.call('info', 'replication')
  local history = string.match(replication, 'master_replid:(%x+)')
  return run .. '/' .. history, string.match(replication, 'role:(%a+)')
end
