-- Deletes a lock in Redlock's layout if it holds a nonce, as DELIFEQ does on Valkey 9: for servers without it,
-- and where nobody is to be woken.
-- KEYS: 1 name
-- ARGV: 1 nonce
-- Replies: 1 (was held), 0
-- Rule: matches this acquisition, never its owner (SAFETY.md H16).
return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0
