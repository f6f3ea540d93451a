-- This life of the server: its run and its replication history (prepended to the scripts of
-- admission).
local function life()
  local run = string.match(redis.call('info', 'server'), 'run_id:(%x+)')
  local history = string.match(redis.call('info', 'replication'), 'master_replid:(%x+)')
  return run .. '/' .. history
end
