-- room.lua: what every script of a room begins with. It is put in front of each
-- of the other files, followed by people.lua, slots.lua and answers.lua, and
-- never runs alone.
--
-- KEYS, the same for every script, all with the room's hash tag:
--   1 room      HASH    clock, sequence, limits, bucket, control state, counters
--   2 waiting   ZSET    visitor -> place       who is here
--   3 fresh     ZSET    visitor -> place       newly joined, first sign of life still to come
--   4 due       HASH    visitor -> due         of those in waiting and fresh
--   5 away      ZSET    visitor -> due         overdue; dropped at due + waiting_timeout
--   6 place     HASH    visitor -> place       of those in away
--   7 slots     ZSET    visitor -> lease end
--   8 leases    HASH    visitor -> "stage admission place started", and with an order
--                       under way "request until" of its lock
--   9 unproven  SET     visitors admitted at their join and not heard from since
--  10 lapses    HASH    visitor -> how much passes that fell back to the place weigh
--  11 ended     ZSET    visitor -> number of the end
--  12 ends      HASH    visitor -> "place why admission"
--  13 gates     HASH    gate -> room time of its last call
--  14 snapshot  STRING  what gates answer far polls from
-- ARGV[1] is the call as JSON: its id, whether it must admit nobody (hold), what the caller carries (gate, now, epoch,
-- highest, latest, earliest, reached, seen, generation, holding) and the room's durations in milliseconds as its gate
-- is configured.
--
-- Invariants kept by every function here:
--   a visitor is in at most one of waiting, fresh, away and slots;
--   due holds exactly the members of waiting and fresh, place those of away,
--   leases those of slots, and unproven is a part of slots;
--   room's held is the number of slots: where these do not hold, a key went
--   missing alone, which is a loss of history (see mend);
--   every number is an integer below 2^53; returned it stays exact, but text and
--   commands get it through int(): joined to text Redis prints large numbers in
--   14 digits, and given to a command it takes four times as long.
-- All times are room time in milliseconds, a place is room time in microseconds.

local ROOM, WAITING, FRESH, DUE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local AWAY, PLACE, SLOTS, LEASES = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local UNPROVEN, LAPSES, ENDED, ENDS = KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local GATES, SNAPSHOT = KEYS[13], KEYS[14]

local TOKEN = 60000    -- one admission, in the bucket's unit: with it the refill of a millisecond is a whole number
local PAGE = 64        -- members read at a time
local MOST = 160       -- looks that one call may spend on others than those it is about: about 1 ms
local ASIDE = 2        -- what it costs, in such looks, to move a member aside or to forget one,
local GRANT = 8        -- to admit one,
local BACK = 12        -- and to take back the slot of an expired lease
local NEAR = 1000      -- so many people ahead, and every poll is heard
local HOLD = 15000     -- how long the order lock of a pass lasts without a word from its gate
local LAST_LAPSE = 9   -- unclaimed passes go back to their place until they weigh so much, then the stay ends:
local TOLD = 3         -- of which one that its holder is known to have been told of weighs so much, and any other 1
local HEALING = 24000  -- how long a room that lost its history waits for what its gates and visitors know: the longest poll

local call = cjson.decode(ARGV[1])

local format = string.format

local function int(n)
  return format('%d', n)
end

-- Reading everything once also proves every key's type before the first write:
-- a key of a wrong type stops the script with nothing half done.
-- FIELDS are of the room's hash, in the order in which stored has what they held
-- before this call.
local FIELDS = { 'now', 'clock', 'last', 'generation', 'epoch', 'state', 'slots', 'rate', 'burst', 'tokens', 'filled',
  'top', 'endno', 'admitted', 'healed', 'base', 'based', 'flow', 'thinning', 'born', 'held' }
local stored = redis.call('HMGET', ROOM, unpack(FIELDS))
local waiting_n = redis.call('ZCARD', WAITING)
local fresh_n = redis.call('ZCARD', FRESH)
local away_n = redis.call('ZCARD', AWAY)
local slots_n = redis.call('ZCARD', SLOTS)
local due_n, place_n, leases_n = redis.call('HLEN', DUE), redis.call('HLEN', PLACE), redis.call('HLEN', LEASES)
local ended_n, ends_n = redis.call('ZCARD', ENDED), redis.call('HLEN', ENDS)
redis.call('SCARD', UNPROVEN)
local lapses_n = redis.call('HLEN', LAPSES)
redis.call('STRLEN', SNAPSHOT)
local heard = tonumber(redis.call('HGET', GATES, call.gate) or nil)

