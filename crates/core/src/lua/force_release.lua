-- Free a name, whoever holds it, and wake who waits.
-- KEYS: 1 name, 2 mark, 3 channel, 4 waiters
-- ARGV: none
-- Replies: 1 (was held), 0 (was free), error NOTALOCK, error BADMARK
-- Rules: deletes nothing but a lock of this layout, and a string is surely one only if it expires; raises
-- the mark, so that a resource that saw the next token refuses the old holder's (SAFETY.md H23).
local holder = holder_of(KEYS[1])
if not holder then
  return 0
elseif type(holder) == 'table' then
  return holder
elseif redis.call('type', KEYS[1]).ok == 'string' and redis.call('pttl', KEYS[1]) < 0 then
  return redis.error_reply('NOTALOCK a string without an expiry')
end
-- Without a mark nothing is raised: the next token is proposed by a clock.
local mark = mark_of(KEYS[2])
if type(mark) == 'number' and mark ~= 0 then
  mark = accept(KEYS[2], next_token(mark))
end
if type(mark) == 'table' then
  return mark
end
redis.call('del', KEYS[1])
wake(KEYS[1], KEYS[4], KEYS[3], KEYS[2])
return 1
