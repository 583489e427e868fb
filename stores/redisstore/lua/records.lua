-- Returns the records of a name: ids and texts in turn. It does not use HGETALL, because Redis
-- users that were set up for older versions of padlock have no right to it.
-- KEYS: 1 the records of the name (hash)
local all = {}
for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
  table.insert(all, id)
  table.insert(all, redis.call('HGET', KEYS[1], id))
end
return all
