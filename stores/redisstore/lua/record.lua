-- Writes records of a name. If a series then has too many records, removes those with the lowest
-- ids. The first letter of an id is its series.
-- KEYS: 1 the records of the name (hash)
-- ARGV: 1 how many records of a series are kept  2 for how many ms the hash is kept; then, for each
--       record, its id and its text
local key, most = KEYS[1], tonumber(ARGV[1])
for i = 3, #ARGV, 2 do
  redis.call('HSET', key, ARGV[i], ARGV[i + 1])
end
redis.call('PEXPIRE', key, ARGV[2])
local series = {}
for _, id in ipairs(redis.call('HKEYS', key)) do
  local s = string.sub(id, 1, 1)
  series[s] = series[s] or {}
  table.insert(series[s], id)
end
for _, ids in pairs(series) do
  table.sort(ids)
  for i = 1, #ids - most do
    redis.call('HDEL', key, ids[i])
  end
end
return 0
