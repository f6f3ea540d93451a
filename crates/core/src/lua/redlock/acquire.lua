-- Take a free name for one acquisition (the canonical Redlock layout: a string, the nonce).
-- KEYS: 1 name, 2 fencing counter
-- ARGV: 1 nonce, 2 ttl_ms, 3 unused, 4 least token, 5 seed, 6 keep counter for ms
-- Replies: the token (granted), {pttl} (held by another)
-- Rule: idempotent per nonce.
local taken = redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2])
local token
if not taken then
  if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return {redis.call('pttl', KEYS[1])}
  end
  redis.call('pexpire', KEYS[1], ARGV[2])
  token = tonumber(redis.call('get', KEYS[2]))
end
return token or next_token(KEYS[2], ARGV[4], ARGV[5], ARGV[6])
