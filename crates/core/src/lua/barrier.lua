-- Give the largest counter ever issued here to a repair, and end every round that is under way:
-- scripts bound to the old stamp do not run any more.
-- KEYS: 1 record
-- ARGV: 1 fresh stamp
-- Replies: the largest counter (0 if none), error BADMARK
-- Rule: barrier and read in one step (SAFETY.md, Tokens, form b): an acquisition that counts a vote of
-- the node under repair from before its loss finds no majority afterwards.
local record = redis.call('hmget', KEYS[1], 'life', 'stamp', 'fmax', 'floor')
local bad = bad_mark(KEYS[1], 'fmax', record[3]) or bad_mark(KEYS[1], 'floor', record[4])
if bad then
  return bad
end
if record[1] == life() and record[2] then
  redis.call('hset', KEYS[1], 'stamp', ARGV[1])
end
return math.max(tonumber(record[3]) or 0, tonumber(record[4]) or 0)
