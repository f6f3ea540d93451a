-- Fencing counters (prepended to the scripts that move them).
--
-- The largest counter ever issued here, in steps, so that it is seldom written: what the repair of
-- another node asks for.
local function remember(token)
  if STAMP and token > (tonumber(record[3]) or 0) then
    redis.call('hset', RECORD, 'fmax', string.format('%.0f', math.min(token + 1024, MOST)))
  end
end

-- The next tokens of a name: so many in a row, of which the last is returned. Or the error of the counter, or of
-- the record, that cannot give them.
-- A missing counter starts at the client's wall clock in microseconds, the same for all nodes, so
-- that a fresh name costs a quorum one round; clamped to this node's own clock +- 1 hour, so that
-- one wrong client clock cannot spoil the counter. So does one below 2^32 (Counter::UNSEEDED), which no
-- clock started: whoever was refused without a script created it. Never below the node's floor, which
-- stands for counters that were lost (A7). (SAFETY.md, tokens)
local function next_token(key, least, seed, keep_ms, tokens)
  local risen = STAMP and (bad_mark(RECORD, 'floor', record[2]) or bad_mark(RECORD, 'fmax', record[3]))
    or rise(key, tokens)
  if type(risen) == 'table' then
    return risen
  end
  local last, floor = risen - tokens, tonumber(record[2] or 0)
  if floor + tokens > MOST then
    return redis.error_reply('BADMARK ' .. RECORD .. ' floor')
  end
  if last < 4294967296 then
    local time = redis.call('time')
    local now, hour = time[1] * 1e6 + time[2], 3.6e9
    last = math.max(last, math.min(math.max(tonumber(seed), now - hour), now + hour))
  end
  local token = math.max(math.max(last, floor) + tokens, tonumber(least))
  if token == risen then
    redis.call('pexpire', key, keep_ms)
  else
    redis.call('set', key, string.format('%.0f', token), 'px', keep_ms)
  end
  remember(token)
  return token
end

-- To a token that a quorum agreed on; whether it was lower. A repair must know of raised counters too
-- (model M8f). Or the error of the counter, or of the record.
local function raise_token(key, token, keep_ms)
  local count = STAMP and (bad_mark(RECORD, 'floor', record[2]) or bad_mark(RECORD, 'fmax', record[3]))
    or redis.call('exists', key) == 1 and rise(key, 0)
  if type(count) == 'table' then
    return count
  end
  local lower = (count or 0) < tonumber(token)
  if lower then
    redis.call('set', key, token, 'px', keep_ms)
  end
  remember(tonumber(token))
  return lower
end
