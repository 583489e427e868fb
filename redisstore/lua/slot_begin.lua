-- A script for one name can become a function of a larger script. The larger script calls the
-- function several times, once for each permit or lease. It consists of three texts. This text
-- begins the function one(KEYS, ARGV). The script for one name is the body of the function. The
-- last text, such as slot_acquire.lua, ends the function and calls it.
local function one(KEYS, ARGV)
