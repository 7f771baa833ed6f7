-- room.lua: what every script of a room begins with. It is put in front of each
-- of the other files and never runs alone.
--
-- KEYS, the same for every script, all with the room's hash tag:
--   1 room      HASH  clock, sequence, limits, bucket, control state, counters
--   2 waiting   ZSET  visitor -> place       who is here
--   3 fresh     ZSET  visitor -> place       newly joined, first sign of life still to come
--   4 due       HASH  visitor -> due         of those in waiting and fresh
--   5 away      ZSET  visitor -> due         overdue; dropped at due + waiting_timeout
--   6 place     HASH  visitor -> place       of those in away
--   7 slots     ZSET  visitor -> lease end
--   8 leases    HASH  visitor -> "stage admission place started"
--   9 unproven  SET   visitors admitted at their join and not heard from since
--  10 lapses    HASH  visitor -> how often a pass fell back to the place
--  11 ended     ZSET  visitor -> number of the end
--  12 ends      HASH  visitor -> "place why admission"
-- ARGV[1] is the call as JSON: what the caller carries (now, epoch, highest) and
-- the room's durations in milliseconds as its gate is configured.
--
-- Invariants kept by every function here:
--   a visitor is in at most one of waiting, fresh, away and slots;
--   due holds exactly the members of waiting and fresh, place those of away,
--   leases those of slots, and unproven is a part of slots;
--   every number is an integer below 2^53, written by int() and never joined to
--   text in any other way (Redis prints large numbers in 14 digits otherwise).
-- All times are room time in milliseconds, a place is room time in microseconds.

local ROOM, WAITING, FRESH, DUE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local AWAY, PLACE, SLOTS, LEASES = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local UNPROVEN, LAPSES, ENDED, ENDS = KEYS[9], KEYS[10], KEYS[11], KEYS[12]

local TOKEN = 60000    -- one admission, in the bucket's unit: with it the refill of a millisecond is a whole number
local PAGE = 100       -- members read at a time
local MOST = 1000      -- members one call may touch
local LAST_LAPSE = 3   -- an unclaimed pass goes back to its place twice, then the stay ends

local call = cjson.decode(ARGV[1])

local function int(n)
  return string.format('%.0f', n)
end

-- Reading everything once also proves every key's type before the first write:
-- a key of a wrong type stops the script with nothing half done.
local stored = redis.call('HMGET', ROOM, 'now', 'clock', 'last', 'generation', 'epoch', 'state',
  'slots', 'rate', 'burst', 'tokens', 'filled', 'top', 'endno', 'admitted')
local waiting_n = redis.call('ZCARD', WAITING)
local fresh_n = redis.call('ZCARD', FRESH)
local away_n = redis.call('ZCARD', AWAY)
local slots_n = redis.call('ZCARD', SLOTS)
redis.call('HLEN', DUE)
redis.call('HLEN', PLACE)
redis.call('HLEN', LEASES)
redis.call('SCARD', UNPROVEN)
redis.call('HLEN', LAPSES)
redis.call('ZCARD', ENDED)
redis.call('HLEN', ENDS)

local function number(field, fallback)
  return tonumber(stored[field] or fallback)
end

local room = {
  last = number(3, 0), generation = number(4, 0), epoch = number(5, 0),
  state = stored[6] or '', slots = number(7, 0), rate = number(8, 0), burst = number(9, 0),
  tokens = number(10, nil), filled = number(11, nil), top = number(12, 0), endno = number(13, 0),
  admitted = number(14, 0),
}
local count = {} -- counters to add to at the end, by name

-- Room time is the only clock. It moves by what TIME moved since the last call,
-- at least 0 and at most 1 s, so a frozen Redis or a clock step of an hour takes
-- nothing from anybody; in an empty room it catches up; it is never below what
-- the caller carries.
local time = redis.call('TIME')
local clock = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local now = number(1, nil)
if not now then
  now = clock
  room.epoch = (call.epoch or 0) + 1
  if call.epoch and call.epoch > 0 then room.tokens = 0 end
elseif waiting_n + fresh_n + away_n + slots_n > 0 then
  now = now + math.min(1000, math.max(0, clock - number(2, clock)))
