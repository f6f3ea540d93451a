-- Strict order (prepended to acquire.lua, for callers that keep it): a free name with a queue goes to the
-- first waiter that comes.
-- KEYS: see wait_queue.lua
-- ARGV: see wait_queue.lua; 5 is '-' for a caller that does not wait
-- Replies: see acquire.lua
-- Rule: advice, never safety (PROTOCOL.md W10).

-- Whether the caller yields name `i`, which is free, to a waiter before it: one that is served now, or
-- was notified less than a second ago. Nobody who arrived in the caller's step is before it: each request
-- and each message changes the order within a step, so that two waiters would yield to each other.
local function must_yield(i)
  if not is_free(KEYS[i]) then
    return false
  end
  local waiters = KEYS[2 * COUNT + i]
  local since = arrival(waiters)
  return serve(KEYS[i], waiters, KEYS[COUNT + i], true, function(member, score)
    return is_caller(member) or score - score % STEP == since - since % STEP
  end)
end
