-- Hands a free name off to a waiter (prepended to notify_next.lua). Unlike a notification, a
-- handoff is an answer to the waiter's last lease request: it grants the name under the nonce of
-- that request, with a token of its own. The waiter counts the lease from before that request, as
-- for any grant (SAFETY.md G1, Tokens).
--
-- The queue member (queue.lua) has the nonce, the lease in milliseconds, and whether the waiter gets tokens
-- (1 or 0). A release hands off to waiters of its own layout only. Returns false if the script must notify
-- the waiter instead: the waiter then asks, and its answer says why it gets nothing. A handoff that nobody has heard is undone: so the replicas of this server, whose subscribers
-- it does not count, do not get the message.
local function handoff(name, as, mark_key, waiter, nonce, ttl, fencing)
  if not redis.set_repl then
    return false
  end
  local token = '0'
  if fencing ~= '0' then
    local mark = mark_of(mark_key)
    -- Without a mark this server knows no token. The waiter must propose one by its clock.
    if type(mark) ~= 'number' or mark == 0 then
      return false
    end
    token = next_token(mark)
  end
  if put(name, nonce, tonumber(ttl), 1) then
    return false
  end
  local accepted = token == '0' and 0 or accept(mark_key, token)
  -- No format with %s: it ends at a NUL byte, and a name may contain one.
  local message = nonce .. ' ' .. token .. ' ' .. as
  redis.set_repl(redis.REPL_NONE)
  local heard = accepted == 0 and told('quorumlock:handoff:' .. waiter, message) or 0
  redis.set_repl(redis.REPL_ALL)
  if heard > 0 then
    return true
  end
  drop(name, nonce)
  return false
end

