-- These functions manage the waiters, and hand the name over to them when it becomes free. Every
-- script that may have changed something ends with finish().

local function intent() -- the token of the reader that waits to be promoted, or nil
  local v = redis.call('HGET', H, 'i')
  if not v then return nil end
  local til, token = string.match(v, '^(%d+) (.*)$')
  if tonumber(til) > ms and tonumber(til) <= ms + INTENT and live(token) then return token end
  redis.call('HDEL', H, 'i')
end
local function withdraw(token)
  local v = redis.call('HGET', H, 'i')
  if v and string.match(v, '^%d+ (.*)$') == token then redis.call('HDEL', H, 'i') end
end

-- Other programs may poll: they try to get a name, and sleep between two tries. The option Foreign
-- (YIELDS) gives them a chance: after each 1 s (BUSY) of use, padlock leaves the name free for 130
-- ms (GAP). A polling program sleeps for less than 130 ms.
--
-- Padlock's readers overlap, so they might never leave the name free. So padlock adds a member,
-- LOOK, to the key. The lease of LOOK has expired. Other programs remove expired members when they
-- try to get the name. If LOOK is gone after 1 s, another program is waiting. Then padlock admits
-- no new readers, and the gap begins when the last reader leaves.
--
-- Fields of the hash:
--   b  the time since which padlock has used the name without a gap
--   d  set if no new readers are admitted
--   e  when padlock's last hold ended, or when the cool-down after that hold ends
--   g  when the gap ends
local function gap() -- the end of the gap, or 0
  if not YIELDS then return 0 end
  local til = tonumber(redis.call('HGET', H, 'g') or 0)
  if til <= ms or til > math.max(top(), ms) + GAP then return 0 end -- over, or the clock was set back
  return til
