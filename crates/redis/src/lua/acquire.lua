-- Takes a free name for one acquisition.
-- KEYS: 1 name, 2 mark; 3: see wait_queue.lua; the last one: see count.lua, check_admission.lua
-- ARGV: 1 nonce, 2 ttl_ms, 3 hold count; 4: see propose.lua; 5 to 8: see wait_queue.lua
-- Replies: the reply of token_of_grant (granted), {pttl} (refused: another holds the name, or the
--   caller yields), error TOOLONG, NOTALOCK, BADMARK, BADCOUNTER
-- Rules: idempotent per nonce; the hold count is absolute, so a repeated request cannot inflate it
-- (SAFETY.md H18); a refused caller moves no mark.
local ttl = tonumber(ARGV[2])
if LONGEST and ttl > LONGEST then
  return redis.error_reply('TOOLONG a lease of ' .. ARGV[2] .. ' ms; at most ' .. LONGEST)
end
local other = conflict(KEYS[1], ARGV[1])
if other and other.err then
  -- The caller gets an error and does not wait if the key is not a lock.
  return other
elseif other or must_yield() then
  return refuse_and_enqueue(other)
end
-- The token comes first: if it fails, the caller holds nothing.
local token = token_of_grant()
if type(token) == 'table' then
  return token
end
local refused = put(KEYS[1], ARGV[1], ttl, ARGV[3])
if refused then
  return refused
end
leave_queue()
return token
