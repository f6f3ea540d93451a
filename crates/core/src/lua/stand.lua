-- The queue of a name (prepended to the scripts that put somebody there): advice, never safety.
--
-- Puts a waiter into the queue, behind all who came more than so many microseconds ago.
local function stand(waiters, as, waited, keep)
  local time = redis.call('time')
  local since = time[1] * 1e6 + time[2] - waited
  -- A full server takes nobody into the queue: nothing here may fail.
  redis.pcall('zadd', waiters, 'nx', string.format('%.0f', since), as)
  if redis.call('pttl', waiters) < keep then
    redis.call('pexpire', waiters, keep)
  end
end

