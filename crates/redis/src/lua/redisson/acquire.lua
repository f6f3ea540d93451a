-- Takes a free name for one acquisition (Redisson's layout: a hash, field -> hold count).
-- KEYS: 1 name, 2 mark; 3: see wait_queue.lua; the last one: see count.lua
-- ARGV: 1 field, 2 ttl_ms, 3 hold count; 4: see propose.lua; 5 to 8: see wait_queue.lua
-- Replies: the reply of token_of_grant (granted), {pttl} (refused: another holds the name, or the
--   caller yields), error TOOLONG, NOTALOCK, BADMARK, BADCOUNTER
-- Rules: idempotent per field; the count is absolute, so a repeated request cannot inflate it
-- (SAFETY.md H18); a refused caller moves no mark.
if LONGEST and tonumber(ARGV[2]) > LONGEST then
  return redis.error_reply('TOOLONG a lease of ' .. ARGV[2] .. ' ms; at most ' .. LONGEST)
end
local held = redis.call('exists', KEYS[1]) == 1
if held and redis.call('hexists', KEYS[1], ARGV[1]) == 0 or must_yield() then
  -- The caller gets an error and does not wait if the key is not a lock.
  local holder = held and holder_of(KEYS[1])
  return type(holder) == 'table' and holder or refuse_and_enqueue()
end
-- The token comes first: if it fails, the caller holds nothing.
local token = token_of_grant()
if type(token) == 'table' then
  return token
end
local refused = put(KEYS[1], ARGV[1], ARGV[3], ARGV[2])
if refused then
  return refused
end
leave_queue()
return token
