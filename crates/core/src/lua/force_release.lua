-- Free a name, whoever holds it, and wake who waits.
-- KEYS: 1 name, 2 fencing counter, 3 channel, 4 waiters
-- ARGV: none
-- Replies: 1 (was held), 0 (was free), error NOTALOCK, error BADCOUNTER
-- Rules: deletes nothing but a lock of this layout, and a string is surely one only if it expires; bumps
-- the counter, so that a resource that saw the next token refuses the old holder's (SAFETY.md H23).
local holder = holder_of(KEYS[1])
if not holder then
  return 0
elseif type(holder) == 'table' then
  return holder
elseif redis.call('type', KEYS[1]).ok == 'string' and redis.call('pttl', KEYS[1]) < 0 then
  return redis.error_reply('NOTALOCK a string without an expiry')
end
-- An absent counter needs no bump: the next token is seeded by the clock.
local risen = redis.call('exists', KEYS[2]) == 1 and rise(KEYS[2], 1)
if type(risen) == 'table' then
  return risen
end
redis.call('del', KEYS[1])
wake(KEYS[1], KEYS[4], KEYS[3], KEYS[2])
return 1
