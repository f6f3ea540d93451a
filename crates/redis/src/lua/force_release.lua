-- Frees a name, no matter who holds it, tells its holders, and notifies the next waiter. With an id only if
-- that is the holder, as inspect.lua says it.
-- KEYS: 1 name, 2 mark, 3 channel, 4 waiters
-- ARGV: 1 holder (optional)
-- Replies: 1 (was held), 0 (was free, or another holds it), error OTHERKIND, NOTALOCK, error BADMARK
-- Rules: deletes only a lock of this layout; a string counts as one only if it has an expiry.
-- Raises the mark, so that a resource that saw the next token refuses the old holder's
-- (SAFETY.md H23).
local who = holder(KEYS[1])
if not who then
  return 0
elseif type(who) == 'table' then
  return who
elseif ARGV[1] and who ~= ARGV[1] then
  return 0
elseif redis.call('type', KEYS[1]).ok == 'string' and redis.call('pttl', KEYS[1]) < 0 then
  return redis.error_reply('NOTALOCK a string without an expiry')
end
-- Without a mark there is nothing to raise: the next client proposes a token by its clock.
local mark = mark_of(KEYS[2])
if type(mark) == 'number' and mark ~= 0 then
  mark = accept(KEYS[2], next_token(mark))
end
if type(mark) == 'table' then
  return mark
end
-- A locker's nonces end alike, and its channel has that end. The message is advice: the holder asks
-- (PROTOCOL.md REL3).
local holders = holders_of(KEYS[1], who)
redis.call('del', KEYS[1])
for _, one in ipairs(holders) do
  told('quorumlock:forced:' .. string.sub((string.gsub(one, ':[^:]*$', '')), -12), one)
end
notify_next(KEYS[1], KEYS[4], KEYS[3], KEYS[2])
return 1
