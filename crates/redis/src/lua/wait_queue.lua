-- Queue helpers of an acquisition (prepended to acquire.lua).
-- KEYS: 3 waiters, for a caller that will wait (ARGV 5)
-- ARGV: 5 the caller's queue member (handoff.lua; absent: the caller does not wait), 6 microseconds
--   that it has waited, 7 whether it yields to other waiters (1 or 0), 8 its previous queue member
--   (absent: none)
-- Replies: see acquire.lua
-- Rule: advice, never safety: nothing here may fail, but on a replica (PROTOCOL.md, Waiting).

-- The reply to a refused caller: `other`, or {-2} if it yields a free name. A caller that will wait is
-- in the queue from now on.
local function refuse_and_enqueue(other)
  if ARGV[5] then
    if ARGV[8] then
      redis.pcall('zrem', KEYS[3], ARGV[8])
    end
    -- A full server enqueues nobody (enqueue.lua). The caller gets the remaining lease all the same.
    enqueue(KEYS[3], ARGV[5], ARGV[6], math.max(tonumber(ARGV[2]), 1000))
  end
  return other or {-2}
end

-- Whether the caller yields a free name: another waiter is at the head of the queue, or was
-- notified and has not come yet.
local function must_yield()
  if not ARGV[5] or ARGV[7] ~= '1' or redis.call('exists', KEYS[1]) == 1 then
    return false
  end
  local first = redis.pcall('zrange', KEYS[3], 0, 0)[1]
  return first and first ~= ARGV[5] and first ~= ARGV[8]
end

-- The caller has the lock: removes its queue member, and the member '' by which notify_next.lua records
-- that a waiter was notified and has not come.
local function leave_queue()
  if ARGV[5] then
    redis.pcall('zrem', KEYS[3], ARGV[8] or ARGV[5], '')
  end
end