else
  now = math.max(now, clock)
end
now = math.max(now, call.now or 0)

-- The bucket: full at burst, refilled by rate - burst + 1 a minute, so that any
-- minute sees at most rate admissions. See take().
local function fill()
  if room.rate == 0 then return end
  local full = room.burst * TOKEN
  if not room.tokens then room.tokens = full end
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
  if room.state ~= 'open' then return 0 end
  if room.rate == 0 then return MOST end
  return math.floor(room.tokens / TOKEN)
end

local function add(name, n)
  count[name] = (count[name] or 0) + n
end

-- save writes the room back. Scripts call it last; those that must work in a
-- full Redis have removed something before, which lets the rest of them through.
local function save()
  redis.call('HSET', ROOM, 'now', int(now), 'clock', int(clock), 'last', int(room.last),
    'generation', int(room.generation), 'epoch', int(room.epoch), 'top', int(room.top), 'endno', int(room.endno))
  if room.tokens then
    redis.call('HSET', ROOM, 'tokens', int(room.tokens), 'filled', int(room.filled or now))
  end
  for name, n in pairs(count) do
    redis.call('HINCRBY', ROOM, name, int(n))
  end
end

-- The line -----------------------------------------------------------------

local function people()
  return waiting_n + fresh_n
end

local function ahead_of(place)
  local before = '(' .. int(place)
  return redis.call('ZCOUNT', WAITING, '-inf', before) + redis.call('ZCOUNT', FRESH, '-inf', before)
end

-- poll_for is how long the one with so many people ahead may wait before the
-- next sign of life: 1.5 s among the first thousand, 20 s far back, and never
-- over a third of the windows that a missed one would cost.
local function poll_for(ahead)
  local poll = math.min(20000, 1500 + math.max(0, ahead - 1000))
  return math.floor(math.max(200, math.min(poll, call.claim_window / 3, call.waiting_timeout / 3)))
end

local function due_after(poll)
  return now + math.ceil(poll * 1.2) + call.presence_window
end

-- next_place is a number never used before: above the last one, above anything
-- a caller or ticket shows, and not below room time.
local function next_place()
  room.last = math.max(room.last + 1, now * 1000, (call.highest or 0) + 1)
  return room.last
end

-- where tells in which part of the line a visitor is and at which place.
local function where(visitor)
  local at = redis.call('ZSCORE', WAITING, visitor)
  if at then return 'waiting', tonumber(at) end
  at = redis.call('ZSCORE', FRESH, visitor)
  if at then return 'fresh', tonumber(at) end
  at = redis.call('HGET', PLACE, visitor)
  if at then return 'away', tonumber(at) end
  return nil, nil
end

local function leave_line(visitor)
  if redis.call('ZREM', WAITING, visitor) == 1 then
    waiting_n = waiting_n - 1
    redis.call('HDEL', DUE, visitor)
  elseif redis.call('ZREM', FRESH, visitor) == 1 then
    fresh_n = fresh_n - 1
    redis.call('HDEL', DUE, visitor)
  elseif redis.call('ZREM', AWAY, visitor) == 1 then
    away_n = away_n - 1
    redis.call('HDEL', PLACE, visitor)
  end
end

