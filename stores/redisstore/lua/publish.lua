-- publish sends a message to a waiter. It returns false if the waiter's process is certainly gone.
-- Then the caller takes the reservation of that waiter away again. The setting COUNTS says how to
-- send messages; see messagesToAll in serverinfo.go.
--
-- In a cluster, waiters usually have sharded channels. The id of such a channel has CHANNEL_LENGTH
-- digits. The next step depends on the server that has the slot of the channel:
--
--   slot of the channel  subscribers here  what publish does                       it returns
--   here                 some              SPUBLISH                                true
--   here                 none              PUBLISH: if the waiter's process is     false
--                                          still alive, the waiter looks
--   at another primary   not known         PUBLISH                                 true
local function publish(chan, message)
  local all, shard = 'padlock:' .. chan, 'padlock:s:' .. chan
  if counts == '2' then
    -- publish asks for the subscribers before it sends. SPUBLISH would also reach a subscriber at a
    -- replica, but would not count it. That subscriber might use the name after the caller has
    -- taken the reservation away.
    local known = #chan == CHANNEL_LENGTH and redis.pcall('PUBSUB', 'SHARDNUMSUB', shard)
    if not known or known[2] ~= 0 then -- known[2] is nil if the user has no right to PUBSUB
      local sent = redis.pcall('SPUBLISH', shard, message)
      if type(sent) == 'number' and sent > 0 then return true end
    elseif type(redis.pcall('SPUBLISH', shard, '')) == 'number' then -- it fails if the slot is elsewhere
      redis.pcall('PUBLISH', all, (string.gsub(message, '^%a (%d+).*', 'f %1 0')))
      return false
    end
  end
  local n = redis.pcall('PUBLISH', all, message) -- may be forbidden
  return type(n) ~= 'number' or n > 0 or counts ~= '1'
end

-- reservation returns for how many ms a name is reserved for the waiter with an id. A waiter that
-- has a slow connection asks for more time: each 0 at the beginning of its id adds MS_RESERVE.
-- Older padlocks take such an id for the same number.
local function reservation(id) return MS_RESERVE * #string.match(id, '^0*.') end
