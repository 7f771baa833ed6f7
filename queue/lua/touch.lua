-- touch.lua: signs of life of people who show a ticket, many in one call. First
-- poll, every later one, the return of who was away and the restoring of who
-- Redis does not know are this one script.
-- KEYS    as room.lua
-- ARGV[2…] visitor, place, due, epoch of each ticket
-- returns {header, standing…}, one standing for each ticket in order
--
-- Idempotent. Whoever is away or unknown stands again at the ticket's own place;
-- if both Redis and the ticket know a place the earlier one counts. A ticket is
-- void when its stay ended, when a reset came after it, when its holder was silent
-- for waiting_timeout after it was due, or when it is of an earlier stay: of the
-- pass of a later one nothing is told.
--
-- A pass that its holder did not take up ends the stay the third time, so that clients
-- which poll and never come in do not hold slots for ever. Only a pass that they heard of
-- counts fully: the ticket that went out with it, and no other, is due at its very end.
-- Who shows another one may have polled and had no answer, or none from Redis, and keeps
-- the place: until the ninth time, for a client can show old tickets on purpose.

-- Who is in front of this place is near: every poll is heard, and nobody need be
-- counted to know it.
local near = math.huge
if people() > NEAR then
  local at = redis.call('ZRANGE', WAITING, NEAR - 1, NEAR - 1, 'WITHSCORES')
  near = tonumber(at[2] or '0')
end

-- void tells why a ticket is worth nothing, or nil.
local function void(place, due, epoch, known, record)
  local stay = read_end(record, place)
  if stay then return stay end
  if not believed(place, due, epoch, known) then return { place = place, why = 'expired' } end
  return nil
end

-- spurned ends the stay of somebody who comes back to the line and was told of passes
-- that they did not take up, when that was the last one. It returns the record of the end.
local function spurned(visitor, place, due)
  if lapses_n == 0 or not redis.call('HGET', LAPSES, visitor) then return nil end
  if tonumber(redis.call('ZSCORE', AWAY, visitor)) ~= due - 1 then return nil end
  if redis.call('HINCRBY', LAPSES, visitor, TOLD - 1) < LAST_LAPSE then return nil end
  return finish(visitor, place, '-', 'expired')
end

local heard = {} -- of each visitor: {place, due, people ahead if far}, or what an answer is made of

-- come_in notes one sign of life and what is to be written for it.
local function come_in(visitor, part, at, stands, write)
  local there = part == 'waiting' and at == stands
  local ahead = at > near and distance(at, there and visitor) or nil
  local due = due_after(ahead or 0)
  if part ~= 'waiting' then
    waiting_n = waiting_n + 1
    if part == 'fresh' then
      fresh_n = fresh_n - 1
      write.fresh[#write.fresh + 1] = visitor
    else
      add('returned', 1)
      if part == 'away' then
        away_n = away_n - 1
        write.away[#write.away + 1] = visitor
      end
    end
  end
  if not there then
    write.places[#write.places + 1] = int(at)
    write.places[#write.places + 1] = visitor
  end
  write.dues[#write.dues + 1] = visitor
  write.dues[#write.dues + 1] = int(due)
  room.last = math.max(room.last, at)
  heard[visitor] = { at = at, due = due, ahead = ahead }
end

local function write_down(write)
  if #write.fresh > 0 then redis.call('ZREM', FRESH, unpack(write.fresh)) end
  if #write.away > 0 then
    redis.call('ZREM', AWAY, unpack(write.away))
    redis.call('HDEL', PLACE, unpack(write.away))
  end
  if #write.places > 0 then redis.call('ZADD', WAITING, unpack(write.places)) end
  if #write.dues > 0 then redis.call('HSET', DUE, unpack(write.dues)) end
end

local voids, met, proven = {}, {}, {}
for from = 2, #ARGV, 4 * PAGE do
  local visitors = {}
  local last = math.min(from + 4 * PAGE - 1, #ARGV)
  for i = from, last, 4 do visitors[#visitors + 1] = ARGV[i] end
  local leases, parts, places = find(visitors, 1, #visitors)
  local over_at = next(leases) and redis.call('ZMSCORE', SLOTS, unpack(visitors))
  local ends = redis.call('HMGET', ENDS, unpack(visitors))
  local write = { fresh = {}, away = {}, places = {}, dues = {} }
  for n = 1, #visitors do
    local i = from + 4 * (n - 1)
    local visitor, place = visitors[n], tonumber(ARGV[i + 1])
    local lease, held
    if (leases[n] or met[visitor]) and not heard[visitor] then
      if met[visitor] then -- shown twice: what was read is no longer so
        lease = lease_of(visitor)
        parts[n], places[n] = where(visitor)
        ends[n] = redis.call('HGET', ENDS, visitor)
      else
        lease = lease_of(visitor, leases[n], over_at[n])
      end
      met[visitor] = true
    end
    if lease and lease.place > place then
      voids[i] = read_end(ends[n], place) or { place = place, why = 'expired' }
    elseif lease then
      local over
      held, over = hold_on(visitor, lease)
      if held then
        proven[#proven + 1] = visitor
      elseif over then -- given on just now
        parts[n], places[n], ends[n] = nil, nil, over
      else
        parts[n], places[n] = 'away', lease.place
      end
    end
    if not held and not voids[i] then
      local due = tonumber(ARGV[i + 2])
      voids[i] = void(place, due, tonumber(ARGV[i + 3]), places[n], ends[n])
      local over = parts[n] == 'away' and not voids[i] and not heard[visitor] and spurned(visitor, math.max(place, places[n]), due)
      if over then voids[i], met[visitor] = read_end(over, 0), true end
      -- Two tickets of one visitor in one call are one sign.
      if not voids[i] and not heard[visitor] then
        come_in(visitor, parts[n], math.min(places[n] or place, place), places[n], write)
      end
    end
  end
  write_down(write)
end
if #proven > 0 then redis.call('SREM', UNPROVEN, unpack(proven)) end
admit(0)

local function answer(i)
  local visitor = ARGV[i]
  if voids[i] then return tell_end(voids[i]) end
  if granted[visitor] then return tell_pass(granted[visitor]) end
  local known = heard[visitor]
  if not known then return tell_standing(visitor) end
  return tell_in_line('waiting', known.at, known.ahead or distance(known.at, visitor), known.due)
end

for i = 2, #ARGV, 4 do answer(i) end
save()
answers[1] = header()
return answers