local function number(field, fallback)
  return tonumber(stored[field] or fallback)
end

local room = {
  last = number(3, 0), generation = number(4, 0), epoch = number(5, 0),
  state = stored[6] or '', slots = number(7, 0), rate = number(8, 0), burst = number(9, 0),
  tokens = number(10, nil), filled = number(11, nil), top = number(12, 0), endno = number(13, 0),
  admitted = number(14, 0),
  healed = number(15, 0),   -- until when nobody is admitted after a loss
  base = number(16, 0),     -- slots taken when history was lost, and what came and went since: counted as taken
  based = number(17, 0),    -- until then
  flow = number(18, 0),     -- admissions a second while people wait, in millionths
  thinning = number(19, 0), -- share of the waiting who go away in a second, in billionths
  born = number(20, 0),     -- 1 when the room began with nobody knowing of an earlier one
  held = number(21, nil),   -- slots taken at the end of the last call
}
local spent = 0  -- looks so far, of MOST
local count = {} -- counters to add to at the end, by name
local hints = {} -- visitors whose stay has taken a turn, for gates that hold their streams; * when control values changed

-- mend removes what is left of keys that say something only together, when one of
-- them went missing: evicted by a Redis that may evict, or deleted by hand. What
-- they said is then brought back as after every loss.
local torn = false
local taken = 0 -- slots that were taken then

local function mend(whole, ...)
  if whole then return true end
  torn = true
  redis.call('UNLINK', ...)
  return false
end

-- empty takes everybody out of the room: places, passes and ends.
local function empty()
  redis.call('UNLINK', WAITING, FRESH, DUE, AWAY, PLACE, SLOTS, LEASES, UNPROVEN, LAPSES, ENDED, ENDS, SNAPSHOT)
  waiting_n, fresh_n, away_n, slots_n = 0, 0, 0, 0
end

if not mend(due_n == waiting_n + fresh_n, WAITING, FRESH, DUE) then waiting_n, fresh_n = 0, 0 end
if not mend(place_n == away_n, AWAY, PLACE) then away_n = 0 end
if not mend(leases_n == slots_n and (room.held or slots_n) == slots_n, SLOTS, LEASES, UNPROVEN) then
  taken, slots_n = room.held or math.max(slots_n, leases_n), 0
end
mend(ends_n == ended_n, ENDED, ENDS)

-- A room whose hash alone is missing: what is left shows how far the sequence was.
-- Places are scores in the line, and below the end of a lease and the due of who is
-- away, but for the joins of one moment.
local known = number(1, nil) ~= nil
if not known and waiting_n + fresh_n + away_n + slots_n + ended_n > 0 then
  local function top(key)
    return tonumber(redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] or '0')
  end
  room.endno = top(ENDED)
  room.last = math.max(top(WAITING), top(FRESH), room.endno, (top(AWAY) + 2) * 1000, (top(SLOTS) + 2) * 1000)
end

-- A reset that the caller knows of and Redis does not: an older copy came back, or
-- none. Whoever the copy knows is of the time before it, unless places were given
-- since; then those of before are void when they show up.
if call.generation > room.generation then
  if room.last < call.generation then
    empty()
    taken = 0
  end
  room.generation = call.generation
  room.last = math.max(room.last, room.generation)
end
local left = waiting_n + fresh_n + away_n + slots_n

-- Room time is the only clock. It moves by what TIME moved since the last call,
-- at least 0 and at most 1 s, so a frozen Redis or a clock step of an hour takes
-- nothing from anybody; in an empty room it catches up; it is never below what
-- the caller carries. A room whose history was lost goes on from what the caller
-- remembers, and is not taken for empty while it heals: if it went on from TIME, the
-- passes and places of before an outage would be over after a Redis that comes back
-- empty, and not after one that comes back whole.
local time = redis.call('TIME')
local clock = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local now = number(1, nil)
if not known then
  now = call.now > 0 and call.now or clock
elseif left > 0 or number(15, 0) > now then
  now = now + math.min(1000, math.max(0, clock - number(2, clock)))
