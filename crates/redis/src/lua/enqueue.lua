-- Enqueues waiters (prepended to the scripts that do so). The queue is advice, never safety.
--
-- Adds the queue member `as` (handoff.lua), unless it is queued already. Its position counts from
-- `waited` microseconds ago. The queue expires `keep` ms from now at the earliest.
local function enqueue(waiters, as, waited, keep)
  local time = redis.call('time')
  local since = time[1] * 1e6 + time[2] - waited
  -- A full server refuses to enqueue the waiter. That must not fail the script.
  redis.pcall('zadd', waiters, 'nx', string.format('%.0f', since), as)
  if redis.call('pttl', waiters) < keep then
    redis.call('pexpire', waiters, keep)
  end
end

