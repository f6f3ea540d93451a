-- Strict order (prepended to acquire.lua, for callers that keep it): a free name with a queue goes to the
-- head of the queue only.
-- KEYS: see wait_queue.lua
-- ARGV: see wait_queue.lua; 5 is '-' for a caller that does not wait
-- Replies: see acquire.lua
-- Rule: advice, never safety (PROTOCOL.md W10).

-- Whether the caller yields name `i`, which is free: another waiter is the head of its queue, and is
-- served now, or was notified less than a second ago and has not come. A waiter whose process no longer
-- subscribes is skipped.
local function must_yield(i)
  if ARGV[7] == '2' or not is_free(KEYS[i]) then
    return false
  end
  local waiters, time = KEYS[2 * COUNT + i], redis.call('time')
  local now = time[1] * 1e6 + time[2]
  local first = redis.pcall('zrange', waiters, 0, 0, 'withscores')
  if first[1] == '' then
    -- Its score is 0 until it is first seen here: from then on, when that was, negative.
    local since = -tonumber(first[2])
    if since == 0 then
      redis.pcall('zadd', waiters, string.format('%.0f', -now), '')
      return true
    elseif now - since < 1e6 then
      return true
    end
    redis.pcall('zrem', waiters, '')
    first = redis.pcall('zrange', waiters, 0, 0)
  end
  if not first[1] or first[1] == ARGV[5] or first[1] == ARGV[8]
    or shares(first[1]) and shares(ARGV[5]) then
    return false
  end
  return notify_next(KEYS[i], waiters, '', KEYS[COUNT + i]) == 2
end

