-- Strict order (prepended to acquire.lua, for callers that keep it): a free name with a queue goes to the
-- first waiter that comes.
-- KEYS: see wait_queue.lua
-- ARGV: see wait_queue.lua; 5 is '-' for a caller that does not wait
-- Replies: see acquire.lua
-- Rule: advice, never safety (PROTOCOL.md W10).

-- Whether the caller yields name `i`, which is free, to a waiter before it: one that is served now, or
-- was notified less than a second ago.
local function must_yield(i)
  return is_free(KEYS[i])
    and serve(KEYS[i], KEYS[2 * COUNT + i], KEYS[COUNT + i], true, is_caller)
end

