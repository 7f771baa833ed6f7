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
  if room.state == 'closed' or room.state == 'sold_out' then return tell_refusal(room.state) end
  local stay = record and read_end(record, 0)
  if stay then room.last = math.max(room.last, stay.place) end
  if not no_more and at_once() then
    grant(visitor, next_place())
    add('wait0', 1)
    redis.call('SADD', UNPROVEN, visitor)
    add('joined', 1)
    return tell_pass(granted[visitor])
  end
  if call.method == 'reject' then return tell_refusal('full') end
  if call.max_waiting > 0 and people() >= call.max_waiting then return tell_refusal('full') end
  new_place(visitor)
end

-- tell_again repeats the standing that begins after so many values.
local function tell_again(after)
  local state = answers[after + 1]
  local width = state == '' and 2 or state == 'ready' and 6 or 4
  for i = after + 1, after + width do
    said = said + 1
    answers[said] = answers[i]
  end
end

sweep_fresh(PAGE)
local told = {} -- where in the answer each visitor's standing begins
for from = 2, #ARGV, PAGE do
  local last = math.min(from + PAGE - 1, #ARGV)
  local leases, parts = find(ARGV, from, last)
  local ends = ended_n > 0 and redis.call('HMGET', ENDS, unpack(ARGV, from, last)) or {}
  for i = 1, last - from + 1 do
    local visitor = ARGV[from + i - 1]
    local before = told[visitor]
    told[visitor] = before or said
    if before then -- twice in one call is one newcomer
      tell_again(before)
    elseif parts[i] or leases[i] and (hold_on(visitor, lease_of(visitor)) or where(visitor)) then
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
