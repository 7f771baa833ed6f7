-- finish.lua: stays end, many in one call: somebody left, a pass was given back,
-- or an order used it up. An order that failed ends its lock alone.
-- KEYS    as room.lua
-- ARGV[2…] visitor, admission, place, why, stage, end, epoch, order of each; an
--          empty admission means whatever the visitor holds, a place or a pass;
--          order is the request that speaks for its order (empty: no order)
-- returns {header, standing…}, one standing for each in order
--
-- Idempotent: one end is one record and frees its slot once; repeated, it tells
-- how the stay ended. A pass named by its admission ends only itself: a later
-- admission of the same visitor is not touched, nor is a later stay by leaving
-- an earlier place (place 0 means whatever there is). What Redis does not know is
-- recorded all the same, so that no ticket brings it back, but for what a reset has
-- ended; a pass of a lost epoch
-- gives its slot back as if Redis still knew of it, and also ends the place that
-- an older copy of Redis has for its holder. The next
-- person gets the slot in the same call. It removes before it writes, so that
-- leaving works in a Redis that is out of memory. An order changes nothing while
-- another one has the lock: that one has the pass at the shop at this moment.

local function over(visitor, admission, place, why, stage, ends, epoch, order)
  if place > 0 and place < room.generation then return { place = place, why = 'expired', admission = admission } end
  local part, at = where(visitor)
  local lease = lease_of(visitor)
  if not lease and admission ~= '' then lease = restore(visitor, stage, admission, place, ends, epoch) end
  if order ~= '' then
    local own = lease and lease.admission == admission
    if own and lease.order and lease.order ~= order then return nil end
    if why == 'failed' then
      if own and lease.order then
        lease.order = nil
        put_lease(visitor, lease)
      end
      return nil
    end
  end
  local whole = admission == '' and (place == 0 or place >= (lease and lease.place or at or 0))
  if lease and (whole or admission == lease.admission) then
    at = math.max(lease.place, at or 0)
    finish(visitor, at, lease.admission, why)
    return { place = at, why = why, admission = lease.admission }
  end
  local stay = end_of(visitor, place)
  if stay then return stay end
  if lease or part and not whole and (admission == '' or epoch >= room.epoch) then return nil end
  place = math.max(place, at or 0)
  finish(visitor, place, admission == '' and '-' or admission, why)
  return { place = place, why = why, admission = admission }
end

for i = 2, #ARGV, 8 do
  local stay = over(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3], ARGV[i + 4], tonumber(ARGV[i + 5]),
    tonumber(ARGV[i + 6]), ARGV[i + 7])
  if stay then tell_end(stay) else tell_standing(ARGV[i]) end
end
admit(0)
save()
answers[1] = header()
return answers
