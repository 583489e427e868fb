end
-- Extends many leases. The function one is a fast extend script.
-- KEYS: the name and the note of each hold
-- ARGV: 1 KEEP; then the token, as in the fast extend script, and the ttl of each hold
-- Returns three numbers for each hold: the fence, the ms left and 1 if PHP has demoted it, else 0.
-- Fence and ms are -1 if extend.lua must run for this hold. An error in one name has no effect on
-- the others.
local out, keep = {}, ARGV[1]
for i = 2, #KEYS, 2 do
  local ok, r = pcall(one, { KEYS[i - 1], KEYS[i] }, { ARGV[i], ARGV[i + 1], keep })
  if not ok or r == 0 then r = { -1, -1 } end
  out[#out + 1], out[#out + 2], out[#out + 3] = r[1], r[2], r[3] or 0
end
return out
