-- The scripts for permits wrap the text of a script for one name into a function, and call it for
-- each permit. This file has the first line of that function. The file with the calls, such as
-- slot_acquire.lua, has its last line.
local function one(KEYS, ARGV)
