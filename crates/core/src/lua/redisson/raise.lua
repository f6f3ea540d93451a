-- Raise the fencing counter to a token that a quorum agreed on.
-- KEYS: 1 name, 2 fencing counter
-- ARGV: 1 field, 2 token, 3 keep counter for ms
-- Replies: 1 (raised, or high enough), 0 (not held by this field: does not count)
-- Rule: only while held (SAFETY.md, Tokens, a1 and a2).
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if (tonumber(redis.call('get', KEYS[2])) or 0) < tonumber(ARGV[2]) then
  redis.call('set', KEYS[2], ARGV[2], 'px', ARGV[3])
end
-- A repair must know of raised counters too (model M8f).
if STAMP and tonumber(ARGV[2]) > (tonumber(record[3]) or 0) then
  redis.call('hset', RECORD, 'fmax', string.format('%.0f', ARGV[2] + 1024))
end
return 1
