-- tally.lua: what a room has counted since its history began, for operators. It
-- runs alone, without the common part, writes nothing and moves no clock.
-- KEYS    1 room, 2 waiting, 3 gates, as in room.lua
-- ARGV    names of counters
-- returns {room time, place of the first who is here or 0, gates that called within
--         the last four seconds of room time, a number for each name in order}

local GONE = 4000 -- a gate that ticks twice a second and is silent for so long is gone, in milliseconds

local now = tonumber(redis.call('HGET', KEYS[1], 'now') or '0')
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or '0'
local called = redis.call('HVALS', KEYS[3])
local gates = 0
for i = 1, #called do
  if tonumber(called[i]) >= now - GONE then gates = gates + 1 end
end
local answer = { now, tonumber(first), gates }
local counted = redis.call('HMGET', KEYS[1], unpack(ARGV))
for i = 1, #ARGV do answer[#answer + 1] = tonumber(counted[i] or '0') end
return answer
