-- touch.lua: signs of life of people who show a ticket, many in one call. First
-- poll, every later one, the return of who was away and the restoring of who
-- Redis does not know are this one script.
-- KEYS    as room.lua
-- ARGV[2…] visitor, place, due of each ticket
-- returns {header, standing…}, one standing for each ticket in order
--
-- Idempotent. Whoever is away or unknown stands again at the ticket's own place;
-- if both Redis and the ticket know a place the earlier one counts. A ticket is
-- void when its stay ended, when a reset came after it, or when its holder was
-- silent for waiting_timeout after it was due.

local function sign(visitor, place, due)
  if redis.call('HEXISTS', LEASES, visitor) == 1 then
    redis.call('SREM', UNPROVEN, visitor)
    return nil
  end
  local stay = end_of(visitor, place)
  if stay then return stay end
  if place < room.generation then return { place = place, why = 'expired' } end
  local part, at = where(visitor)
  if not part and due + call.waiting_timeout < now then return { place = place, why = 'expired' } end
  at = math.min(at or place, place)
  if part == 'away' then
    redis.call('ZREM', AWAY, visitor)
    redis.call('HDEL', PLACE, visitor)
    away_n = away_n - 1
  elseif part == 'fresh' then
    redis.call('ZREM', FRESH, visitor)
    fresh_n = fresh_n - 1
  end
  if part ~= 'waiting' then
    waiting_n = waiting_n + 1
    if part ~= 'fresh' then add('returned', 1) end
  end
  redis.call('ZADD', WAITING, int(at), visitor)
  -- The same for everybody near the front: a small room need not count.
  local ahead = people() > NEAR and distance(at) or 0
  redis.call('HSET', DUE, visitor, int(due_after(ahead)))
  room.last = math.max(room.last, at)
  return nil
end

local void = {}
for i = 2, #ARGV, 3 do
  void[i] = sign(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
end
admit(0)
local answers = { false }
for i = 2, #ARGV, 3 do
  answers[#answers + 1] = void[i] and ended_standing(void[i]) or standing(ARGV[i], true)
end
save()
answers[1] = header()
return answers
