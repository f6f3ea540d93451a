-- The names that one acquisition takes together (prepended to the scripts that grant
-- them, or accept a token for them).
-- KEYS: the names, then the mark of each name, and for a caller that will wait (ARGV 5) the waiters of
--   each name; for a slot of permits, the only name then, all slots in order (acquire.lua)
-- ARGV: 5 see wait_queue.lua
-- Replies: see the script
-- Rule: a node has accepted a token if the mark of each name has (PROTOCOL.md SET2).

-- Whether the name is a slot of permits.
local PERMIT = string.find(KEYS[1], '^quorumlock:permit:') ~= nil

-- How many names there are. Beside these keys there is at most one more.
local COUNT = PERMIT and 1 or math.floor(#KEYS / (ARGV[5] and 3 or 2))

-- Accepts a token that is above the mark of each name. Names of one slot share a mark. Returns 0
-- (all have accepted it), the largest mark that it is not above, or an error.
local function accept_all(token)
  local above, seen = 0, {}
  for i = COUNT + 1, 2 * COUNT do
    if not seen[KEYS[i]] then
      seen[KEYS[i]] = true
      local mark = accept(KEYS[i], token)
      if type(mark) == 'table' then
        return mark
      end
      above = math.max(above, mark)
    end
  end
  return above
end

