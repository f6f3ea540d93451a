-- Takes all names of one acquisition, if all are free.
-- KEYS: see claim.lua; the last one: see count.lua, check_admission.lua
-- ARGV: 1 nonce, 2 ttl_ms, 3 hold count; 4: see propose.lua; 5 and more: see wait_queue.lua
-- Replies: the reply of token_of_grant (granted), {pttl, place, ...} (refused: another holds the name, or
--   the caller yields; see wait_queue.lua), {'yours', nonce, token} (an earlier request of this call holds
--   the name), error TOOLONG, OTHERKIND, NOTALOCK, BADMARK, BADCOUNTER
-- Rules: all names or none (PROTOCOL.md SET1); idempotent per nonce; the hold count is absolute, so a
-- repeated request cannot inflate it (SAFETY.md H18); a refused caller moves no mark.
local ttl = tonumber(ARGV[2])
if LONGEST and ttl > LONGEST then
  return redis.error_reply('TOOLONG a lease of ' .. ARGV[2] .. ' ms; at most ' .. LONGEST)
end
for i = 1, COUNT do
  local other = conflict(KEYS[i], ARGV[1])
  if other and other.err then
    -- The caller gets an error and does not wait if the key is not a lock.
    local turn = turn_left(KEYS[i])
    if not turn then
      return other
    end
    other = turn
  else
    local handed = take_up(KEYS[i])
    if handed then
      return handed
    end
  end
  other = other or keeps_out(KEYS[i], ARGV[1], ARGV[7] == '2')
  if other or must_yield(i) then
    return refuse_and_enqueue(i, other)
  end
end
-- The token comes first: if it fails, the caller holds nothing.
local token = token_of_grant()
if type(token) == 'table' then
  return token
end
for i = 1, COUNT do
  local refused = put(KEYS[i], ARGV[1], ttl, ARGV[3])
  if refused then
    for taken = 1, i - 1 do
      drop(KEYS[taken], ARGV[1])
    end
    return refused
  end
end
leave_queue()
return token
