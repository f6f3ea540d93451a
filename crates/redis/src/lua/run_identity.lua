-- The run identity of the server: its run id and replication id (prepended to the admission
-- scripts that need it).
local function run_identity()
  local run = string.match(redis.call('info', 'server'), 'run_id:(%x+)')
  local history = string.match(redis.call('info', 'replication'), 'master_replid:(%x+)')
  return run .. '/' .. history
end
