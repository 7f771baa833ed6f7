-- people.lua: who is in the line, and where. See room.lua.

local function people()
  return waiting_n + fresh_n
end

-- Newcomers stand behind nearly everybody: who is in front of the first of them
-- need not be compared with the rest. Read once a call, when first asked for.
local first_fresh

-- ahead_of counts who is in front of a place; for a member of waiting, named, that
-- takes half the time.
local function ahead_of(place, member)
  if not first_fresh then
    first_fresh = fresh_n > 0 and tonumber(redis.call('ZRANGE', FRESH, 0, 0, 'WITHSCORES')[2]) or math.huge
  end
  local before = '(' .. int(place)
  local ahead = member and redis.call('ZRANK', WAITING, member) or redis.call('ZCOUNT', WAITING, '-inf', before)
  if place > first_fresh then ahead = ahead + redis.call('ZCOUNT', FRESH, '-inf', before) end
  return ahead
end

-- poll_for is how long the one with so many people ahead may wait before the
-- next poll: 1.5 s among the first thousand, 20 s far back, and never over a
-- third of the windows that a missed one would cost. poll.go knows the same.
-- Most people are at one end of it: what was reckoned once in a call is kept.
local polls = {}

local function poll_for(ahead)
  local asked = ahead <= NEAR and 1500 or ahead < NEAR + 18500 and ahead - NEAR + 1500 or 20000
  local poll = polls[asked]
  if not poll then
    poll = math.floor(math.max(200, math.min(asked, call.claim_window / 3, call.waiting_timeout / 3)))
    polls[asked] = poll
  end
  return poll
end

-- sign_for is how long the one with so many people ahead may go without a poll
-- that Redis hears of. Among the first thousand, or 20 s of flow, every poll is
-- heard; farther back one in a quarter of the wait, at most 100 s.
local function sign_for(ahead)
  local second = room.flow / 1000000
  if ahead < math.max(NEAR, 20 * second) then return 0 end
  local quarter = second > 0 and ahead / second * 250 or 100000
  return math.floor(math.min(100000, call.waiting_timeout / 3, quarter))
end

-- due_after is until when a sign of life counts: the longest time until the next
-- one that was asked for, jitter included, and the presence window.
local function due_after(ahead)
  return now + sign_for(ahead) + math.ceil(poll_for(ahead) * 1.2) + call.presence_window
end

-- first_due is until when the first sign of a newcomer is awaited: every first
-- poll is heard, however far back.
local function first_due(ahead)
  return now + math.ceil(poll_for(ahead) * 1.2) + call.presence_window
end

-- read_end is how a stay ended that had this place or a later one, or nil.
local function read_end(record, place)
  if not record then return nil end
  local at, why, admission = string.match(record, '^(%S+) (%S+) (%S+)$')
  if tonumber(at) < place then return nil end
  return { place = tonumber(at), why = why, admission = admission }
end

local function end_of(visitor, place)
  return read_end(redis.call('HGET', ENDS, visitor), place)
end

-- next_place is a number never used before: above the last one, above anything
-- a caller or ticket shows, and not below room time. Nor below TIME, which does not
-- go back with an older copy of Redis: places that the copy does not know stay in
-- front, although nobody has shown one yet.
local lowest = math.max(now * 1000, clock * 1000, call.highest + 1)

local function next_place()
  local place = room.last + 1
  if place < lowest then place = lowest end
  room.last = place
  return place
end

-- A room that draws lots gives everybody who joins before a draw a place after
-- it: the draw's moment, the next full minute of room time, and a lot below a
-- minute, so that who joins later stands behind. The lot is a keyed hash that
-- nobody outside can compute; it follows from visitor and draw alone, so the same
-- join run twice draws the same lot. Whoever ended a stay takes part in the draw
-- after it: the lot of the same draw would be the very place that has ended. And
-- after a reset nobody takes part in a draw of before.
local DRAW = 60000000 -- a minute, in the unit of places
local lots = call.method == 'random'

local function drawn_place(visitor)
  local draw = (math.floor(now * 1000 / DRAW) + 1) * DRAW
  local stay = end_of(visitor, draw)
  local before = math.max(stay and stay.place or 0, room.generation)
  if draw <= before then draw = (math.floor(before / DRAW) + 1) * DRAW end
  local hash = redis.sha1hex(call.draw_key .. ':' .. int(draw) .. ':' .. visitor)
  local place = draw + tonumber(string.sub(hash, 1, 10), 16) % DRAW
  room.last = math.max(room.last, place)
  return place
end

