-- Some scripts do for several locks what another script does for one lock. They begin with this
-- file. The files of the other script follow, and become the body of the function onLock. The last
-- file closes the function and calls it for each lock; an example is slot_acquire.lua.
local function onLock(KEYS, ARGV)
