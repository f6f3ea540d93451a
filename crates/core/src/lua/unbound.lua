-- Without admission (prepended to the voting scripts): any run of the server may vote.
local LONGEST = nil
