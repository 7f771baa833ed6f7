-- gates.lua: the gates of a room that have told of themselves (record.lua). It runs
-- alone, without the common part, and writes nothing.
-- KEYS    1 room, 2 gates, 3 versions, as in record.lua
-- returns {room time, gate, room time of its last call or 0, its word, gate, …}

local answer = { tonumber(redis.call('HGET', KEYS[1], 'now') or '0') }
local words = redis.call('HGETALL', KEYS[3])
for i = 1, #words, 2 do
  answer[#answer + 1] = words[i]
  answer[#answer + 1] = tonumber(redis.call('HGET', KEYS[2], words[i]) or '0')
  answer[#answer + 1] = words[i + 1]
end
return answer
