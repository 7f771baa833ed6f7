-- configure.lua: the control values of the room are written, when they are still
-- those that the caller has seen.
-- KEYS    as room.lua
-- ARGV[2] version of what the caller has seen, ARGV[3] version of what it writes
-- ARGV[4] slots, ARGV[5] rate a minute, ARGV[6] burst, ARGV[7] state, as in force
-- ARGV[8] the record of all values, where they come from and who changed them;
--         only gates read it
-- returns {header, version, record}, both as they are now
--
-- Idempotent: run again it finds its own version and changes nothing. A new room
-- starts with a full bucket; changed limits never add to what is in it. A flow
-- that the old rate had set moves with the rate at once: until it is measured
-- anew, people would be told the old wait.

local kept = redis.call('HMGET', ROOM, 'version', 'control')
if (kept[1] or '0') ~= ARGV[2] then
  save()
  return { header(), kept[1] or '0', kept[2] or '' }
end
local rate = tonumber(ARGV[5])
if room.rate > 0 and rate > 0 and room.flow >= 0.8 * room.rate / 60 * 1000000 then
  room.flow = math.floor(room.flow * rate / room.rate)
end
room.slots, room.rate, room.burst = tonumber(ARGV[4]), rate, tonumber(ARGV[6])
room.state = ARGV[7]
if room.rate > 0 and not room.tokens then
  room.tokens, room.filled = room.burst * TOKEN, now
elseif room.rate > 0 then
  room.tokens = math.min(room.tokens, room.burst * TOKEN)
end
redis.call('HSET', ROOM, 'version', ARGV[3], 'control', ARGV[8])
hints[#hints + 1] = '*'
save()
return { header(), ARGV[3], ARGV[8] }