-- undrawn tells whether a place's draw is still to come: until then it counts for
-- nothing and nobody is told a number. In other rooms no place is ahead of time
-- by more than the joins of one moment.
local function undrawn(place)
  return lots and place - place % DRAW > now * 1000
end

-- distance is how many people are ahead for the purpose of intervals: before the
-- draw it may be everybody.
local function distance(place, member)
  if undrawn(place) then return people() end
  return ahead_of(place, member)
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

-- believed tells whether a ticket proves its place. While Redis knows the visitor
-- at that very place it does. A ticket of another place is of another stay: it
-- counts only when it is the earlier one and of an epoch whose history was lost,
-- or when Redis knows of none; and only until waiting_timeout after its own due.
local function believed(place, due, epoch, known)
  if place < room.generation then return false end
  if known == place then return true end
  if due + call.waiting_timeout < now then return false end
  return not known or known < place or epoch < room.epoch
end

-- find tells the same of many visitors at once, those from first to last in a list:
-- their lease records, and part and place of those in line; false where there is none.
local function find(list, first, last)
  local none = {}
  local leases = slots_n > 0 and redis.call('HMGET', LEASES, unpack(list, first, last)) or none
  local here = waiting_n > 0 and redis.call('ZMSCORE', WAITING, unpack(list, first, last)) or none
  local fresh = fresh_n > 0 and redis.call('ZMSCORE', FRESH, unpack(list, first, last)) or none
  local away = away_n > 0 and redis.call('HMGET', PLACE, unpack(list, first, last)) or none
  local parts, places = {}, {}
  for i = 1, last - first + 1 do
    if here[i] then
      parts[i], places[i] = 'waiting', tonumber(here[i])
    elseif fresh[i] then
      parts[i], places[i] = 'fresh', tonumber(fresh[i])
    elseif away[i] then
      parts[i], places[i] = 'away', tonumber(away[i])
    end
  end
  return leases, parts, places
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
-- overdue is a list of visitor, place, due, as Redis told them.
local function step_aside(from, overdue)
  local gone, dues, places = {}, {}, {}
  for i = 1, #overdue, 3 do
    gone[#gone + 1] = overdue[i]
    places[#places + 1] = overdue[i]
    places[#places + 1] = overdue[i + 1]
    dues[#dues + 1] = overdue[i + 2]
    dues[#dues + 1] = overdue[i]
  end
  if #gone == 0 then return end
  redis.call('ZREM', from, unpack(gone))
  redis.call('HDEL', DUE, unpack(gone))
  redis.call('ZADD', AWAY, unpack(dues))
  redis.call('HSET', PLACE, unpack(places))
  if from == WAITING then
    waiting_n = waiting_n - #gone
    add('stepped', #gone)
  else
    fresh_n = fresh_n - #gone
  end
  away_n = away_n + #gone
  spent = spent + #gone * ASIDE
end

-- sweep_fresh moves newcomers whose first sign is overdue aside, and spends up to
-- `most` on it. They stand in the order of their joins, so the first one still in
-- time ends the search (mostly it is the very first, hence the page of one); only
-- where lots are drawn it goes on.
local function sweep_fresh(most)
  local kept, page_size = 0, 1
  while fresh_n > kept and spent < most do
    local page = redis.call('ZRANGE', FRESH, kept, kept + page_size - 1, 'WITHSCORES')
    local names = {}
    for i = 1, #page, 2 do names[#names + 1] = page[i] end
    local dues = redis.call('HMGET', DUE, unpack(names))
    local overdue = {}
    for i = 1, #names do
      local due = dues[i] or '0'
      if tonumber(due) < now then
        overdue[#overdue + 1] = names[i]
        overdue[#overdue + 1] = page[i * 2]
        overdue[#overdue + 1] = due
      else
        kept = kept + 1
        if not lots then break end
      end
    end
    step_aside(FRESH, overdue)
    spent, page_size = spent + #names, PAGE
    if kept > 0 and not lots then return end
  end
end

-- drop_away forgets those who stayed away for waiting_timeout.
local function drop_away()
  local before = '(' .. int(now - call.waiting_timeout)
  while away_n > 0 and spent < MOST do
    local gone = redis.call('ZRANGEBYSCORE', AWAY, '-inf', before, 'LIMIT', 0, PAGE)
    if #gone == 0 then return end
    redis.call('ZREM', AWAY, unpack(gone))
    redis.call('HDEL', PLACE, unpack(gone))
    redis.call('HDEL', LAPSES, unpack(gone))
    away_n = away_n - #gone
    add('dropped', #gone)
    spent = spent + #gone * ASIDE
  end
end

