-- claim.lua: passes are taken into use, many in one call.
-- KEYS    as room.lua
-- ARGV[2…] visitor, admission, place, stage, end, epoch of each pass, as its
--          token says, and the request that wants its order lock (empty: none)
-- returns {header, standing…}, one standing for each pass in order
--
-- Repeatable: who claimed already gets the same lease again, so an answer that
-- was lost can be asked for once more. Only the very admission counts: who shows
-- another one is told nothing of the lease there is; a slot
-- given on is never revived. A lease past its end that nobody wanted is still
-- its holder's, and the session starts anew from now; unless sessions are not
-- renewed, where it is over. A token of a lost epoch
-- brings its lease back. The order lock goes to one request of a pass at a time.

local function claim(visitor, admission, place, stage, ends, epoch, order)
  local lease = lease_of(visitor) or restore(visitor, stage, admission, place, ends, epoch)
  if lease and lease.admission == admission then
    if lease.stage == 'ready' then
      lease.stage, lease.started = 'active', now
      add('claimed', 1)
    elseif lease.ends > now then
      if order == '' then return tell_standing(visitor) end
      lock(lease, order, false)
      put_lease(visitor, lease)
      return tell_pass(lease)
    elseif not call.renewal then
      finish(visitor, lease.place, lease.admission, 'expired')
      return tell_end({ place = lease.place, why = 'expired', admission = admission })
    end
    lease.ends = math.max(lease.ends, now + call.session) -- no token may outlive its slot, the ready one neither
    if call.session_max > 0 then lease.ends = math.min(lease.ends, lease.started + call.session_max) end
    if lease.ends <= now then
      finish(visitor, lease.place, lease.admission, 'expired')
      return tell_end({ place = lease.place, why = 'expired', admission = admission })
    end
    if order ~= '' then lock(lease, order, false) end
    put_lease(visitor, lease)
    redis.call('SREM', UNPROVEN, visitor)
    redis.call('HDEL', LAPSES, visitor)
    return tell_pass(lease)
  end
  local stay = end_of(visitor, place)
  if not stay and lease then stay = { place = place, why = 'expired', admission = admission } end
  if stay then return tell_end(stay) end
  return tell_standing(visitor)
end

for i = 2, #ARGV, 7 do
  claim(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3],
    tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), ARGV[i + 6])
end
save()
answers[1] = header()
return answers
