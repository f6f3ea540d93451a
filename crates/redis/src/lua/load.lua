-- Lets EVAL load a script without running it (prepended to every script), for a server that refuses
-- SCRIPT LOAD.
-- KEYS: none to load
-- ARGV: 1 'load'
-- Replies: 1 (loaded)
-- Rule: changes nothing. No request of a lock is without keys and begins with this argument.
if ARGV[1] == 'load' and #KEYS == 0 then
  return 1
end

