-- slots.lua: who is admitted: leases, their ends, and the front of the line. See
-- room.lua.

-- reserved are slots taken before a loss that nobody has registered again.
-- Registering one again leaves base as it is; whoever is admitted or leaves
-- after the loss moves it, else the first admission would eat up a reserve.
local function reserved()
  if now >= room.based then return 0 end
  return math.max(0, room.base - slots_n)
end

-- lease_of is the lease of a visitor; who has read its record and its end already
-- spares reading them again.
local function lease_of(visitor, record, ends)
  record = record or redis.call('HGET', LEASES, visitor)
  if not record then return nil end
  local stage, admission, place, started, order, locked =
    string.match(record, '^(%S+) (%S+) (%S+) (%S+) ?(%S*) ?(%S*)$')
  local lease = {
    stage = stage, admission = admission, place = tonumber(place), started = tonumber(started),
    ends = tonumber(ends or redis.call('ZSCORE', SLOTS, visitor)),
  }
  if order ~= '' and tonumber(locked) > now then lease.order, lease.locked = order, tonumber(locked) end
  return lease
end

local function lease_record(lease)
  local record = lease.stage .. ' ' .. lease.admission .. ' ' .. int(lease.place) .. ' ' .. int(lease.started)
  if lease.order then return record .. ' ' .. lease.order .. ' ' .. int(lease.locked) end
  return record
end

local function put_lease(visitor, lease)
  redis.call('ZADD', SLOTS, int(lease.ends), visitor)
  redis.call('HSET', LEASES, visitor, lease_record(lease))
end

-- longest is how long requests in flight and orders may keep a slot.
local function longest(lease)
  local last = call.session_max
  if not call.renewal then last = last > 0 and math.min(last, call.session) or call.session end
  if last == 0 then return math.huge end
  return lease.started + last + call.max_request
end

-- lock gives the order lock of a pass to a request, or prolongs it for the one that
-- has it; lease.order tells who has it afterwards. The lease lasts as long as the
-- lock, so a locked slot is never given on; and the lock no longer than a request
-- in flight may keep the slot, or a pass would live on by orders that fail. After a loss nobody begins an order,
-- and requests in flight bring back what they had; at all other times one that
-- comes late must not take a lock that was freed.
local function lock(lease, order, in_flight)
  if lease.order ~= order and (lease.order or in_flight ~= healing()) then return end
  lease.order, lease.locked = order, math.min(now + HOLD, math.max(lease.ends, longest(lease)))
  lease.ends = math.max(lease.ends, lease.locked)
end

-- drop_lease tells whether there was one.
local function drop_lease(visitor)
  local ends = now < room.based and redis.call('ZSCORE', SLOTS, visitor)
  if redis.call('ZREM', SLOTS, visitor) == 1 then
    slots_n = slots_n - 1
    -- What an older copy of Redis brought back expired was not counted as taken.
    if ends and tonumber(ends) > room.healed - HEALING then room.base = math.max(0, room.base - 1) end
    redis.call('HDEL', LEASES, visitor)
    redis.call('SREM', UNPROVEN, visitor)
    return true
  end
  return false
end

