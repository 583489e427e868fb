-- publish sends a message to a waiter. It returns false if the waiter's process is known to be gone.
-- The variable counts says how messages travel; see messagesToAll in serverinfo.go.
--
-- In a cluster, the channel of a waiter has CHANNEL_LENGTH digits if the waiter has subscribed to
-- the sharded channel at the primary of the channel's slot. Then publish asks that primary, which
-- runs this script, whether the channel has a subscriber, before anything is sent. SPUBLISH alone
-- would not do: it returns the number of subscribers at this server, but it also reaches subscribers
-- at its replicas, which may use the name although this script has taken it from them.
--
--   the channel    the slot of      what publish does                      result
--   has here       the channel is
--   a subscriber   here             SPUBLISH                               true
--   no subscriber  here             PUBLISH, which asks the waiter to look, false
--                                   if it is alive after all
--   not known      elsewhere        PUBLISH                                true
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
