-- Returns the holder of a name.
-- KEYS: 1 name, 2 mark, 3 waiters
-- ARGV: none
-- Replies: {id, hold count, pttl, mark, number of waiters}, or nil (free), error OTHERKIND, NOTALOCK;
-- an empty text for a mark or a number that there is not, or that the user may not read
-- Rule: reads only.
local who, holds = holder(KEYS[1])
if type(who) ~= 'string' then
  return who
end
local mark, waiters = redis.pcall('zscore', KEYS[2], 'm'), redis.pcall('zcard', KEYS[3])
return {
  who,
  holds or '1',
  redis.call('pttl', KEYS[1]),
  type(mark) == 'string' and mark or '',
  type(waiters) == 'number' and waiters or '',
}
