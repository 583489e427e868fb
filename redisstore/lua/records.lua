-- Returns the records of a name: ids and texts in turn. HGETALL would need a right that users of
-- older versions do not have.
-- KEYS: 1 the records of the name (hash)
local all = {}
for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
  table.insert(all, id)
  table.insert(all, redis.call('HGET', KEYS[1], id))
end
return all
