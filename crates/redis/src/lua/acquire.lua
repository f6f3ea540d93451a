-- Takes a free name for one acquisition (the canonical Redlock layout: a string, the nonce).
-- KEYS: 1 name, 2 mark; 3: see wait_queue.lua
-- ARGV: 1 nonce, 2 ttl_ms, 3 unused; 4: see propose.lua; 5 to 8: see wait_queue.lua
-- Replies: the reply of token_of_grant (granted), {pttl} (refused: another holds the name, or the
--   caller yields), error TOOLONG, BADMARK
-- Rules: idempotent per nonce (SAFETY.md H18); a refused caller moves no mark.
if LONGEST and tonumber(ARGV[2]) > LONGEST then
  return redis.error_reply('TOOLONG a lease of ' .. ARGV[2] .. ' ms; at most ' .. LONGEST)
end
if must_yield() then
  return refuse_and_enqueue()
end
local set = redis.pcall('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2])
if not set or set.err then
  local held = redis.call('get', KEYS[1])
  if not held then
    return set
  elseif held ~= ARGV[1] then
    -- A full server fails SET with an error. The name is held by another all the same.
    return refuse_and_enqueue()
  end
  redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
end
local token = token_of_grant()
if type(token) == 'table' then
  -- Without a token the caller holds nothing.
  redis.call('del', KEYS[1])
  return token
end
leave_queue()
return token
