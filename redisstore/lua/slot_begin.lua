-- Some scripts run a script for one name several times, once for each permit or lease. They consist
-- of this text, the script for one name, and a last text such as slot_acquire.lua. This text begins
-- the function one(KEYS, ARGV). The script for one name is the body of the function. The last text
-- ends the function and calls it.
local function one(KEYS, ARGV)
