-- heal.lua: a gate writes back what it knows after Redis lost its history.
-- KEYS    as room.lua
-- ARGV[2] how many ends follow: visitor, place, why, admission of each
-- then     leases: visitor, admission, place, stage, end, epoch of each
-- returns {header}
--
-- Idempotent. Ends come first, so that no lease or place of an ended stay comes
-- back; ends already known, and leases already there, stay as they are. At most
-- 50 of each in one call.

-- Leases of ended stays were not among those taken at the loss, so ending them
-- frees nothing of what is reserved.
local ends_n, base = tonumber(ARGV[2]), room.base
local at = 3
for _ = 1, ends_n do
  local visitor, place = ARGV[at], tonumber(ARGV[at + 1])
  if not end_of(visitor, place) then
    local lease = lease_of(visitor)
    local _, stands = where(visitor)
    if not (lease and lease.place > place) and not (stands and stands > place) then
      finish(visitor, place, ARGV[at + 3], ARGV[at + 2])
    end
  end
  room.last = math.max(room.last, place) -- also of ends that are known already
  at = at + 4
end
room.base = base
while at < #ARGV do
  restore(ARGV[at], ARGV[at + 3], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5]))
  at = at + 6
end
save()
return { header() }
