-- A free name is handed over to a waiter (prepended to wake.lua). An answer, unlike what else waiters are
-- told: to what it asked last, under the nonce of that, with a token of its own. It counts the lease from
-- before it asked, as for any grant (SAFETY.md G1, Tokens, form d).
--
-- It stands in the queue as 'WAITER NONCE CLAIM TOKENS': for how many ms, how many tokens (0: none). One
-- that must be woken instead as 'WAITER'. False if it must be woken after all: it asks then, and is told why
-- it gets nothing.
local function hand(name, counter, waiter, nonce, claim, tokens)
  local token = 0
  if tokens ~= '0' then
    token = rise(counter, tokens)
    -- A counter that no clock started says nothing of the tokens before: acquire.lua starts it. And it
    -- names the one that cannot rise.
    if type(token) ~= 'number' or token - tokens < 4294967296 then
      return false
    end
  end
  if not take(name, nonce, claim) then
    return false
  end
  -- Not by %s, which ends at a NUL byte, and a name may contain one.
  local told = nonce .. ' ' .. string.format('%.0f', token) .. ' ' .. name
  if redis.call('publish', 'quorumlock:granted:' .. waiter, told) > 0 then
    return true
  end
  redis.call('del', name)
  return false
end

