-- Admit the life of the server that was watched for the longest lease.
-- KEYS: 1 record
-- ARGV: 1 mark, 2 fresh stamp, 3 floor
-- Replies: 1 (admitted), 0 (the mark or the life is another now), error BADMARK
-- Rule: the floor only rises.
if redis.call('hget', KEYS[1], 'pending') ~= ARGV[1] then
  return 0
end
local now = life()
if string.sub(ARGV[1], 1, #now + 1) ~= now .. '/' then
  return 0
end
local old = redis.call('hget', KEYS[1], 'floor')
local bad = bad_mark(KEYS[1], 'floor', old)
if bad then
  return bad
end
local floor = math.max(tonumber(old or 0), tonumber(ARGV[3]))
redis.call('hset', KEYS[1], 'life', now, 'stamp', ARGV[2], 'floor', string.format('%.0f', floor))
redis.call('hdel', KEYS[1], 'pending')
return 1
