-- history.lua: the points of a room's last hour, as record.lua writes them. It runs
-- alone, without the common part, and writes nothing.
-- KEYS    1 history
-- ARGV[1] the first moment that is asked for, by TIME in milliseconds
-- returns the points in no order; those in the ring that are older than an hour, or of
--         a time to come, are left out

local SLOT, RING = 5000, 720

local time = redis.call('TIME')
local slot = math.floor((tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)) / SLOT)
local first = math.max(slot - RING + 1, math.floor(tonumber(ARGV[1]) / SLOT))
if first > slot then return {} end
local places = {}
for i = first, slot do places[#places + 1] = string.format('%d', i % RING) end
local points = {}
local found = redis.call('HMGET', KEYS[1], unpack(places))
for i = 1, #found do
  local of = found[i] and string.match(found[i], '^%S+ (%d+)')
  if of and tonumber(of) == first + i - 1 then points[#points + 1] = found[i] end
end
return points
