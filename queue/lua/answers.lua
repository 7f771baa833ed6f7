-- answers.lua: what a script tells. See room.lua.

-- standing is what a visitor is told: state, why, refusal, place, ahead, poll,
-- seen, due, admission, lease place, lease end, lease start. Numbers as text;
-- ahead is -1 before the draw.
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
  local ahead = distance(place)
  local poll = poll_for(ahead)
  if undrawn(place) then ahead = -1 end
  -- Also who is away is told until when the last sign counted: should Redis lose
  -- its history now, the ticket proves the place by it.
  local due = part == 'away' and redis.call('ZSCORE', AWAY, visitor) or redis.call('HGET', DUE, visitor)
  local seen = 0
  if sign then seen = now end
  return { part == 'waiting' and 'waiting' or 'away', '', '', int(place), int(ahead), int(poll),
    int(seen), int(tonumber(due or '0')), '', '0', '0', '0' }
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
    int(redis.call('ZCOUNT', SLOTS, '(' .. int(now), '+inf') + reserved()), int(room.slots), int(room.rate), int(room.burst),
    int(room.flow), int(room.thinning),
    int(math.max(0, room.healed - now)) }
end

fill()