else
  now = math.max(now, clock)
end
local stood = now -- by what Redis knew before this call
now = math.max(now, call.now)

-- lose begins a new epoch: Redis does not know what it knew. For the time of
-- HEALING nobody is admitted and nothing reclaimed, while gates and visitors
-- bring back what they know; slots taken before stay reserved for a session.
local function lose(after)
  room.epoch = math.max(room.epoch, after) + 1
  room.healed = now + HEALING
  room.base, room.based = taken, now + call.session
  room.tokens, room.filled = 0, room.healed
  room.born = 0
end

-- History was lost when the room is gone while a caller remembers it, when this
-- gate's last call is missing, when a part of it is gone, when anything shown is of
-- a later epoch, or when something of this epoch shows a sign of life later than
-- now or a place that was never given: an older copy came back. An epoch begins at
-- the time of its room, so that a room made anew is told from an older one: a
-- ticket of an earlier epoch in a room that nobody remembered, or a gate that
-- remembers one, says that there was one. The entry of a gate that was cut off for
-- longer than entries are kept (tick.lua) is no loss.
local latest = math.max(call.epoch, call.latest)
local earliest = call.earliest
if call.epoch > 0 and (earliest == 0 or call.epoch < earliest) then earliest = call.epoch end
local forgotten = not heard and call.now < stood - call.waiting_timeout
if not known then
  room.epoch, room.born = now, 1
  if latest > 0 or left > 0 then lose(latest) end
elseif torn or latest > room.epoch then
  lose(latest)
elseif call.latest == room.epoch and (call.seen > stood or call.reached > room.last) then
  lose(latest)
elseif call.epoch == room.epoch and (heard or -1) < call.now and not forgotten then
  lose(latest)
elseif room.born == 1 and earliest > 0 and earliest < room.epoch then
  lose(latest)
end
if now < room.based and call.epoch > 0 and call.epoch < room.epoch then
  room.base = math.max(room.base, call.holding)
end

local function healing()
  return now < room.healed
end

-- The bucket: full at burst, refilled by rate - burst + 1 a minute, so that any
-- minute sees at most rate admissions. See take(). While nobody may be admitted
-- nothing is saved up: a pause must not end in a burst.
local function fill()
  if room.rate == 0 then return end
  local full = room.burst * TOKEN
  if not room.tokens then room.tokens = full end
  if room.state ~= 'open' and room.state ~= '' then
    room.tokens, room.filled = 0, now
    return
  end
  room.filled = room.filled or now
  local gained = math.max(0, now - room.filled) * (room.rate - room.burst + 1)
  room.tokens = math.min(full, room.tokens + gained)
  room.filled = math.max(room.filled, now)
end

-- take pays for one admission. The refill of a full bucket starts a millisecond
-- late: else a window of exactly a minute, both ends counted, saw one too many.
local function take()
  if room.rate == 0 then return end
  if room.tokens == room.burst * TOKEN then room.filled = now + 1 end
  room.tokens = room.tokens - TOKEN
end

-- affordable tells how many admissions the bucket pays for now.
local function affordable()
  if room.state ~= 'open' or healing() or call.hold then return 0 end
  if room.rate == 0 then return MOST end
  return math.floor(room.tokens / TOKEN)
end

local function add(name, n)
  count[name] = (count[name] or 0) + n
end

-- save writes what changed of the room. Scripts call it last; those that must work
-- in a full Redis have removed something before, which lets the rest of them
-- through.
local function save()
  room.held = slots_n
  local changes = { 'now', int(now), 'clock', int(clock) }
  for i = 3, #FIELDS do
    local field, before = FIELDS[i], stored[i]
    local value = room[field]
    if field == 'state' and value ~= (before or '') or field ~= 'state' and value ~= tonumber(before or nil) then
      changes[#changes + 1] = field
      changes[#changes + 1] = field == 'state' and value or int(value)
    end
  end
  redis.call('HSET', ROOM, unpack(changes))
  for name, n in pairs(count) do
    redis.call('HINCRBY', ROOM, name, n)
  end
  redis.call('HSET', GATES, call.gate, int(now))
  -- Hints only: nothing depends on one, and a user of Redis who may not publish
  -- loses nothing else.
  if #hints > 0 then redis.pcall('PUBLISH', ROOM, table.concat(hints, ' ')) end
end

