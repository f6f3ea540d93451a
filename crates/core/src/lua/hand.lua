-- A free name is handed over to a waiter (prepended to wake.lua). An answer, unlike what else waiters are
-- told: to what it asked last, under the nonce of that, with a token of its own. It counts the lease from
-- before it asked, as for any grant (SAFETY.md G1, Tokens).
--
-- It stands in the queue as 'WAITER NONCE CLAIM FENCING': for how many ms, and whether it gets tokens (1 or
-- 0). One that must be woken instead as 'WAITER'. False if it must be woken after all: it asks then, and is
-- told why it gets nothing.
local function hand(name, mark_key, waiter, nonce, claim, fencing)
  local token = '0'
  if fencing ~= '0' then
    local mark = mark_of(mark_key)
    -- Without a mark this server knows of no token: the waiter proposes one by its clock.
    if type(mark) ~= 'number' or mark == 0 then
      return false
    end
    token = next_token(mark)
  end
  if not take(name, nonce, claim) then
    return false
  end
  local accepted = token == '0' and 0 or accept(mark_key, token)
  -- Not by %s, which ends at a NUL byte, and a name may contain one.
  local told = nonce .. ' ' .. token .. ' ' .. name
  if accepted == 0 and redis.call('publish', 'quorumlock:granted:' .. waiter, told) > 0 then
    return true
  end
  redis.call('del', name)
  return false
end

