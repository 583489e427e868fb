-- The scripts for permits wrap the text of a script for one name into a function, and call it for
-- each permit. This file is the beginning; slot_acquire.lua or slot_wait.lua is the end.
local function one(KEYS, ARGV)