-- step_aside moves overdue members of waiting or fresh to away, places kept.
-- overdue is a list of visitor, place, due.
local function step_aside(from, overdue)
  local gone, dues, places = {}, {}, {}
  for i = 1, #overdue, 3 do
    gone[#gone + 1] = overdue[i]
    places[#places + 1] = overdue[i]
    places[#places + 1] = int(overdue[i + 1])
    dues[#dues + 1] = int(overdue[i + 2])
    dues[#dues + 1] = overdue[i]
  end
  if #gone == 0 then return end
  redis.call('ZREM', from, unpack(gone))
  redis.call('HDEL', DUE, unpack(gone))
  redis.call('ZADD', AWAY, unpack(dues))
  redis.call('HSET', PLACE, unpack(places))
  if from == WAITING then waiting_n = waiting_n - #gone else fresh_n = fresh_n - #gone end
  away_n = away_n + #gone
end

-- sweep_fresh moves newcomers whose first sign is overdue aside. They stand in
-- the order of their joins, so the first one still in time ends the search.
local function sweep_fresh(most)
  local looked = 0
  while fresh_n > 0 and looked < most do
    local page = redis.call('ZRANGE', FRESH, 0, PAGE - 1, 'WITHSCORES')
    local names = {}
    for i = 1, #page, 2 do names[#names + 1] = page[i] end
    local dues = redis.call('HMGET', DUE, unpack(names))
    local overdue = {}
    for i = 1, #names do
      local due = tonumber(dues[i] or '0')
      if due >= now then break end
      overdue[#overdue + 1] = names[i]
      overdue[#overdue + 1] = tonumber(page[i * 2])
      overdue[#overdue + 1] = due
    end
    step_aside(FRESH, overdue)
    looked = looked + #names
    if #overdue < #names * 3 then return false end
  end
  return fresh_n > 0
end

-- drop_away forgets those who stayed away for waiting_timeout.
local function drop_away(most)
  local before = '(' .. int(now - call.waiting_timeout)
  local gone = redis.call('ZRANGEBYSCORE', AWAY, '-inf', before, 'LIMIT', 0, most)
  for i = 1, #gone, PAGE do
    local page = {}
    for j = i, math.min(i + PAGE - 1, #gone) do page[#page + 1] = gone[j] end
    redis.call('ZREM', AWAY, unpack(page))
    redis.call('HDEL', PLACE, unpack(page))
    redis.call('HDEL', LAPSES, unpack(page))
  end
  away_n = away_n - #gone
  add('dropped', #gone)
  return #gone == most
end

-- Slots --------------------------------------------------------------------

local function lease_of(visitor)
  local record = redis.call('HGET', LEASES, visitor)
  if not record then return nil end
  local stage, admission, place, started = string.match(record, '^(%S+) (%S+) (%S+) (%S+)$')
  return {
    stage = stage, admission = admission, place = tonumber(place), started = tonumber(started),
    ends = tonumber(redis.call('ZSCORE', SLOTS, visitor)),
  }
end

local function put_lease(visitor, lease)
  redis.call('ZADD', SLOTS, int(lease.ends), visitor)
  redis.call('HSET', LEASES, visitor,
    lease.stage .. ' ' .. lease.admission .. ' ' .. int(lease.place) .. ' ' .. int(lease.started))
end

local function drop_lease(visitor)
  if redis.call('ZREM', SLOTS, visitor) == 1 then
    slots_n = slots_n - 1
    redis.call('HDEL', LEASES, visitor)
    redis.call('SREM', UNPROVEN, visitor)
  end
end

-- finish ends a stay, wherever it stands: one numbered record, once.
local function finish(visitor, place, admission, why)
  drop_lease(visitor)
  leave_line(visitor)
  redis.call('HDEL', LAPSES, visitor)
  room.endno = math.max(room.endno + 1, now * 1000)
  redis.call('ZADD', ENDED, int(room.endno), visitor)
  redis.call('HSET', ENDS, visitor, int(place) .. ' ' .. why .. ' ' .. admission)
  add(why, 1)
end

-- end_of is how a stay ended that had this place or a later one, or nil.
local function end_of(visitor, place)
  local record = redis.call('HGET', ENDS, visitor)
  if not record then return nil end
  local at, why, admission = string.match(record, '^(%S+) (%S+) (%S+)$')
  if tonumber(at) < place then return nil end
  return { place = tonumber(at), why = why, admission = admission }
end

-- give_back takes the slot of an expired lease: an unclaimed pass falls back to
-- its place (absent until the next sign), a session is over.
local function give_back(visitor)
  local lease = lease_of(visitor)
  if lease.stage == 'active' then
    finish(visitor, lease.place, lease.admission, 'expired')
    return
  end
  if redis.call('HINCRBY', LAPSES, visitor, 1) >= LAST_LAPSE then
    finish(visitor, lease.place, lease.admission, 'expired')
    return
  end
  drop_lease(visitor)
  redis.call('ZADD', AWAY, int(now - 1), visitor)
  redis.call('HSET', PLACE, visitor, int(lease.place))
  away_n = away_n + 1
  add('lapsed', 1)
end

-- room_for tells whether n slots are free, giving on leases past their end, the
-- oldest first and no more than needed: who comes back late keeps a slot that
-- nobody wanted.
local function room_for(n)
  if room.slots == 0 then return true end
  while slots_n + n > room.slots do
    local expired = redis.call('ZRANGEBYSCORE', SLOTS, '-inf', int(now), 'LIMIT', 0, 1)
    if #expired == 0 then return false end
    give_back(expired[1])
  end
  return true
end

-- grant admits: a ready pass of one claim window. Its name follows from place
-- and lapses, so that a second run of the same admission is the same admission.
local function grant(visitor, place)
  local lapsed = tonumber(redis.call('HGET', LAPSES, visitor) or '0')
  put_lease(visitor, {
    stage = 'ready', admission = int(place) .. '.' .. int(lapsed), place = place,
    started = now, ends = now + call.claim_window,
  })
  slots_n = slots_n + 1
  take()
  room.top = math.max(room.top, place)
  room.admitted = room.admitted + 1
  add('admitted', 1)
end

-- admit moves the front of the line: whoever is here and next gets a free slot
-- while the bucket pays, whoever is overdue steps aside. It goes on until it has
-- seen `look` present people who could not be admitted, and touches at most MOST
-- members; true means that it stopped there and should be called again.
local function admit(look)
  local kept, looked = 0, 0
  local budget = math.min(affordable(), MOST)
  while waiting_n > kept and looked < MOST do
    if kept >= look and not (budget > 0 and room_for(1)) then return false end
    local page = redis.call('ZRANGE', WAITING, kept, kept + PAGE - 1, 'WITHSCORES')
    if #page == 0 then return false end
    local names = {}
    for i = 1, #page, 2 do names[#names + 1] = page[i] end
    local dues = redis.call('HMGET', DUE, unpack(names))
    local overdue, stop = {}, false
    for i = 1, #names do
      local place, due = tonumber(page[i * 2]), tonumber(dues[i] or '0')
      if due < now then
        overdue[#overdue + 1] = names[i]
        overdue[#overdue + 1] = place
        overdue[#overdue + 1] = due
      elseif budget > 0 and room_for(1) then
        redis.call('ZREM', WAITING, names[i])
        redis.call('HDEL', DUE, names[i])
        waiting_n = waiting_n - 1
        grant(names[i], place)
        budget = budget - 1
      else
        kept = kept + 1
        if kept >= look then stop = true; break end
      end
    end
    step_aside(WAITING, overdue)
    looked = looked + #names
    if stop then return false end
  end
  return waiting_n > kept
end

-- Answers ------------------------------------------------------------------

-- standing is what a visitor is told: state, why, refusal, place, ahead, poll,
-- seen, due, admission, lease place, lease end, lease start. Numbers as text.
local function standing(visitor, sign)
  local lease = lease_of(visitor)
  if lease then
    return { lease.stage, '', '', int(lease.place), '0', int(poll_for(0)), '0', '0',
      lease.admission, int(lease.place), int(lease.ends), int(lease.started) }
  end
  local part, place = where(visitor)
  if not part then
    return { '', '', '', '0', '0', int(poll_for(0)), '0', '0', '', '0', '0', '0' }
  end
  local ahead = ahead_of(place)
  local seen, due = 0, tonumber(redis.call('HGET', DUE, visitor) or '0')
  if sign then seen = now end
  return { part == 'waiting' and 'waiting' or 'away', '', '', int(place), int(ahead), int(poll_for(ahead)),
    int(seen), int(due), '', '0', '0', '0' }
end

local function ended_standing(stay)
  return { 'ended', stay.why, '', int(stay.place), '0', int(poll_for(0)), '0', '0', stay.admission or '', '0', '0', '0' }
end

local function refused(why)
  return { '', '', why, '0', '0', int(poll_for(1000000)), '0', '0', '', '0', '0', '0' }
end

-- header is what every answer begins with: the room at this moment.
local function header()
  return { int(now), int(clock), int(room.epoch), int(room.generation), room.state, int(people()),
    redis.call('ZCOUNT', SLOTS, '(' .. int(now), '+inf'), int(room.slots), int(room.rate), int(room.burst),
    int(room.admitted) }
end

fill()
