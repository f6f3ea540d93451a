-- Serves the waiters for a name (prepended to the scripts that free one, and in strict order to
-- acquire.lua). All of it is advice, except a handoff (handoff.lua).

-- Notifies a waiter that the name is free. The member keeps its place, with the time. One whose process
-- does not subscribe leaves the queue. Returns whether it was notified.
local function notify(name, waiters, member, score, now)
  local waiter, kind = parts_of(member)
  local heard = waiter ~= '' and told('quorumlock:wake:' .. waiter, told_as(name, kind)) > 0
  if heard and not is_earlier(member) then
    redis.pcall('zadd', waiters, 'xx', score_of(score, now, 1), member)
  else
    redis.pcall('zrem', waiters, member)
  end
  return heard
end

-- Serves the first waiter that showed life within the last two seconds: hands the name off to it, or
-- notifies it. Waiters before it may be stopped, or poll seldom: it notifies them, and they keep their
-- place. After a waiter that shares the name (a reader) it serves those behind it that share it, too.
-- Looks at 64 members at most, and notifies eight that showed no life; if nobody is served, all that accept a
-- handoff. Members whose process has ended leave the queue, and do not count: up to 1,000 of them.
--
-- `ends_at(member, score)`: whether it stops at this member, which is the caller's or not before the caller
-- (nil: at none). In strict order the name waits for those before it that were notified within the last
-- second. Returns whether a waiter was served, or is awaited.
local function serve(name, waiters, mark_key, hands_off, ends_at)
  -- The kind of the last waiter that was served.
  local now, at, served, awaited, told_silent, silent = now_us(), 0, nil, false, 0, {}
  local told_earlier = false
  local looks, gone = 64, 1000
  while looks > 0 and gone > 0 do
    local entry = redis.pcall('zrange', waiters, at, at, 'withscores')
    local member, score = entry[1], tonumber(entry[2])
    if not member or ends_at and ends_at(member, score) then
      break
    end
    local waiter, kind, nonce, ttl, fencing = parts_of(member)
    if served and not (shares(served) and shares(kind)) then
      break
    end
    -- Whether the member has left the queue without being served.
    local left = false
    local age, was_told = sign_of(score, now)
    if is_earlier(member) then
      -- It is queued again when it asks.
      left = not notify(name, waiters, member, score, now)
      if not left then
        served, told_earlier = kind or 'hash', true
      end
    elseif was_told and age >= GONE then
      redis.pcall('zrem', waiters, member)
      left = true
    elseif was_told then
      awaited, at = awaited or age < PASSED_OVER, at + 1
      if kind == 'set' and age < PASSED_OVER then
        -- It needs all its names free at once, and this one is left to it (PROTOCOL.md SET5).
        break
      end
    elseif age >= STALE then
      if told_silent == 8 then
        -- One that accepts a handoff waits at no other node, so that nobody else would notify it.
        silent[#silent + 1] = nonce and {member, score}
        at = at + 1
      else
        left = not notify(name, waiters, member, score, now)
        if not left then
          told_silent, awaited, at = told_silent + 1, true, at + 1
        end
      end
    elseif STRICT and awaited then
      -- It comes, and again when the time of those before it is over.
      notify(name, waiters, member, score, now)
      break
    elseif nonce and hands_off and LAYOUT[kind]
      and handoff(name, told_as(name, kind), mark_key, waiter, nonce, ttl, fencing) then
      redis.pcall('zrem', waiters, member)
      served = kind
    else
      left = not notify(name, waiters, member, score, now)
      if not left then
        served, at = kind, at + 1
      end
    end
    if left then
      gone = gone - 1
    else
      looks = looks - 1
    end
  end
  if served then
    -- The waiter that is second now asks, so that the next release finds that it lives.
    local entry = redis.pcall('zrange', waiters, at + 1, at + 1, 'withscores')
    local waiter, kind = parts_of(entry[1] or '')
    if not is_earlier(entry[1] or '') and sign_of(tonumber(entry[2]), now) >= PASSED_OVER then
      told('quorumlock:wake:' .. waiter, 'quorumlock:second:' .. told_as(name, kind))
    end
  else
    for _, other in ipairs(silent) do
      awaited = notify(name, waiters, other[1], other[2], now) or awaited
    end
  end
  if told_earlier then
    -- It left the queue: this member says that a waiter was notified and has not come.
    redis.pcall('zadd', waiters, 0, '')
    if redis.pcall('zcard', waiters) == 1 then
      redis.pcall('pexpire', waiters, 1000)
    end
  end
  return served ~= nil or awaited
end

-- A name is free. Without a waiter, notifies the subscribers of the name's channel, in the layout that has
-- such subscribers. Returns 0 (nobody was notified), 1 (subscribers of the name's channel), 2 (a waiter).
local function notify_next(name, waiters, channel, mark_key, by)
  -- One release in eight, chosen by its nonce `by` (nil: never), also notifies the name's channel.
  -- If a program subscribes there, it hands nothing off, so that programs without a queue do not
  -- starve.
  local strangers_too = STRANGERS and by and string.find(by, '^[08]')
    and told(channel, '0') > 0
  if serve(name, waiters, mark_key, not strangers_too) then
    return 2
  end
  return STRANGERS and math.min(told(channel, '0'), 1) or 0
end

