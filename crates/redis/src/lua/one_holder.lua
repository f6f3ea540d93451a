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

-- Returns {pttl} if nothing but the turn of a writer is left of a read-write lock: nobody holds the name,
-- and the caller waits until the writer has it, or the turn is over.
local function turn_left(name)
  local only = redis.call('type', name).ok == 'zset' and redis.call('zcard', name) == 1
    and redis.call('zscore', name, 'turn')
  return only and {redis.call('pttl', name)} or nil
end


-- As the layout's, and a name of which only a turn is left is free.
local holder_or_error = holder
local function holder(name)
  local who, holds = holder_or_error(name)
  if type(who) == 'table' and turn_left(name) then
    return false
  end
  return who, holds
end
