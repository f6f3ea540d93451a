-- The queue of a name (prepended to the script that takes it).
-- KEYS: 3 waiters, if whoever is denied will wait
-- ARGV: 8 as what it stands there (hand.lua), 9 for how many microseconds it has waited, 10 whether others
--   go first (1 or 0), 11 as what it stood there before, if that was another
-- Replies: see acquire.lua
-- Rule: advice, never safety: nothing here may fail (SAFETY.md, Waiting).

-- The reply to whoever is denied, who is in the queue from now on.
local function denied()
  if KEYS[3] then
    if ARGV[11] then
      redis.pcall('zrem', KEYS[3], ARGV[11])
    end
    -- Whoever is denied by a full server is told for how long all the same.
    stand(KEYS[3], ARGV[8], ARGV[9], math.max(tonumber(ARGV[2]), 1000))
    -- For the tokens of those who are handed the name.
    redis.call('pexpire', KEYS[2], ARGV[6])
  end
  return {redis.call('pttl', KEYS[1])}
end

-- Whether a free name goes to others: they stand before whoever asks, or were woken and have not come yet.
local function others_first()
  if not KEYS[3] or ARGV[10] ~= '1' or redis.call('exists', KEYS[1]) == 1 then
    return false
  end
  local first = redis.pcall('zrange', KEYS[3], 0, 0)[1]
  return first and first ~= ARGV[8] and first ~= ARGV[11]
end

-- Whoever has the lock waits no more, and is the one that was woken, as far as that matters.
local function served()
  if KEYS[3] then
    redis.pcall('zrem', KEYS[3], ARGV[11] or ARGV[8], '')
  end
end

