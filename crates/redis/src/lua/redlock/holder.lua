-- Reads the holder of a lock in Redlock's layout (prepended to the scripts that need it).
--
-- Returns the holder of a name (false: the name is free), or the error of a key of another type. A
-- string of any form excludes us: the locks of some libraries have values of any form, and no
-- expiry.
local function holder_of(name)
  return redis.pcall('get', name)
end

