-- Redisson's layout: a hash, field -> hold count (prepended to the scripts of locks). `nonce` is the
-- field.

-- Programs without our queue (Redisson) subscribe to the name's channel.
local STRANGERS = true

-- The waiters to whom a release hands the name off.
local LAYOUT = {hash = true}

-- Returns the holder of a name as `UUID:ID`, and its hold count (false: the name is free), or an error
-- if the key is not such a lock. Redisson's read-write locks have one more field, `mode`, which is
-- `read` or `write`.
local function holder(name)
  local fields = redis.pcall('hlen', name)
  if fields == 0 then
    return false
  elseif type(fields) == 'table' then
    return other_kind(name, fields)
  elseif fields == 1 then
    local field = redis.call('hkeys', name)[1]
    if #field > 32 and string.find(field, '^[%x%-]+:%-?%d+$') then
      return field, redis.call('hget', name, field)
    end
  else
    local read_write = as_read_write(name, 'hash')
    if read_write then
      return redis.error_reply('OTHERKIND ' .. read_write)
    end
  end
  return redis.error_reply('NOTALOCK a hash whose fields are no holders')
end

-- Whether nobody holds the name.
local function is_free(name)
  return redis.call('exists', name) == 0
end

-- Whether this nonce holds the name.
local function held(name, nonce)
  return redis.call('hexists', name, nonce) == 1
end

-- Returns nil if no other nonce holds the name, {pttl} if one does, or an error if the key is no lock.
local function conflict(name, nonce)
  if redis.call('exists', name) == 0 then
    return nil
  end
  local ours = redis.pcall('hexists', name, nonce)
  if ours ~= 0 then
    return type(ours) == 'table' and other_kind(name, ours) or nil
  end
  local who = holder(name)
  return type(who) == 'table' and who or {redis.call('pttl', name)}
end

-- Takes the name, or takes it again, for `ttl` ms at least. No other nonce holds it. Returns nil, or the
-- error of a server that refuses a write, and then leaves no key without an expiry: the commands of a
-- script that has failed are not undone.
local function put(name, nonce, ttl, holds)
  local added = redis.pcall('hset', name, nonce, holds)
  if type(added) == 'table' then
    return added
  end
  local longest = added == 1 and ttl or math.max(redis.call('pttl', name), ttl)
  local expires = redis.pcall('pexpire', name, longest)
  if type(expires) == 'table' then
    if added == 1 then
      redis.call('del', name)
    end
    return expires
  end
end

-- Extends a lease to `ttl` ms at least, if this nonce holds the name, and sets the hold count. Returns 1
-- (extended), 0 (not held), or the server's error.
local function extend(name, nonce, ttl, holds)
  local count = redis.pcall('hget', name, nonce)
  if type(count) == 'table' and not string.find(count.err, 'WRONGTYPE') then
    return count
  elseif type(count) ~= 'string' then
    return 0
  end
  -- A full server refuses the write of a count, and extends the lease all the same (SAFETY.md H15).
  if count ~= holds then
    redis.pcall('hset', name, nonce, holds)
  end
  if redis.call('pttl', name) < ttl then
    redis.call('pexpire', name, ttl)
  end
  return 1
end

-- Ends the hold of this nonce. Returns 1 (was held) or 0, and whether the name is free now.
local function drop(name, nonce)
  if held(name, nonce) then
    redis.call('del', name)
    return 1, true
  end
  return 0, redis.call('exists', name) == 0
end

