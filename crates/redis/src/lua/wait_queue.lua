-- Queue helpers of an acquisition (prepended to acquire.lua).
-- KEYS: see claim.lua; the waiters, for a caller that will wait (ARGV 5)
-- ARGV: 5 the caller's queue member (queue.lua; absent: the caller does not wait), 6 microseconds
--   that it has waited, 7 whether it yields to other waiters (1), was notified (2), has a turn (3), or
--   none of these (0), 8 and more: its earlier queue members whose offer may still be open
-- Replies: see acquire.lua
-- Rule: advice, never safety: nothing here may fail, but on a replica (PROTOCOL.md, Waiting; PER2).

-- Whether a queue member is the caller's.
local function is_caller(member)
  for at = 5, #ARGV do
    if at ~= 6 and at ~= 7 and ARGV[at] == member then
      return true
    end
  end
  return false
end

-- Removes the caller's earlier queue members.
local function forget_earlier(waiters)
  for at = 8, #ARGV do
    redis.pcall('zrem', waiters, ARGV[at])
  end
end

-- When the caller arrived: as the queue has it, if it does. What the caller says moves by as much as one
-- request takes longer than another, which would swap neighbours.
local function arrival(waiters)
  local said = now_us() - ARGV[6]
  for at = 5, #ARGV do
    local rank = at ~= 6 and at ~= 7 and redis.pcall('zrank', waiters, ARGV[at])
    if type(rank) == 'number' then
      local score = redis.pcall('zrange', waiters, rank, rank, 'withscores')[2]
      local queued = score and score - score % STEP
      -- Otherwise an earlier call of the same waiter was queued.
      if queued and math.abs(queued - said) < 1e6 then
        return queued
      end
    end
  end
  return said
end

-- The reply to a caller that name `i` refuses: `other`, or {-2} if it yields a free name; then its place in
-- the queue, 1 at the head (0: it is not queued); of several names also `i`; of permits also the numbers
-- of the slots that are free. A caller that will wait is in that name's queue from now on, and one that has
-- a turn in the queues of all its names (PROTOCOL.md SET5).
local function refuse_and_enqueue(i, other)
  local reply = other or {-2}
  reply[2] = 0
  if ARGV[5] and ARGV[5] ~= '-' then
    local waiters = KEYS[2 * COUNT + i]
    local since = arrival(waiters)
    forget_earlier(waiters)
    for name = 1, COUNT do
      if name == i or ARGV[7] == '3' then
        -- A full server enqueues nobody (queue.lua). The caller gets the remaining lease all the same.
        enqueue(KEYS[2 * COUNT + name], ARGV[5], since, math.max(tonumber(ARGV[2]), 1000))
      end
    end
    local before = redis.pcall('zrank', waiters, ARGV[5])
    reply[2] = type(before) == 'number' and before + 1 or 0
    -- Until its third poll from now: the waiter renews that at each poll.
    keep_turn(KEYS[i], ARGV[1], math.min(tonumber(ARGV[2]), math.max(750, ARGV[6] * 3 / 4000)))
  end
  if COUNT > 1 then
    reply[3] = i
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

-- Whether the caller yields name `i`, which is free: a waiter before it showed life lately, or was
-- notified less than a second ago and has not come yet.
local function must_yield(i)
  if not ARGV[5] or ARGV[7] ~= '1' or not is_free(KEYS[i]) then
    return false
  end
  local now = now_us()
  for at = 0, 63 do
    local entry = redis.pcall('zrange', KEYS[2 * COUNT + i], at, at, 'withscores')
    local member = entry[1]
    if not member or is_caller(member) then
      return false
    end
    local _, kind = parts_of(member)
    local age, was_told = sign_of(tonumber(entry[2]), now)
    if is_earlier(member) or age < (was_told and PASSED_OVER or STALE) then
      local _, ours = parts_of(ARGV[5])
      return not (shares(kind) and shares(ours))
    end
  end
  return false
end

-- A release handed the name off to an earlier request of this call, and the call does not know it yet: the
-- message was lost, or comes. The hold stays, with a token of its own for the call (a raise, PROTOCOL.md
-- T2), and is not replaced: the message may reach the call before this reply (W5). Returns nil if there is
-- no such hold.
local function take_up(name)
  for at = 8, #ARGV do
    local _, _, nonce = parts_of(ARGV[at])
    if nonce and held(name, nonce) then
      local token = ARGV[4]
      local mark = token ~= '0' and accept_all(token) or 0
      if type(mark) == 'number' and mark > 0 then
        token = next_token(mark)
        mark = accept_all(token)
      end
      if type(mark) == 'table' then
        return mark
      end
      forget_earlier(KEYS[3])
      return {'yours', nonce, token}
    end
  end
end

-- The caller has the lock: removes its queue members, and the member '' by which programs of an earlier
-- version record that a waiter was notified and has not come.
local function leave_queue()
  if ARGV[5] then
    for i = 2 * COUNT + 1, 3 * COUNT do
      redis.pcall('zrem', KEYS[i], ARGV[5], '')
      forget_earlier(KEYS[i])
    end
  end
end

