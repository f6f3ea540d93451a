-- Give the marks of this server to a repair, and end every round that is under way: scripts bound to the
-- old stamp do not run any more.
-- KEYS: 1 record, then the marks of all slots
-- ARGV: 1 fresh stamp
-- Replies: slot and mark, slot and mark, ...: of those that there are, slots from 0; error BADMARK
-- Rule: barrier and read in one step (SAFETY.md, form b): an acquisition that counts a vote of the node
-- under repair from before its loss finds no majority afterwards.
local marks = {}
for i = 2, #KEYS do
  local mark = mark_of(KEYS[i])
  if type(mark) == 'table' then
    return mark
  elseif mark > 0 then
    marks[#marks + 1] = i - 2
    marks[#marks + 1] = mark
  end
end
local record = redis.call('hmget', KEYS[1], 'life', 'stamp')
if record[1] == life() and record[2] then
  redis.call('hset', KEYS[1], 'stamp', ARGV[1])
end
return marks
