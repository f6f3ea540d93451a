-- The queue of a name (prepended to the script that takes it).
-- KEYS: 3 waiters, if whoever is denied will wait
-- ARGV: 5 as what it stands there (hand.lua), 6 for how many microseconds it has waited, 7 whether others
--   go first (1 or 0), 8 as what it stood there before, if that was another
-- Replies: see acquire.lua
-- Rule: advice, never safety: nothing here may fail (SAFETY.md, Waiting).

-- The reply to whoever is denied, who is in the queue from now on.
local function denied()
  if KEYS[3] then
    if ARGV[8] then
      redis.pcall('zrem', KEYS[3], ARGV[8])
    end
    -- Whoever is denied by a full server is told for how long all the same.
    stand(KEYS[3], ARGV[5], ARGV[6], math.max(tonumber(ARGV[2]), 1000))
  end
  return {redis.call('pttl', KEYS[1])}
end

-- Whether a free name goes to others: they stand before whoever asks, or were woken and have not come yet.
local function others_first()
  if not KEYS[3] or ARGV[7] ~= '1' or redis.call('exists', KEYS[1]) == 1 then
    return false
  end
  local first = redis.pcall('zrange', KEYS[3], 0, 0)[1]
  return first and first ~= ARGV[5] and first ~= ARGV[8]
end

-- Whoever has the lock waits no more, and is the one that was woken, as far as that matters.
local function served()
  if KEYS[3] then
    redis.pcall('zrem', KEYS[3], ARGV[8] or ARGV[5], '')
  end
end