-- finish ends a stay, wherever it stands: one numbered record, once, which it returns.
-- No place given later may be below it, or the end would refute that one, too.
local function finish(visitor, place, admission, why)
  if not drop_lease(visitor) then leave_line(visitor) end
  redis.call('HDEL', LAPSES, visitor)
  room.last = math.max(room.last, place)
  room.endno = math.max(room.endno + 1, now * 1000)
  redis.call('ZADD', ENDED, int(room.endno), visitor)
  local record = int(place) .. ' ' .. why .. ' ' .. admission
  redis.call('HSET', ENDS, visitor, record)
  hints[#hints + 1] = visitor
  add(why, 1)
  return record
end

-- restore brings back the lease of a token that Redis does not know, or knows
-- from an older copy, when the token is of an epoch whose history was lost,
-- unexpired and not ended.
local function restore(visitor, stage, admission, place, ends, epoch)
  if epoch >= room.epoch or ends <= now or place < room.generation then return nil end
  if end_of(visitor, place) then return nil end
  local lease = lease_of(visitor)
  if lease then
    if lease.admission ~= admission then return nil end
    if stage == 'active' then lease.stage = stage end
    lease.ends = math.max(lease.ends, ends)
    put_lease(visitor, lease)
    return lease
  end
  leave_line(visitor)
  lease = { stage = stage, admission = admission, place = place, started = now, ends = ends }
  put_lease(visitor, lease)
  slots_n = slots_n + 1
  room.last = math.max(room.last, place)
  room.top = math.max(room.top, place)
  add('restored', 1)
  return lease
end

-- give_back takes the slot of an expired lease: an unclaimed pass falls back to
-- its place (absent until the next sign), a session is over. It returns the record
-- of the end, or nil where the place is kept. Whether its holder ever heard of the
-- pass is not known here: the answer may have been lost, or nobody asked. Their next
-- ticket tells: see spurned in touch.lua.
local function give_back(visitor, lease)
  spent = spent + BACK
  if lease.stage == 'active' or redis.call('HINCRBY', LAPSES, visitor, 1) >= LAST_LAPSE then
    return finish(visitor, lease.place, lease.admission, 'expired')
  end
  drop_lease(visitor)
  lapses_n = lapses_n + 1 -- at most
  redis.call('ZADD', AWAY, int(lease.ends - 1), visitor)
  redis.call('HSET', PLACE, visitor, int(lease.place))
  away_n = away_n + 1
  add('lapsed', 1)
end

-- hold_on decides about a lease past its end whose holder has come back: while
-- nobody waits it is theirs for another window or session; else it is given on
-- as if they had not come. It returns the lease, or nil and what give_back returns.
local function hold_on(visitor, lease)
  if lease.ends > now then return lease end
  local active = lease.stage == 'active'
  local ends = now + (active and call.session or call.claim_window)
  if active and call.session_max > 0 then ends = math.min(ends, lease.started + call.session_max) end
  if waiting_n > 0 and not healing() or active and not call.renewal or ends <= now then
    return nil, give_back(visitor, lease)
  end
  lease.ends = ends
  put_lease(visitor, lease)
  return lease
end

-- could_hold tells whether n slots are free, leases past their end counted as
-- free, and how many are taken beyond the limit.
local function could_hold(n)
  if room.slots == 0 then return true, -n end
  local over = slots_n + reserved() - room.slots
  if over + n <= 0 then return true, over end
  return not healing() and over + n <= redis.call('ZCOUNT', SLOTS, '-inf', int(now)), over
end

-- room_for tells the same and makes the first of them free: it gives on the
-- oldest and no more than that one needs, so who comes back late keeps a slot
-- that nobody wanted. After the limits were lowered that takes more than one, and
-- maybe more than one call.
local function room_for(n)
  local could, over = could_hold(n)
  if not could or over < 0 then return could end
  local most = math.max(1, math.floor((MOST - spent) / BACK))
  local expired = redis.call('ZRANGEBYSCORE', SLOTS, '-inf', int(now), 'LIMIT', 0, math.min(over + 1, most))
  for i = 1, #expired do give_back(expired[i], lease_of(expired[i])) end
  return slots_n + reserved() < room.slots
end

-- waited counts a wait, from the place to the pass, in one of WAITS counters: below a
-- second, then four for each doubling, up to a day and a half. Of a place by lot it
-- counts from the draw.
local WAITS = 68

local function waited(place)
  local since = lots and place - place % DRAW or place
  local seconds = (now - since / 1000) / 1000
  local bucket = seconds < 1 and 0 or math.min(WAITS - 1, 1 + math.floor(math.log(seconds) / math.log(2) * 4))
  add('wait' .. int(bucket), 1)
end

-- grant admits: a ready pass of one claim window. Its name is place and moment, so
-- that no other admission of the place ever has it.
-- What a call admits it writes down together. Whom the operator lets in costs the
-- bucket nothing, and says nothing about how fast the line moves.
local granted = {}   -- leases given in this call, by visitor
local unwritten = {} -- who got them since the last write

local function grant(visitor, place, aside)
  local lease = {
    stage = 'ready', admission = int(place) .. '.' .. int(now), place = place,
    started = now, ends = now + call.claim_window,
  }
  granted[visitor] = lease
  unwritten[#unwritten + 1] = visitor
  slots_n = slots_n + 1
  if now < room.based then room.base = room.base + 1 end
  if aside then add('aside', 1) else take() end
  room.admitted = room.admitted + 1
  room.top = math.max(room.top, place)
  spent = spent + GRANT
  hints[#hints + 1] = visitor
end

local function write_granted()
  if #unwritten == 0 then return end
  local ends, records = {}, {}
  for i = 1, #unwritten do
    local visitor = unwritten[i]
    local lease = granted[visitor]
    ends[#ends + 1] = int(lease.ends)
    ends[#ends + 1] = visitor
    records[#records + 1] = visitor
    records[#records + 1] = lease_record(lease)
  end
  redis.call('ZADD', SLOTS, unpack(ends))
  redis.call('HSET', LEASES, unpack(records))
  unwritten = {}
end

-- admit moves the front of the line: whoever is here and next gets a free slot
-- while the bucket pays, whoever is overdue steps aside. It goes on until it has
-- seen `look` present people who could not be admitted, or MOST is spent. With
-- `aside` the operator pays for so many, and not the bucket.
local function admit(look, aside)
  local kept = 0
  local budget = aside or affordable()
  while waiting_n > kept and spent < MOST do
    if kept >= look and not (budget > 0 and could_hold(1)) then return end
    local page = redis.call('ZRANGE', WAITING, kept, kept + PAGE - 1, 'WITHSCORES')
    local names = {}
    for i = 1, #page, 2 do names[#names + 1] = page[i] end
    local dues = redis.call('HMGET', DUE, unpack(names))
    local overdue, admitted, stop = {}, {}, false
    for i = 1, #names do
      local place, due = tonumber(page[i * 2]), dues[i] or '0'
      if tonumber(due) < now then
        overdue[#overdue + 1] = names[i]
        overdue[#overdue + 1] = page[i * 2]
        overdue[#overdue + 1] = due
      elseif undrawn(place) or budget > 0 and spent >= MOST then
        stop = true
        break
      elseif budget > 0 and room_for(1) then
        grant(names[i], place, aside)
        waited(place)
        admitted[#admitted + 1] = names[i]
        budget = budget - 1
      else
        kept = kept + 1
        if kept >= look then stop = true; break end
      end
    end
    if #admitted > 0 then
      redis.call('ZREM', WAITING, unpack(admitted))
      redis.call('HDEL', DUE, unpack(admitted))
      waiting_n = waiting_n - #admitted
      write_granted()
    end
    step_aside(WAITING, overdue)
    spent = spent + #names
    if stop then return end
  end
end

