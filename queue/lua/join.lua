-- join.lua: newcomers ask for a place, many in one call.
-- KEYS    as room.lua
-- ARGV[2…] one visitor each
-- returns {header, standing…}, one standing for each visitor in order
--
-- Idempotent: who has a place or a pass is told it again, nothing changes.
-- A newcomer gets the next place and starts away (fresh). Only when nobody waits
-- and slots and bucket have room for this one and for every newcomer whose first
-- sign is still due, the pass comes at once; such passes, until they are used,
-- hold at most a quarter of the slots, at least one: clients that bring nothing
-- back can take no more than that. What one call may spend on them is bounded, too:
-- the rest get a place, and come in with their first sign. A room that rejects has no line: who is not
-- admitted at once gets no place.

local function unproven_allowed()
  if room.slots == 0 then return true end
  return redis.call('SCARD', UNPROVEN) < math.max(1, math.floor(room.slots / 4))
end

-- at_once tells whether one more may come in at once; once it is no, it stays no
-- for the rest of the call.
local no_more = false
local function at_once()
  no_more = no_more or not (spent < MOST and waiting_n == 0 and affordable() > fresh_n and unproven_allowed()
    and room_for(fresh_n + 1))
  return not no_more
end

-- new_place is a newcomer's answer, and what is still to be written of it.
local due, due_text -- of the last one: mostly the next one's, too

local function new_place(visitor, places, dues)
  local ahead, n = people(), #places
  local place = call.method == 'random' and drawn_place(visitor) or next_place()
  local until_then = first_due(ahead)
  if until_then ~= due then due, due_text = until_then, int(until_then) end
  places[n + 1], places[n + 2] = int(place), visitor
  dues[n + 1], dues[n + 2] = visitor, due_text
  fresh_n = fresh_n + 1
  return in_line('away', place, ahead, due)
end

-- newcomer gives a place, or the pass at once, to somebody whose last stay, if there
-- was one, ended as `record` says: no place may be below one of the visitor's that
-- has ended, also where Redis lost the sequence and its clock went back.
local function newcomer(visitor, record, places, dues)
  if room.state == 'closed' or room.state == 'sold_out' then return refused(room.state) end
  local stay = record and read_end(record, 0)
  if stay then room.last = math.max(room.last, stay.place) end
  if not no_more and at_once() then
    grant(visitor, next_place())
    add('wait0', 1)
    redis.call('SADD', UNPROVEN, visitor)
    add('joined', 1)
    return with_pass(granted[visitor])
  end
  if call.method == 'reject' then return refused('full') end
  if call.max_waiting > 0 and people() >= call.max_waiting then return refused('full') end
  return new_place(visitor, places, dues)
end

sweep_fresh(PAGE)
local answers, told = { false }, {} -- answers[i] is that of ARGV[i]
for from = 2, #ARGV, PAGE do
  local page, places, dues = {}, {}, {}
  for i = from, math.min(from + PAGE - 1, #ARGV) do page[#page + 1] = ARGV[i] end
  local leases, parts = find(page)
  local ends = ended_n > 0 and redis.call('HMGET', ENDS, unpack(page)) or {}
  for i = 1, #page do
    local visitor = page[i]
    if not told[visitor] then -- twice in one call is one newcomer
      local known = parts[i] or leases[i] and (hold_on(visitor, lease_of(visitor)) or where(visitor))
      told[visitor] = known and standing(visitor) or newcomer(visitor, ends[i], places, dues)
    end
    answers[from + i - 1] = told[visitor]
  end
  write_granted()
  if #places > 0 then
    redis.call('ZADD', FRESH, unpack(places))
    redis.call('HSET', DUE, unpack(dues))
    add('joined', #places / 2)
  end
end
save()
answers[1] = header()
return answers
