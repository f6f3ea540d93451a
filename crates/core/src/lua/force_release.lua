-- Free a name, whoever holds it, and wake who waits.
-- KEYS: 1 name, 2 fencing counter, 3 channel, 4 waiters
-- ARGV: none
-- Replies: 1 (was held), 0 (was free)
-- Rule: bumps the counter, so that a resource that saw the next token refuses the old
-- holder's (SAFETY.md H23).
-- An absent counter needs no bump: the next token is seeded by the clock.
if redis.call('del', KEYS[1]) == 0 then
  return 0
end
if redis.call('exists', KEYS[2]) == 1 then
  redis.pcall('incr', KEYS[2])
end
wake(KEYS[1], KEYS[4], KEYS[3], KEYS[2])
return 1
