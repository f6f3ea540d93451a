-- Who waits for a name (prepended to the scripts that free one): advice, but for what hand.lua does.
--
-- Hands the name over to the first in the queue, or wakes it: the others sleep on. Whose process listens no
-- more is passed over. If there is none, wakes whoever subscribes to the name's channel, in the layout
-- where somebody does. Returns 0 (nobody), 1 (strangers), 2 (a waiter).
local function wake(name, waiters, channel, mark_key, by)
  -- One release of eight, by its nonce (nil: none), so that programs which know of no queue do not starve
  -- beside one.
  local strangers_too = STRANGERS and by and string.find(by, '^[08]')
    and redis.call('publish', channel, '0') > 0
  for _ = 1, 64 do
    local first = redis.pcall('zpopmin', waiters)[1]
    if not first then
      break
    end
    local waiter, nonce, claim, fencing = string.match(first, '^(%S+) (%S+) (%d+) (%d+)$')
    if waiter and not strangers_too
      and hand(name, mark_key, waiter, nonce, claim, fencing) then
      return 2
    end
    waiter = waiter or first
    if waiter ~= '' and redis.call('publish', 'quorumlock:waiter:' .. waiter, name) > 0 then
      -- The mark of one that was woken, until it comes or the next one is.
      redis.pcall('zadd', waiters, 0, '')
      if redis.call('zcard', waiters) == 1 then
        redis.call('pexpire', waiters, 1000)
      end
      return 2
    end
  end
  return STRANGERS and math.min(redis.call('publish', channel, '0'), 1) or 0
end

