-- The layout of read-write locks: a sorted set, 'NONCE:r' or 'NONCE:w' -> the end of that hold, in
-- milliseconds of this server's clock (prepended to the scripts of locks). `nonce` is the member. There is
-- one writer and no reader, or any number of readers (PROTOCOL.md RW1). A full server extends no hold. An odd
-- end is that of a read that has passed a waiting writer.

-- No program subscribes to the name's channel.
local STRANGERS = false

-- The waiters to whom a release hands the name off.
local LAYOUT = {read = true, write = true}

-- The member that keeps new readers out for a waiting writer, until its score (PROTOCOL.md RW3).
local TURN = 'turn'

-- Whether this acquisition passes a waiting writer.
local PASSES = false

-- The time of this server, in milliseconds.
local TIME = redis.call('time')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)
local AFTER_NOW = string.format('(%.0f', NOW)

local function reads(nonce)
  return string.find(nonce, ':r$') ~= nil
end

-- The other member of the same acquisition: its hold was a writer's, and is a reader's after a downgrade
-- (PROTOCOL.md RW4).
local function twin(nonce)
  return string.sub(nonce, 1, -2) .. (reads(nonce) and 'w' or 'r')
end

-- Returns when the hold of this nonce ends; nil if it has none or it has ended.
local function ends(name, nonce)
  local score = tonumber(redis.call('zscore', name, nonce) or 0)
  return score > NOW and score or nil
end

-- How many hold the name.
local function count(name)
  return redis.call('zcount', name, AFTER_NOW, '+inf') - (ends(name, TURN) and 1 or 0)
end

-- Returns the holder of a name, and how many there are (false: the name is free), or an error if the key
-- is not such a lock. Several readers are `readers`.
local function holder(name)
  local members = redis.pcall('zrangebyscore', name, AFTER_NOW, '+inf', 'limit', 0, 3)
  if members.err then
    return other_kind(name, members)
  end
  local first, holders = nil, 0
  for _, member in ipairs(members) do
    if member ~= TURN then
      if not string.find(member, '^%x+:[rw]$') then
        return redis.error_reply('NOTALOCK a sorted set whose members are no holders')
      end
      first, holders = first or member, holders + 1
    end
  end
  if holders < 2 then
    return first or false, '1'
  end
  return 'readers', string.format('%d', count(name))
end

-- All holders of a name.
local function holders_of(name)
  local found = {}
  for _, member in ipairs(redis.call('zrangebyscore', name, AFTER_NOW, '+inf')) do
    if member ~= TURN then
      found[#found + 1] = member
    end
  end
  return found
end

-- Whether nobody holds the name.
local function is_free(name)
  return not holder(name)
end

-- Whether this nonce holds the name.
local function held(name, nonce)
  return ends(name, nonce) ~= nil
end

-- Returns nil if no other nonce excludes this one, {pttl} if one does, or an error if the key is no such
-- lock. Forgets the holds that have ended by this server's clock: no other clock ends them.
local function conflict(name, nonce)
  local members = redis.pcall('zcard', name)
  if members == 0 then
    return nil
  elseif type(members) == 'table' then
    return other_kind(name, members)
  end
  local purged = redis.pcall('zremrangebyscore', name, '-inf', string.format('%.0f', NOW))
  if type(purged) == 'table' then
    return purged
  end
  local who, holders = holder(name)
  if not who or who == nonce or who == twin(nonce) then
    return nil
  elseif type(who) == 'table' then
    return who
  elseif reads(nonce) and (holders ~= '1' or reads(who)) then
    return nil
  end
  return {redis.call('pttl', name)}
end

-- Whether the locker of this reader has a read that has passed no writer: the writer waits for that read,
-- and it may wait for this one. The locker is the end of the nonce.
local function reads_already(name, nonce)
  local locker = string.sub(nonce, 21)
  for _, member in ipairs(holders_of(name)) do
    if string.sub(member, 21) == locker and ends(name, member) % 2 == 0 then
      return true
    end
  end
  return false
end

-- Returns {ms} if a waiting writer keeps this reader out, which has not been notified, for so long.
local function keeps_out(name, nonce, notified)
  local last = not notified and reads(nonce) and ends(name, TURN)
  if not last or held(name, nonce) then
    return nil
  end
  PASSES = reads_already(name, nonce)
  return not PASSES and {last - NOW}
end

-- Whether a waiter of this kind is a reader: several get a free name at once.
local function shares(kind)
  return kind == 'read'
end

-- This layout has turns of its own (one_holder.lua).
local function turn_left()
end

-- Lets the key end with its last member.
local function end_with_last(name)
  local last = redis.call('zrange', name, -1, -1, 'withscores')
  return last[2] and redis.pcall('pexpireat', name, last[2])
end

-- Lets new readers in: a writer waits no longer. Others that wait keep them out again when they ask.
local function end_turn(name)
  redis.pcall('zrem', name, TURN)
end

-- Keeps new readers out for `ms`, if this nonce is a writer's.
local function keep_turn(name, nonce, ms)
  if not reads(nonce) and redis.call('type', name).ok == 'zset' then
    redis.pcall('zadd', name, 'gt', string.format('%.0f', NOW + ms), TURN)
    end_with_last(name)
  end
end

-- Takes the name, or takes it again, until `ttl` ms from now at least. No other nonce excludes it. Returns
-- nil, or the error of a server that refuses a write, and then leaves no hold without an end.
local function put(name, nonce, ttl)
  -- Once no writer waits, a read that has passed one is as any other.
  local odd = reads(nonce) and ends(name, TURN) and (PASSES or (ends(name, nonce) or 0) % 2 == 1)
  local last = NOW + ttl
  last = last + (last % 2 == (odd and 1 or 0) and 0 or 1)
  local added = redis.pcall('zadd', name, 'gt', string.format('%.0f', last), nonce)
  if type(added) == 'table' then
    return added
  end
  if not reads(nonce) then
    end_turn(name)
  end
  local expires = end_with_last(name)
  if type(expires) == 'table' then
    if added == 1 then
      redis.call('zrem', name, nonce)
    end
    return expires
  end
end

-- Extends a hold until `ttl` ms from now at least, if this nonce has it. A writer's hold becomes a reader's
-- if `nonce` is the reader's, and never the other way: a late renewal of the writer's extends the reader's
-- (PROTOCOL.md RW4). Returns 1 (extended), 0 (not held), or the server's error.
local function extend(name, nonce, ttl)
  local score = redis.pcall('zscore', name, nonce)
  if type(score) == 'table' then
    return string.find(score.err, 'WRONGTYPE') and 0 or score
  end
  local other = twin(nonce)
  local is_twin = not ends(name, nonce) and ends(name, other) ~= nil
  if not is_twin and not ends(name, nonce) then
    return 0
  end
  local refused = put(name, is_twin and not reads(nonce) and other or nonce, ttl)
  if is_twin and reads(nonce) and not refused then
    redis.call('zrem', name, other)
  end
  return refused or 1
end

-- Ends the hold of this nonce. Returns 1 (was held) or 0, and whether the name is free now.
local function drop(name, nonce)
  -- Also a hold that has ended: no writer has come since, or it would have been forgotten.
  local was = redis.call('zrem', name, nonce, twin(nonce))
  if not reads(nonce) then
    end_turn(name)
  end
  if redis.call('zcard', name) == 0 then
    return math.min(was, 1), true
  end
  end_with_last(name)
  return math.min(was, 1), is_free(name)
end

