-- The scripts for permits wrap the text of a script for one name into a function, and call this
-- function for each permit. The function begins in this file. It ends at the beginning of the file
-- that calls it, such as slot_acquire.lua.
local function one(KEYS, ARGV)
