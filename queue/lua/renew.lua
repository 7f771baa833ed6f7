-- renew.lua: active people did something, many in one call.
-- KEYS    as room.lua
-- ARGV[2…] visitor, admission, place of each pass
-- returns {header, standing…}, one standing for each pass in order
--
-- Idempotent: the end of a lease moves to one session from now, never past
-- session_max from the claim and never backwards. A lease that is gone stays so.

local function renew(visitor, admission, place)
  local lease = lease_of(visitor)
  if lease and lease.admission == admission then
    if lease.stage == 'active' then
      local ends = now + call.session
      if call.session_max > 0 then ends = math.min(ends, lease.started + call.session_max) end
      if ends > lease.ends then
        lease.ends = ends
        put_lease(visitor, lease)
      end
    end
    return standing(visitor)
  end
  local stay = end_of(visitor, place)
  if stay then return ended_standing(stay) end
  return standing(visitor)
end

local answers = { false }
for i = 2, #ARGV, 3 do
  answers[#answers + 1] = renew(ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]))
end
save()
answers[1] = header()
return answers
