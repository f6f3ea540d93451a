-- With admission, on one node (prepended to notify_next.lua, behind handoff.lua; the client that has
-- verified this run of the server fills in the incarnation, or none if the server is not proven).
-- KEYS: the last one: the admission record
-- ARGV: none
-- Replies: none
-- Rule: a handoff is a vote: the server gives it only while its memory is the verified one (PROTOCOL.md
-- ADM1, ADM7). Otherwise the script notifies the waiter, whose own request is judged.
local unproven_handoff = handoff
local function handoff(...)
  local record = redis.call('hmget', KEYS[#KEYS], 'stamp', 'life')
  local run, role = run_identity()
  if record[1] ~= '@STAMP@' or record[2] ~= run or role ~= 'master' then
    return false
  end
  return unproven_handoff(...)
end

