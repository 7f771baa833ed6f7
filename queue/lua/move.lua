-- move.lua: places of people the shop turned out to know, many in one call: a
-- place taken without a name moves to the visitor who has that name.
-- KEYS    as room.lua
-- ARGV[2…] visitor, place, due, epoch of each ticket, and the visitor to move it to
-- returns {header, standing…}, one standing of the new owner for each
--
-- Moving to oneself changes nothing and tells where one stands, but nothing of a
-- later stay than the ticket's; place 0 asks for whatever there is.
-- Idempotent: a move is an end of the first visitor's stay, and an ended stay has
-- nothing to move. If both have a place the earlier one stays. A pass is not
-- moved: it belongs to who holds it. A place older than a stay that the new owner
-- has ended is gone: one person does not get in twice for having waited twice.
-- Before the draw the new owner draws a lot of their own: nobody picks the best of
-- many tickets.

local function move(visitor, place, due, epoch, to)
  if visitor == to or redis.call('HEXISTS', LEASES, visitor) == 1 or end_of(visitor, place) then
    return
  end
  local part, at = where(visitor)
  if not believed(place, due, epoch, at) then return end
  at = math.min(at or place, place)
  finish(visitor, math.max(at, place), '-', 'moved')
  if undrawn(at) then at = drawn_place(to) end
  if redis.call('HEXISTS', LEASES, to) == 1 or end_of(to, at) then return end
  local _, own = where(to)
  if own and own <= at then return end
  leave_line(to)
  redis.call('ZADD', WAITING, int(at), to)
  redis.call('HSET', DUE, to, int(due_after(distance(at))))
  waiting_n = waiting_n + 1
  room.last = math.max(room.last, at)
end

for i = 2, #ARGV, 5 do
  move(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), ARGV[i + 4])
end
admit(0)
-- later tells whether what the line knows is of a later stay than this place.
local function later(visitor, place)
  local lease, _, at = lease_of(visitor), where(visitor)
  return place > 0 and (lease and lease.place or at or 0) > place
end

for i = 2, #ARGV, 5 do
  local of, to = ARGV[i], ARGV[i + 4]
  if of == to and later(to, tonumber(ARGV[i + 1])) then tell_refusal('') else tell_standing(to) end
end
save()
answers[1] = header()
return answers
