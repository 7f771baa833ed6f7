-- renew.lua: active people did something, many in one call.
-- KEYS    as room.lua
-- ARGV[2…] visitor, admission, place, stage, end, epoch of each pass, as its
--          token says, how long a request in flight needs it at least (ms;
--          0 when this is about activity), and the request that has or wants its
--          order lock (empty: none)
-- returns {header, standing…}, one standing for each pass in order
--
-- Idempotent: the end of a lease moves to one session from now, never past
-- session_max from the claim and never backwards; for a request in flight it
-- moves to what that needs, also past the session's last end, but at most
-- max_request past it, however many requests overlap. A lease that is gone stays so,
-- but for a token of a lost epoch, which brings its lease back; and of the lease of
-- another admission nothing is told.

local function renew(visitor, admission, place, stage, ends, epoch, flight, order)
  local lease = lease_of(visitor) or restore(visitor, stage, admission, place, ends, epoch)
  if lease and lease.admission == admission then
    local wanted = math.min(now + flight, longest(lease))
    if flight == 0 and lease.stage == 'active' then
      wanted = now + call.session
      if call.session_max > 0 then wanted = math.min(wanted, lease.started + call.session_max) end
    end
    if wanted > lease.ends or order ~= '' then
      lease.ends = math.max(lease.ends, wanted)
      if order ~= '' then lock(lease, order, flight > 0) end
      put_lease(visitor, lease)
    end
    if lease.ends > now then return tell_pass(lease) end
    return tell_standing(visitor)
  end
  local stay = end_of(visitor, place)
  if not stay and lease then stay = { place = place, why = 'expired', admission = admission } end
  if stay then return tell_end(stay) end
  return tell_standing(visitor)
end

for i = 2, #ARGV, 8 do
  renew(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3],
    tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6]), ARGV[i + 7])
end
save()
answers[1] = header()
return answers
