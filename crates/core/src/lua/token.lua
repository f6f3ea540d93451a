-- The next fencing token of a name (prepended to both acquire.lua).
-- A missing counter starts at the client's wall clock in microseconds, the same for all nodes, so
-- that a fresh name costs a quorum one round; clamped to this node's own clock +- 1 hour, so that
-- one wrong client clock cannot spoil the counter. Never below the node's floor, which stands for
-- counters that were lost (A7). (SAFETY.md, tokens)
local function next_token(key, least, seed, keep_ms)
  local last = tonumber(redis.call('get', key))
  if not last then
    local time = redis.call('time')
    local now, hour = time[1] * 1e6 + time[2], 3.6e9
    last = math.min(math.max(tonumber(seed), now - hour), now + hour)
  end
  local token = math.max(last + 1, tonumber(least), (tonumber(record[2]) or 0) + 1)
  redis.call('set', key, string.format('%.0f', token), 'px', keep_ms)
  -- The largest counter ever issued here, in steps, so that it is seldom written.
  if STAMP and token > (tonumber(record[3]) or 0) then
    redis.call('hset', RECORD, 'fmax', string.format('%.0f', token + 1024))
  end
  return token
end
