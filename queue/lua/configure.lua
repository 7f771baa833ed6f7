-- configure.lua: a gate writes the limits and the lasting state of its file.
-- KEYS    as room.lua
-- ARGV[2] slots, ARGV[3] rate a minute, ARGV[4] burst, ARGV[5] state
-- returns {header, slots, rate, burst, state}, the four as they were before
--
-- Idempotent. A new room starts with a full bucket; changed limits never add to
-- what is in it. A flow that the old rate had set moves with the rate at once:
-- until it is measured anew, people would be told the old wait.

local rate = tonumber(ARGV[3])
if room.rate > 0 and rate > 0 and room.flow >= 0.8 * room.rate / 60 * 1000000 then
  room.flow = math.floor(room.flow * rate / room.rate)
end
local before = { false, room.slots, room.rate, room.burst, room.state }
room.slots, room.rate, room.burst = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
room.state = ARGV[5]
if room.rate > 0 and not room.tokens then
  room.tokens, room.filled = room.burst * TOKEN, now
elseif room.rate > 0 then
  room.tokens = math.min(room.tokens, room.burst * TOKEN)
end
save()
before[1] = header()
return before
