-- Serves the next waiter for a name (prepended to the scripts that free one). All of it is advice,
-- except a handoff (handoff.lua).
--
-- Hands the name off to the head of the queue, or notifies that waiter; the other waiters sleep on. After
-- a waiter that shares the name (a reader) it serves those behind it that share it, too. Skips a waiter
-- whose process no longer subscribes. Without a waiter, notifies the subscribers of the name's channel, in
-- the layout that has such subscribers. Returns 0 (nobody was notified), 1 (subscribers of the name's
-- channel), 2 (a waiter).
local function notify_next(name, waiters, channel, mark_key, by)
  -- One release in eight, chosen by its nonce `by` (nil: never), also notifies the name's channel.
  -- If a program subscribes there, it hands nothing off, so that programs without a queue do not
  -- starve.
  local strangers_too = STRANGERS and by and string.find(by, '^[08]')
    and told(channel, '0') > 0
  local served, notified = 0, false
  for _ = 1, 64 do
    if served > 0 and not shares(redis.pcall('zrange', waiters, 0, 0)[1] or '') then
      break
    end
    local first = redis.pcall('zpopmin', waiters)[1]
    if not first then
      break
    end
    local as = told_as(name, shares(first))
    local waiter, nonce, ttl, fencing = string.match(first, '^(%S+) (%S+) (%d+) (%d+)$')
    if waiter and not strangers_too
      and handoff(name, as, mark_key, waiter, nonce, ttl, fencing) then
      served = 2
    else
      waiter = waiter or string.match(first, '^%S*')
      if waiter ~= '' and told('quorumlock:wake:' .. waiter, as) > 0 then
        served, notified = 2, true
      end
    end
    if served > 0 and not shares(first) then
      break
    end
  end
  if notified then
    -- The member '' records that a waiter was notified, until that waiter comes or the script
    -- serves the next one.
    redis.pcall('zadd', waiters, 0, '')
    local members = redis.pcall('zcard', waiters)
    if members == 1 or type(members) == 'table' then
      redis.pcall('pexpire', waiters, 1000)
    end
  end
  if served > 0 then
    return served
  end
  return STRANGERS and math.min(told(channel, '0'), 1) or 0
end

