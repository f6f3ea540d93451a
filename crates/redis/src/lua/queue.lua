-- The queue of a name's waiters (prepended to the scripts that read or write it). Advice, never safety.
--
-- A sorted set. A member is 'WAITER KIND', or of a waiter that accepts a handoff (handoff.lua)
-- 'WAITER KIND NONCE TTL_MS FENCING'. KIND is what the waiter asks for: `hash` or `string` (a lock of that
-- layout), `read` or `write` (a read-write lock), `permit`, or `set` (several names). The score orders waiters by arrival, in
-- steps of STEP microseconds, and says within the step when the waiter last showed life, or was
-- notified: twice a count of SLOT microseconds, plus 1 if it was notified (PROTOCOL.md W5).
local STEP, SLOT, SLOTS = 2048, 500000, 1024

-- Ages in slots. A waiter is fresh while it asked less than two seconds ago, for certain. One that was
-- notified has between half a second and a second to ask, and leaves after two seconds.
local STALE, PASSED_OVER, GONE = 4, 2, 5

local KINDS = {hash = true, string = true, read = true, write = true, permit = true, set = true}

-- Whether a program of an earlier version wrote the member: it has no KIND, and its score says only when
-- the waiter arrived. Such a waiter is only notified.
local function is_earlier(member)
  return not KINDS[string.match(member, '^%S* (%S+)')]
end

-- Returns the parts of a member. An earlier version writes 'WAITER', or 'WAITER NONCE TTL_MS FENCING'; a
-- reader's has 'r', or a nonce that ends with ':r', and a writer's a nonce that ends with ':w'.
local function parts_of(member)
  if is_earlier(member) then
    local mode = string.match(member, '^%S+ (r)$') or string.match(member, '^%S+ %x+:([rw]) ')
    local writes = mode == 'w' or not mode and LAYOUT.write
    return string.match(member, '^%S*'), mode == 'r' and 'read' or writes and 'write' or nil
  end
  local waiter, kind, nonce, ttl, fencing =
    string.match(member, '^(%S*) (%S+) ?(%S*) ?(%d*) ?(%d*)$')
  return waiter, kind, nonce ~= '' and nonce or nil, ttl, fencing
end

-- The time of this server in microseconds.
local function now_us()
  local time = redis.call('time')
  return time[1] * 1e6 + time[2]
end

-- The score of a waiter that arrived at `since` and asks now, or is notified now (`told` is 1).
local function score_of(since, now, told)
  local sign = 2 * (math.floor(now / SLOT) % SLOTS) + told
  return string.format('%.0f', since - since % STEP + sign)
end

-- How many slots ago the waiter asked or was notified, and whether it was notified.
local function sign_of(score, now)
  local sign = score % STEP
  return (math.floor(now / SLOT) - math.floor(sign / 2)) % SLOTS, sign % 2 == 1
end

-- Adds the member `as`, which asks now and arrived at `since`. The queue expires `keep` ms from now at the
-- earliest.
local function enqueue(waiters, as, since, keep)
  -- A caller that may not leave the queue does not enter it: once it has the lock, a release would
  -- hand the name off to it in vain. ('-' is no member.)
  local leaves = redis.pcall('zrem', waiters, '-')
  if type(leaves) == 'number' then
    -- A full server refuses to enqueue the waiter. That must not fail the script.
    redis.pcall('zadd', waiters, score_of(since, now_us(), 0), as)
  end
  -- Also where it changes nothing: on a replica this write fails the script, so that the caller does
  -- not take itself for queued.
  redis.call('pexpire', waiters, math.max(redis.call('pttl', waiters), keep))
end

-- Removes the member `as`. Returns the error of a replica, where the caller stays queued. A key of
-- another type has no queue members.
local function dequeue(waiters, as)
  local removed = redis.pcall('zrem', waiters, as)
  if type(removed) == 'table' and not string.find(removed.err, 'WRONGTYPE') then
    return removed
  end
end

