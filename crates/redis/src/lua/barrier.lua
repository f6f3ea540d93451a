-- Returns the marks of this server to a repair, and ends every round in progress: voting scripts
-- that carry the old incarnation fail from now on.
-- KEYS: 1 admission record, then the marks of all slots
-- ARGV: 1 fresh incarnation
-- Replies: slot, mark, slot, mark, ...: the marks that exist, slots count from 0; error BADMARK
-- Rule: barrier and read in one step (PROTOCOL.md MARK1): an acquisition that counts a vote which
-- the node under repair gave before its loss finds no majority afterwards.
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
if record[1] == run_identity() and record[2] then
  redis.call('hset', KEYS[1], 'stamp', ARGV[1])
end
return marks
