-- join.lua: newcomers ask for a place, many in one call.
-- KEYS    as room.lua
-- ARGV[2…] one visitor each, no two the same
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

-- Asked once and not for each newcomer.
local shut = (room.state == 'closed' or room.state == 'sold_out') and room.state
local most = call.method == 'reject' and 0 or call.max_waiting > 0 and call.max_waiting or math.huge

-- what is still to be written of newcomers who got a place: the members of fresh,
-- and until when each one's first sign is awaited
local places, dues, unwritten_n = {}, {}, 0
local due, due_text -- of the last one: mostly the next one's, too

local function new_place(visitor)
  local ahead, n = waiting_n + fresh_n, unwritten_n
  local place = lots and drawn_place(visitor) or next_place()
  local until_then = first_due(ahead)
  if until_then ~= due then due, due_text = until_then, int(until_then) end
  places[n + 1], places[n + 2] = int(place), visitor
  dues[n + 1], dues[n + 2] = visitor, due_text
  unwritten_n = n + 2
  fresh_n = fresh_n + 1
  tell_in_line('away', place, ahead, due)
end

local SHEET = 128 -- newcomers found and written together: mostly all of a call

local function write_places()
  if unwritten_n == 0 then return end
  redis.call('ZADD', FRESH, unpack(places, 1, unwritten_n))
  redis.call('HSET', DUE, unpack(dues, 1, unwritten_n))
  add('joined', unwritten_n / 2)
  unwritten_n = 0
end

-- newcomer gives a place, or the pass at once, to somebody whose last stay, if there
-- was one, ended as `record` says: no place may be below one of the visitor's that
-- has ended, also where Redis lost the sequence and its clock went back.
local function newcomer(visitor, record)
  if shut then return tell_refusal(shut) end
  local stay = record and read_end(record, 0)
  if stay then room.last = math.max(room.last, stay.place) end
  if not no_more and at_once() then
    grant(visitor, next_place())
    add('wait0', 1)
    redis.call('SADD', UNPROVEN, visitor)
    add('joined', 1)
    return tell_pass(granted[visitor])
  end
  if people() >= most then return tell_refusal('full') end
  new_place(visitor)
end

sweep_fresh(PAGE)
for from = 2, #ARGV, SHEET do
  local last = math.min(from + SHEET - 1, #ARGV)
  local leases, parts = find(ARGV, from, last)
  local ends = ended_n > 0 and redis.call('HMGET', ENDS, unpack(ARGV, from, last)) or {}
  for i = 1, last - from + 1 do
    local visitor = ARGV[from + i - 1]
    if parts[i] or leases[i] and (hold_on(visitor, lease_of(visitor)) or where(visitor)) then
      tell_standing(visitor)
    else
      newcomer(visitor, ends[i])
    end
  end
  write_granted()
  write_places()
end
save()
answers[1] = header()
return answers
