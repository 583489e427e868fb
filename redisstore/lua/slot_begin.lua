-- Some scripts do the same for each of several permits or leases. Such a script consists of this
-- text, the text of a script for one name, and a last text such as slot_acquire.lua. The first two
-- texts are the function one, which the last text calls. The function ends at the beginning of the
-- last text.
local function one(KEYS, ARGV)
