-- Redlock's layout: a string, the nonce (prepended to the scripts of locks). It has no hold counts.

-- No program subscribes to the name's channel.
local STRANGERS = false

-- The waiters to whom a release hands the name off.
local LAYOUT = {string = true}

-- Returns the holder of a name (false: the name is free), or the error of a key of another type. A
-- string of any form excludes us: the locks of some libraries have values of any form, and no
-- expiry.
local function holder(name)
  local who = redis.pcall('get', name)
  return type(who) == 'table' and other_kind(name, who) or who
end

-- Whether nobody holds the name.
local function is_free(name)
  return redis.call('exists', name) == 0
end

-- Whether this nonce holds the name.
local function held(name, nonce)
  return redis.call('get', name) == nonce
end

-- Returns nil if no other nonce holds the name, {pttl} if one does, or an error if the key is no lock.
local function conflict(name, nonce)
  local who = holder(name)
  if not who or who == nonce then
    return nil
  end
  return type(who) == 'table' and who or {redis.call('pttl', name)}
end

-- Extends a lease to `ttl` ms at least, if this nonce holds the name. Returns 1 (extended), 0 (not
-- held), or the server's error.
local function extend(name, nonce, ttl)
  local who = redis.pcall('get', name)
  if type(who) == 'table' and not string.find(who.err, 'WRONGTYPE') then
    return who
  elseif who ~= nonce then
    return 0
  end
  if redis.call('pttl', name) < ttl then
    redis.call('pexpire', name, ttl)
  end
  return 1
end

-- Takes the name, or takes it again, for `ttl` ms at least. No other nonce holds it. Returns nil, or the
-- error of a server that refuses the write.
local function put(name, nonce, ttl)
  local set = redis.pcall('set', name, nonce, 'nx', 'px', ttl)
  if set and not set.err or extend(name, nonce, ttl) == 1 then
    return nil
  end
  return set or redis.error_reply('BUSY another nonce holds the name')
end

-- Ends the hold of this nonce. Returns 1 (was held) or 0, and whether the name is free now.
local function drop(name, nonce)
  local who = redis.call('get', name)
  if who == nonce then
    redis.call('del', name)
    return 1, true
  end
  return 0, not who
end

