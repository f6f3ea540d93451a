-- A layout with one holder at a time has no turns and no readers (prepended to scripts after a layout).
local function keeps_out()
  return false
end

local function keep_turn()
end

local function end_turn()
end

local function shares()
  return false
end

-- All holders of a name that `who` holds.
local function holders_of(_, who)
  return {who}
end

-- The name in messages to waiters.
local function told_as(name)
  return name
end

