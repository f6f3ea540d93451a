-- Who waits for a name (prepended to the scripts that free one). Advice, never safety.
--
-- Wakes the first in the queue whose process still listens: the others sleep on. If there is none,
-- whoever subscribes to the name's channel, in the layout where somebody does. Returns 0 (nobody),
-- 1 (strangers), 2 (a waiter).
local function wake(name, waiters, channel)
  for _ = 1, 64 do
    local first = redis.pcall('zpopmin', waiters)[1]
    if not first then
      break
    end
    if first ~= '' and redis.call('publish', 'redisson_lock__channel:waiter:' .. first, name) > 0 then
      -- The mark of one that was woken, until it comes or the next one is.
      redis.pcall('zadd', waiters, 0, '')
      if redis.call('zcard', waiters) == 1 then
        redis.call('pexpire', waiters, 1000)
      end
      if STRANGERS and redis.call('time')[2] % 8 == 0 then
        -- Now and then, so that programs which know of no queue do not starve beside one.
        redis.call('publish', channel, '0')
      end
      return 2
    end
  end
  return STRANGERS and math.min(redis.call('publish', channel, '0'), 1) or 0
end

