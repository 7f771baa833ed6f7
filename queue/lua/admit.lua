-- admit.lua: the operator lets people in from the front of the line, whatever the
-- rate and the state of the room, and never beyond its slots.
-- KEYS    as room.lua
-- ARGV[2] the operator's order: a name of its own
-- ARGV[3] how many it lets in, all calls together
-- ARGV[4] how many of them are in, as the caller knows
-- returns {header, in, again}: how many are in now, and 1 when the bound of one call
--         ended it and not the order, the line or the slots
--
-- Idempotent: run twice, the second run goes on where the first one ended. After a
-- loss of history nobody is let in, like at all times.

local order, done = ARGV[2], tonumber(ARGV[4])
local last, so_far = string.match(redis.call('HGET', ROOM, 'order') or '', '^(%S+) (%d+)$')
if last == order then done = math.max(done, tonumber(so_far)) end
local left = healing() and 0 or tonumber(ARGV[3]) - done
if left > 0 then
  admit(0, left)
  for _ in pairs(granted) do done = done + 1 end
  redis.call('HSET', ROOM, 'order', order .. ' ' .. int(done))
end
save()
return { header(), done, spent >= MOST and done < tonumber(ARGV[3]) and 1 or 0 }
