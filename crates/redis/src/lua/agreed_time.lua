-- The server's time, for the scripts that write or judge notes (prepended to them).

-- Returns the time in microseconds, or nil if it is further from the client's than the bound.
local function agreed_time(client, bound)
  local time = redis.call('time')
  local micros = time[1] * 1000000 + time[2]
  return math.abs(micros - client) <= tonumber(bound) and micros or nil
end
