-- Every full script begins with this text. Then come the functions for the key itself (set.lua or
-- string.lua), then publish.lua, queue.lua and the script's own file.
--
-- KEYS: 1 the lock's key, as other programs see it  2 the note; see note.go
--       3 records of readers and waiters (hash)  4 queue (zset)
--       5 waiters that are not in the queue (zset)
--       6 tokens that were released when they had no hold (zset)
-- ARGV: 1 the settings of the store: "KEEP COUNTS YIELDS ALONE"
local K, F, H, Q, B, X = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local keep, counts, yields, alone = string.match(ARGV[1], '^(%d+) (%d) (%d) (%d)$')
local KEEP = tonumber(keep)  -- for how many ms the note is kept; see finish in queue.lua
local YIELDS = yields == '1' -- programs that poll use the same names
local ALONE = alone == '1'   -- every program that uses the names is padlock

local STAGGER = 10            -- ms between the looks of two waiters
local BUSY, GAP = 1000, 130   -- ms; used with YIELDS, see queue.lua
local INTENT = 2000           -- for how many ms a reader's wish to be promoted is kept
local LAST = 9007199254740991 -- the greatest fence, 2^53 - 1
local WRITE, COOL, LOOK = '__write__', 'padlock:cool:', 'padlock:look'

local T = redis.call('TIME') -- read only once, because before Redis 7.2 the time advances while a script runs
local us = T[1] * 1000000 + T[2]
local ms = math.floor(us / 1000)
-- A server without free memory refuses commands that may need memory, unless the script has already
-- written something. But scripts that end a hold or keep it alive should work even then: they need
-- hardly any memory. So these scripts first call begin, which makes a write that changes nothing.
local function begin() redis.call('ZREM', X, '') end
local function int(x) return string.format('%.0f', x) end

-- The note: note.go has the table of its fields.
local note = { fence = 0 }
local said = redis.call('GET', F)
if said then
  if (string.byte(said) or 255) > BYTE_LAST_FLAG then
    return redis.error_reply(REFUSED_VERSION .. ' ' .. string.sub(said, 1, 1))
  end
  note.fence = tonumber(string.sub(said, NOTE_FENCE, NOTE_FENCE_END))
  local n = tonumber(string.sub(said, NOTE_LENGTH, NOTE_LENGTH_END)) -- nil if the note has no hold
  if n then
    local at = NOTE_TOKEN + n
    note.token, note.state = string.sub(said, NOTE_TOKEN, at - 1), string.sub(said, at, at)
    at = at + NOTE_STATE
    if note.state == NOTE_HELD_NOW then
      note.state, note.since = NOTE_HELD, math.floor(note.fence / 1000)
    else
      at = at + NOTE_TIME
      note.since = tonumber(string.sub(said, at, at + NOTE_TIME - 1))
      at = at + NOTE_TIME
    end
    note.holder = string.sub(said, at)
  end
end

-- record returns the record of a hold, or nil. The record of an exclusive hold is in the note. The
-- record of a shared hold is a field of the hash: since, 0, fence, state, holder. Older builds have
-- a time instead of the 0.
local function record(token)
  if note.token == token then
    return { token = token, fence = note.fence, since = note.since, state = note.state, holder = note.holder }
  end
  local v = redis.call('HGET', H, 't' .. token)
  if not v then return nil end
  local since, fence, state, holder = string.match(v, '^(%d+) %d+ (%d+) (%a) (.*)$')
  return {
    token = token, shared = true, since = tonumber(since), fence = tonumber(fence), state = state, holder = holder,
  }
end
-- known returns true if padlock or PHP's Symfony may have written a member of the key. Symfony's
-- tokens are 32 bytes in base64, and so are padlock's own. A caller's token has a record.
local function known(member)
  return member == WRITE or string.find(member, '^padlock:')
    or #member == 44 and string.find(member, '^[%w+/]+=$') or record(member)
end
local function forget(token)
  if note.token == token then note.token = nil else redis.call('HDEL', H, 't' .. token) end
end
local function put(r)
  if r.shared then
    redis.call('HSET', H, 't' .. r.token, table.concat({ int(r.since), 0, int(r.fence), r.state, r.holder }, ' '))
  else
    note.token, note.since, note.state, note.holder = r.token, r.since, r.state, r.holder
  end
end

-- newFence makes the next fence: the present time in microseconds since 1970, or the last fence + 1
-- if that is greater. A reader that joins other readers shares their fence.
--
-- The first reader must get a new fence, even though the note has a fence. If the server has
-- crashed and lost the writes of its last second, the note's fence may be lower than the fence of
-- the last writer.
local function newFence(joins, above)
  if not joins or note.fence == 0 or note.fence <= above then
    note.fence = math.max(note.fence + 1, us, above + 1)
  end
  return note.fence
end
