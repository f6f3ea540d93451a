-- Fencing tokens (prepended to the scripts that read or raise a mark). The mark of a slot is the
-- largest token that this server has accepted in it: the score of the only member of a sorted set.
-- (PROTOCOL.md, Tokens)

-- The largest token (FencingToken::MAX). Lua numbers are doubles, which are exact up to 2^53.
local MOST = 9007199253692415

-- Returns the mark (0: none), or an error if the key holds no mark, or one that leaves no room for
-- another block.
local function mark_of(key)
  local score = redis.pcall('zscore', key, 'm')
  if type(score) == 'table' then
    return string.find(score.err, 'WRONGTYPE') and redis.error_reply('BADMARK ' .. key) or score
  end
  local mark = tonumber(score or 0)
  if not (mark >= 0 and mark < MOST - 64) then
    return redis.error_reply('BADMARK ' .. key)
  end
  return mark
end

-- Returns the last token of the first block above a mark (FencingToken::BLOCK; PROTOCOL.md T7).
local function next_token(mark)
  return string.format('%.0f', math.floor(mark / 32) * 32 + 63)
end

-- Accepts a token that is above the mark. Returns 0 (accepted), the mark (the token is not above
-- it), or an error.
local function accept(key, token)
  local moved = redis.pcall('zadd', key, 'gt', 'ch', token, 'm')
  if moved == 1 then
    return 0
  elseif moved == 0 then
    return mark_of(key)
  end
  return string.find(moved.err, 'WRONGTYPE') and redis.error_reply('BADMARK ' .. key) or moved
end

