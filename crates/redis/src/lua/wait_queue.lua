-- Queue helpers of an acquisition (prepended to acquire.lua).
-- KEYS: see claim.lua; the waiters, for a caller that will wait (ARGV 5)
-- ARGV: 5 the caller's queue member (handoff.lua; absent: the caller does not wait), 6 microseconds
--   that it has waited, 7 whether it yields to other waiters (1), was notified (2),
--   or neither (0), 8 its previous queue member
--   (absent: none)
-- Replies: see acquire.lua
-- Rule: advice, never safety: nothing here may fail, but on a replica (PROTOCOL.md, Waiting; PER2).

-- The reply to a caller that name `i` refuses: `other`, or {-2} if it yields a free name; of several
-- names also `i`; of permits also the numbers of the slots that are free. A caller that will wait is in
-- that name's queue from now on.
local function refuse_and_enqueue(i, other)
  if ARGV[5] and ARGV[5] ~= '-' then
    local waiters = KEYS[2 * COUNT + i]
    if ARGV[8] then
      redis.pcall('zrem', waiters, ARGV[8])
    end
    -- A full server enqueues nobody (enqueue.lua). The caller gets the remaining lease all the same.
    enqueue(waiters, ARGV[5], ARGV[6], math.max(tonumber(ARGV[2]), 1000))
    -- Until its third poll from now: the waiter renews that at each poll.
    keep_turn(KEYS[i], ARGV[1], math.min(tonumber(ARGV[2]), math.max(750, ARGV[6] * 3 / 4000)))
  end
  local reply = other or {-2}
  if COUNT > 1 then
    reply[2] = i
  elseif PERMIT then
    local first = ARGV[5] and 4 or 3
    for at = first, #KEYS - (LONGEST and 1 or 0) do
      if redis.call('exists', KEYS[at]) == 0 then
        reply[#reply + 1] = at - first
      end
    end
  end
  return reply
end

-- Whether the caller yields name `i`, which is free: another waiter is at the head of the queue, or was
-- notified and has not come yet.
local function must_yield(i)
  if not ARGV[5] or ARGV[7] ~= '1' or not is_free(KEYS[i]) then
    return false
  end
  local first = redis.pcall('zrange', KEYS[2 * COUNT + i], 0, 0)[1]
  return first and first ~= ARGV[5] and first ~= ARGV[8] and not (shares(first) and shares(ARGV[5]))
end

-- The caller has the lock: removes its queue member, and the member '' by which notify_next.lua records
-- that a waiter was notified and has not come.
local function leave_queue()
  if ARGV[5] then
    for i = 2 * COUNT + 1, 3 * COUNT do
      redis.pcall('zrem', KEYS[i], ARGV[8] or ARGV[5], '')
    end
  end
end

