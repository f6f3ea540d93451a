-- Queue members (prepended to the scripts that add or remove them). The queue is advice, never safety.

-- Adds the queue member `as` (handoff.lua), unless it is queued already. Its position counts from
-- `waited` microseconds ago. The queue expires `keep` ms from now at the earliest.
local function enqueue(waiters, as, waited, keep)
  local time = redis.call('time')
  local since = time[1] * 1e6 + time[2] - waited
  -- A caller that may not leave the queue does not enter it: once it has the lock, a release would
  -- hand the name off to it in vain. ('-' is no member.)
  local leaves = redis.pcall('zrem', waiters, '-')
  if type(leaves) == 'number' then
    -- A full server refuses to enqueue the waiter. That must not fail the script.
    redis.pcall('zadd', waiters, 'nx', string.format('%.0f', since), as)
  end
  -- Also where it changes nothing: on a replica this write fails the script, so that the caller does
  -- not take itself for queued.
  redis.call('pexpire', waiters, math.max(redis.call('pttl', waiters), keep))
end

-- Removes the queue member `as`. Returns the error of a replica, where the caller stays queued. A key of
-- another type has no queue members.
local function dequeue(waiters, as)
  local removed = redis.pcall('zrem', waiters, as)
  if type(removed) == 'table' and not string.find(removed.err, 'WRONGTYPE') then
    return removed
  end
end

