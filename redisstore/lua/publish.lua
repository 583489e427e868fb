-- publish sends a message to a waiter. It returns false if it knows that the waiter's process is
-- gone. If the message was about a reservation, the script then takes the reservation away again.
-- The setting COUNTS decides how messages travel; see messagesToAll in serverinfo.go.
--
-- In a cluster, a waiter usually subscribes to a sharded channel, whose id has CHANNEL_LENGTH
-- digits. It subscribes at the primary of the channel's slot. If this script runs at the same
-- primary, publish asks the server whether the channel has a subscriber, before it sends the
-- message.
--
-- The reply to SPUBLISH also says how many subscribers there are, but it counts only those at this
-- server. The server's replicas deliver the message to their own subscribers, too. If publish
-- looked at the reply alone, a subscriber at a replica might begin to use the name after the script
-- has taken its reservation away.
--
--   slot of the channel  subscribers here  what publish does                       it returns
--   here                 some              SPUBLISH                                true
--   here                 none              PUBLISH: if the waiter's process is     false
--                                          still alive, the waiter looks
--   at another primary   not known         PUBLISH                                 true
local function publish(chan, message)
  local all, shard = 'padlock:' .. chan, 'padlock:s:' .. chan
  if counts == '2' then
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

-- named makes the text of the field s of a gate's hash, which says for whom a permit may be
-- reserved; see slot_pass.lua.
local function named(token, chan, id, holder)
  return string.format(FORMAT_LENGTH, #token) .. token .. chan .. ' ' .. id .. ' ' .. holder
end
