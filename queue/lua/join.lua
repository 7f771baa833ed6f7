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
-- back can take no more than that. A room that rejects has no line: who is not
-- admitted at once gets no place.

local function unproven_allowed()
  if room.slots == 0 then return true end
  return redis.call('SCARD', UNPROVEN) < math.max(1, math.floor(room.slots / 4))
end

local function at_once()
  return waiting_n == 0 and affordable() > fresh_n and unproven_allowed() and room_for(fresh_n + 1)
end

local function join(visitor)
  if redis.call('HEXISTS', LEASES, visitor) == 1 or where(visitor) then return standing(visitor) end
  if room.state == 'closed' or room.state == 'sold_out' then return refused(room.state) end
  if at_once() then
    local place = next_place()
    grant(visitor, place)
    redis.call('SADD', UNPROVEN, visitor)
    add('joined', 1)
    return standing(visitor)
  end
  if call.method == 'reject' then return refused('full') end
  if call.max_waiting > 0 and people() >= call.max_waiting then return refused('full') end
  local ahead = people()
  local place = call.method == 'random' and drawn_place(visitor) or next_place()
  local poll, due = poll_for(ahead), first_due(ahead)
  if undrawn(place) then ahead = -1 end
  redis.call('ZADD', FRESH, int(place), visitor)
  redis.call('HSET', DUE, visitor, int(due))
  fresh_n = fresh_n + 1
  add('joined', 1)
  return { 'away', '', '', int(place), int(ahead), int(poll), '0', int(due), '', '0', '0', '0' }
end

sweep_fresh(PAGE + #ARGV)
local answers = { false }
for i = 2, #ARGV do
  answers[i] = join(ARGV[i])
end
save()
answers[1] = header()
return answers
