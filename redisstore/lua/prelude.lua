-- What every script but the fast ones begins with. After it comes one of
-- set.lua and string.lua, which know the key itself, then queue.lua.
--
-- KEYS: 1 the name, as other programs see it   2 its note   3 records (hash)
--       4 queue (zset)   5 bells (zset)   6 tokens that came too late (zset)
-- ARGV: 1 what the store is set to: "KEEP COUNTS YIELDS ALONE"
local K, F, H, Q, B, X = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local keep, counts, yields, alone = string.match(ARGV[1], '^(%d+) (%d) (%d) (%d)$')
local KEEP = tonumber(keep)  -- ms for which the note outlives what it tells of
local COUNTS = counts == '1' -- PUBLISH tells how many listen, all over
local YIELDS = yields == '1' -- programs that poll have a share in the names
local ALONE = alone == '1'   -- every program that uses the names is padlock

local RESERVE, STAGGER, SIGN, LINGER = 500, 10, 45000, 60000 -- ms
local BUSY, GAP = 1000, 130                     -- ms, of YIELDS
local INTENT = 2000                             -- ms for which a wish to be promoted is remembered
local LAST = 9007199254740991                   -- the last fence, 2^53 - 1
local WRITE, COOL, LOOK = '__write__', 'padlock:cool:', 'padlock:look'

local T = redis.call('TIME') -- once: it does not stand still in a script before Redis 7.2
local us = T[1] * 1000000 + T[2]
local ms = math.floor(us / 1000)
-- A server without memory refuses a script's commands that may need some, but
-- only until the script has written anything. So whatever ends or keeps a hold,
-- and needs no memory to speak of, begins with a write that changes nothing.
local function begin() redis.call('ZREM', X, '') end
local function int(x) return string.format('%.0f', x) end

-- The note: flag, fence (16 digits), and of the last exclusive hold length of
-- the token (3 digits), token, state (h held, r reserved), at-least and since
-- (13 digits each, ms) and holder. State H stands for a hold without an at-least
-- that began when its fence says; the 26 digits are left out then. The flag is !
-- when there is more than the fast scripts can know.
local note = { fence = 0 }
local said = redis.call('GET', F)
if said then
  note.fence = tonumber(string.sub(said, 2, 17))
  if #said > 17 then
    local n = tonumber(string.sub(said, 18, 20))
    note.token = string.sub(said, 21, 20 + n)
    note.state = string.sub(said, 21 + n, 21 + n)
    if note.state == 'H' then
      note.state, note.atleast, note.since = 'h', 0, math.floor(note.fence / 1000)
      note.holder = string.sub(said, 22 + n)
    else
      note.atleast = tonumber(string.sub(said, 22 + n, 34 + n))
      note.since = tonumber(string.sub(said, 35 + n, 47 + n))
      note.holder = string.sub(said, 48 + n)
    end
  end
end

-- The record of a shared hold in the hash: since, at-least, fence, state, holder.
local function record(token)
  if note.token == token then
    return { token = token, fence = note.fence, since = note.since, state = note.state, atleast = note.atleast, holder = note.holder }
  end
  local v = redis.call('HGET', H, 't' .. token)
  if not v then return nil end
  local since, atleast, fence, state, holder = string.match(v, '^(%d+) (%d+) (%d+) (%a) (.*)$')
  return {
    token = token, shared = true, since = tonumber(since), atleast = tonumber(atleast),
    fence = tonumber(fence), state = state, holder = holder,
  }
end
local function forget(token)
  if note.token == token then note.token = nil else redis.call('HDEL', H, 't' .. token) end
end
local function put(r)
  if r.shared then
    redis.call('HSET', H, 't' .. r.token, table.concat({ int(r.since), int(r.atleast), int(r.fence), r.state, r.holder }, ' '))
  else
    note.token, note.since, note.state, note.atleast, note.holder = r.token, r.since, r.state, r.atleast, r.holder
  end
end

-- mint makes the next fence: microseconds since 1970, or one more than the
-- last. Who reads beside others shares theirs. The first of them may not: what
-- stands in the note may be older than the last writer, if the server has lost
-- its last second.
local function mint(beside, above)
  if not beside or note.fence == 0 or note.fence <= above then
    note.fence = math.max(note.fence + 1, us, above + 1)
  end
  return note.fence
end
