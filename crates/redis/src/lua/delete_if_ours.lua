-- Deletes a lock in Redlock's layout if its value is the given nonce, as DELIFEQ does on Valkey 9.
-- Clients use it on servers without DELIFEQ, when no waiter is known.
-- KEYS: 1 name
-- ARGV: 1 nonce
-- Replies: 1 (was held), 0
-- Rule: matches this acquisition, never its owner (SAFETY.md H16).
return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0
