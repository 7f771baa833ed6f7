-- answers.lua: what a script tells. See room.lua. Numbers in answers are whole
-- and below 2^53, so they leave as integers without being printed.

-- The answer of most scripts is one list: the header, and one standing after the
-- other in it, each told where the script says tell_… A list in the list for each
-- of them took half as long again to hand over as what it tells.
-- A standing begins with the state, which says what follows:
--   away, waiting   place, ahead (-1 before the draw), due
--   ready, active   place, admission, lease end, lease start, request that has
--                   the order lock (empty: none)
--   ended           place, why, admission
--   nothing         refusal, or nothing again when the line knows nobody
-- The interval until the next poll follows from ahead: poll.go knows it.

local answers, said = { false }, 1 -- said so many values

local function tell_in_line(state, place, ahead, due)
  if lots and undrawn(place) then ahead = -1 end
  answers[said + 1], answers[said + 2], answers[said + 3], answers[said + 4] = state, place, ahead, due
  said = said + 4
end

local function tell_pass(lease)
  answers[said + 1], answers[said + 2], answers[said + 3] = lease.stage, lease.place, lease.admission
  answers[said + 4], answers[said + 5], answers[said + 6] = lease.ends, lease.started, lease.order or ''
  said = said + 6
end

local function tell_end(stay)
  answers[said + 1], answers[said + 2], answers[said + 3], answers[said + 4] = 'ended', stay.place, stay.why, stay.admission or ''
  said = said + 4
end

local function tell_refusal(why)
  answers[said + 1], answers[said + 2] = '', why
  said = said + 2
end

-- tell_standing is for a visitor who was not part of this call's work.
local function tell_standing(visitor)
  local lease = lease_of(visitor)
  if lease and lease.ends > now then return tell_pass(lease) end
  -- Past its end and not given on: as good as away, until its holder claims it. The
  -- end itself is told with the pass alone.
  if lease then return tell_in_line('away', lease.place, distance(lease.place), lease.ends - 1) end
  local part, place = where(visitor)
  if not part then return tell_refusal('') end
  -- Also who is away is told until when the last sign counted: should Redis lose
  -- its history now, the ticket proves the place by it.
  local due = part == 'away' and redis.call('ZSCORE', AWAY, visitor) or redis.call('HGET', DUE, visitor)
  return tell_in_line(part == 'waiting' and 'waiting' or 'away', place, distance(place), tonumber(due or '0'))
end

-- header is what every answer begins with: which call it answers, and the room at
-- this moment.
local function header()
  local holding = slots_n > 0 and redis.call('ZCOUNT', SLOTS, '(' .. int(now), '+inf') or 0
  return { call.id, now, clock, room.epoch, room.generation, room.state, people(), holding + reserved(),
    room.slots, room.rate, room.burst, room.flow, room.thinning, math.max(0, room.healed - now) }
end

fill()
