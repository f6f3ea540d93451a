-- In this layout nobody listens to a name's channel (prepended to wake.lua).
local STRANGERS = false