end
local function cooling(token) return string.sub(token, 1, #COOL) == COOL end
local function ours() -- true if padlock has a hold
  return each(function(token) return not cooling(token) and record(token) end)
end
local function drains()
  if not YIELDS or ms - tonumber(redis.call('HGET', H, 'b') or ms) < BUSY or not ours() then return end
  if redis.call('HGET', H, 'd') then return true end
  if redis.call('ZSCORE', K, LOOK) then return end
  redis.call('HSET', H, 'd', '1')
  return true
end
local function begins()
  redis.call('HDEL', H, 'd')
  local last = tonumber(redis.call('HGET', H, 'e') or 0)
  if last + GAP <= ms or last > ms then redis.call('HSET', H, 'b', int(ms)) end
end
local function ends(til) -- returns true if a gap begins; til is when the cool-down ends, or 0
  if not YIELDS or ours() then return end
  til = math.max(til, ms)
  local busy = tonumber(redis.call('HGET', H, 'b') or til)
  redis.call('HSET', H, 'e', int(til))
  if til - busy < BUSY then return end
  redis.call('HSET', H, 'g', int(til + GAP))
  return true
end

local function blocked(shared) -- true if a caller that has no hold yet cannot get the name
  if gap() > 0 then return true end
  if shared then return writing() or intent() or drains() end
  return taken()
end
-- spent returns true if a grant needs a new fence and none is left.
local function spent(shared, above)
  return note.fence >= LAST and not (shared and taken() and note.fence > above)
end
local function grant(token, shared, til, above, holder, state)
  local fence, first = newFence(shared and taken(), above), YIELDS and not ours()
  if shared and note.token and not live(note.token) then note.token = nil end -- see lostReason
  put({ token = token, shared = shared, fence = fence, since = ms, state = state, holder = holder })
  add(token, shared, til) -- after put: without a record, the token of a caller's own looks like an application's
  if YIELDS and shared then redis.call('ZADD', K, 1, LOOK) end
  if first then begins() end
  return fence
end

-- The record of a waiter in the hash: last look (ms), next look (ms), channel, id, mode,
-- FenceAbove, holder. The id also says for how long the waiter needs a reservation; see publish.lua.
-- The mode is x for exclusive or s for shared. Older builds also write p, for a
-- waiter at the gate of a name with slots; it means x.
local function waiter(token)
  local v = redis.call('HGET', H, 'w' .. token)
  if not v then return nil end
  local seen, look, chan, id, mode, above, holder = string.match(v, '^(%d+) (%d+) (%x+) (%d+) (%a) (%d+) (.*)$')
  return {
    seen = tonumber(seen), look = tonumber(look), chan = chan, id = id,
    shared = mode == 's', above = tonumber(above), holder = holder,
  }
end
local function leave(token)
  redis.call('HDEL', H, 'w' .. token)
  return redis.call('ZREM', Q, token) == 1
end
-- left returns the time until the name may be free. Only a reader that waits to be promoted gives
-- its token: it does not wait for the end of its own lease.
local function left(mine) return math.max(top(mine), gap()) - ms end

-- wakeUnplaced wakes waiters that have no place in the queue. There are two kinds:
--
--   a reader that waits until it can be promoted to a writer. It is woken when it is the only
--   reader.
--
--   waiters that try again and again. They are in the sorted set B, and are woken when they may
--   try. The score of such a waiter is the time at which it last looked at the name. If it wants a
--   shared hold, its score is the negative of that time.
local function wakeUnplaced()
  local p = redis.call('HGET', H, 'p')
  if p then
    local chan, id, token = string.match(p, '^(%x+) (%d+) (.*)$')
    if only(token) or not live(token) then
      redis.call('HDEL', H, 'p')
      publish(chan, 'b ' .. id)
    end
  end
  if redis.call('EXISTS', B) == 0 or redis.call('ZCARD', Q) > 0 then return end
  local to
  if not blocked(false) then to = '+inf' elseif not blocked(true) then to = '0' else return end
  for _, b in ipairs(redis.call('ZRANGEBYSCORE', B, '-inf', to)) do
    local chan, id = string.match(b, '^(%x+) (%d+)$')
    publish(chan, 'b ' .. id)
  end
  redis.call('ZREMRANGEBYSCORE', B, '-inf', to)
end

-- planLooks asks the waiters without a place in the queue to look when the present hold or
-- cool-down ends. They have planned their looks by a lease that a release has just ended.
local function planLooks()
  local p = redis.call('HGET', H, 'p')
  if p then
    local chan, id, token = string.match(p, '^(%x+) (%d+) (.*)$')
    publish(chan, 'f ' .. id .. ' ' .. int(left(token)))
  end
  for _, b in ipairs(redis.call('ZRANGE', B, 0, -1)) do
    local chan, id = string.match(b, '^(%x+) (%d+)$')
    publish(chan, 'f ' .. id .. ' ' .. int(left()))
  end
end

-- alert asks five waiters to look at the name soon after the present hold ends: the first three,
-- the waiter in the middle of the queue, and the last waiter. Each of them looks STAGGER ms after
-- the one before. The middle and the last waiter are asked because the processes of the first three
-- may be gone.
local function alert(own)
  local n, due = redis.call('ZCARD', Q), left()
  local ranks = { 0, 1, 2, math.floor(n / 2), n - 1 }
  for i = 1, 5 do
    local token = ranks[i] < n and (i < 4 or ranks[i] > ranks[i - 1]) and redis.call('ZRANGE', Q, ranks[i], ranks[i])[1]
    local w = token and token ~= own and waiter(token)
    if w and w.look > ms + due + STAGGER * (i - 1) + 1 then publish(w.chan, 'f ' .. w.id .. ' ' .. int(due + STAGGER * (i - 1))) end
  end
end

-- dispatch hands the name over to the first waiter in the queue. If that waiter is a reader, the
-- readers directly behind it get the name too. The parameter own is the token of the client that
-- runs this script; that client gets the reply and needs no message. The parameter moved is true if
-- the script has already changed the queue. Then dispatch returns true. It also returns true if
-- dispatch itself has changed the queue.
local function dispatch(own, moved)
  while true do
    local head = redis.call('ZRANGE', Q, 0, 0)[1]
    if not head then break end
    local w = waiter(head)
    if not w or w.seen + MS_ALIVE < ms then
      leave(head) -- it has not looked for MS_ALIVE, so its process is gone
      moved = true
    elseif blocked(w.shared) or spent(w.shared, w.above) then
      if moved then alert(own) end
      break
    else
      leave(head)
      moved = true
      local fence = grant(head, w.shared, ms + reservation(w.id), w.above, w.holder, NOTE_RESERVED)
      if head ~= own and not publish(w.chan, 'h ' .. w.id .. ' ' .. int(fence)) then
        remove(head) -- nobody listens any more
        forget(head)
      end
    end
  end
  wakeUnplaced()
  return moved
end

-- finish lets the key expire, and writes the note, from which the fast scripts see whether they may act. The note also has
-- the last fence. The next fence must be greater, even if the clock is set back. A fence is a time
-- in microseconds, so the store keeps the note until KEEP ms after the time that the fence shows.
-- When the note is gone, the next fence is the present time.
local function finish()
  if note.token and note.state == NOTE_RESERVED and not live(note.token) then note.token = nil end
  local slow = note.token and note.state == NOTE_RESERVED or redis.call('EXISTS', H, Q, B, X) > 0
  local til = math.max(top() < ms + 1e9 and top() or ms, ms + MS_ALIVE) + MS_LINGER
  if slow then redis.call('PEXPIREAT', H, til) end
  if not slow and not note.token and note.fence == 0 then
    redis.call('DEL', F)
    return expire()
  end
  local v = (slow and NOTE_MORE or NOTE_SIMPLE) .. string.format(FORMAT_FENCE, note.fence)
  if note.token then
    v = v .. string.format(FORMAT_LENGTH, #note.token) .. note.token .. note.state
      .. string.format(FORMAT_TIME, 0) .. string.format(FORMAT_TIME, note.since) .. note.holder
  end
  redis.call('SET', F, v, 'PXAT', math.max(math.ceil(note.fence / 1000), til) + KEEP)
  expire()
end

-- Replies. No reply contains a token.
--
-- holds lists the holds of the name. Each has a kind, its end, its mode, its beginning and its
-- holder. The kind is p for a hold of padlock, f for a hold of another program, and c for a
-- cool-down.
local function holds(except)
  local out = {}
  each(function(token, til, shared)
    if token == except then return end
    local r = record(token)
    local who = string.match(token, '^padlock:cool:%d+ ?(.*)$') -- the holder before a cool-down
    local kind = who and 'c' or (r and 'p' or 'f')
    out[#out + 1] = { kind, int(til), shared and 's' or 'x', r and int(r.since) or '0', who or r and r.holder or '' }
  end)
  if gap() > 0 and not (out[1] and out[1][1] == 'c') then out[#out + 1] = { 'c', int(gap()), 'x', '0', '' } end
  return out
end
-- held makes the reply that refuses the name. The last number in the reply tells the caller to try
-- again after so many ms. It is the rest of the gap (see gap above) if the gap is the only reason
-- for the refusal. Otherwise it is 0.
local function held(token, shared)
  local n, til = redis.call('ZCARD', Q), gap()
  if n > 0 or (shared and (writing() or intent()) or not shared and taken()) then til = ms end
  return { 'H', int(ms), n, holds(token), int(math.max(til - ms, 0)) }
end
local function granted(r, til, shared) return { 'G', int(r and r.fence or 0), int(til - ms), shared and 1 or 0 } end
-- lostReason says why a token has no hold any more. It returns E if the token's lease has expired
-- and nobody has taken the name since. In all other cases it returns L, for lost. A grant, shared
-- too, takes the last exclusive hold out of the note.
local function lostReason(token)
  if ALONE and note.token == token and not taken() then return 'E' end
  return 'L'
end
local function lost(token)
  local w = lostReason(token)
  dispatch()
  finish()
  return { w }
end
