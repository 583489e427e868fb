-- A script for one lock can become a function, so that a larger script can run it for several
-- locks. The larger script consists of this file, the files of the script for one lock, and a file
-- that closes the function and calls it, such as slot_acquire.lua.
local function onLock(KEYS, ARGV)
