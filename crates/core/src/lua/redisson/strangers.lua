-- In this layout programs that know of no queue listen to a name's channel (prepended to wake.lua).
local STRANGERS = true
