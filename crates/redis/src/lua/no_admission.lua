-- Without admission (prepended to the voting scripts): a server votes under any run identity.
local LONGEST = nil
