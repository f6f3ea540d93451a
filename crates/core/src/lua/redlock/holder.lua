-- What a key says of a lock in Redlock's layout (prepended to the scripts that ask).
--
-- Who holds a name (false: nobody), or the error of a key of another type. Any string excludes us: some
-- libraries' locks have values of any form, and no expiry.
local function holder_of(name)
  return redis.pcall('get', name)
end

