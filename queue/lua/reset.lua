-- reset.lua: the room begins anew, as an operator asks: every place, pass and end
-- there is becomes void, here and in whatever visitors and gates still show.
-- KEYS    as room.lua
-- ARGV[2] the generation that is to end, as the caller knows it
-- returns {header}
--
-- Idempotent: a generation ends once. The next number of the line is the new one;
-- places below it are void. Limits, live values, counters and the bucket stay, and
-- so does what tells a loss of history: the gates and the epoch. The flow is
-- measured anew.

if room.generation == tonumber(ARGV[2]) then
  empty()
  room.generation = next_place()
  room.base, room.based = 0, now
  room.flow, room.thinning = 0, 0
  redis.call('HSET', ROOM, 'seen', 0, 'sweep', 0)
  redis.call('HDEL', ROOM, 'measured')
  add('resets', 1)
end
save()
return { header() }
