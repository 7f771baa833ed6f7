-- overdue.lua: holds whose time is over, for the database to say what became of them.
-- KEYS    as take.lua
-- ARGV[1] at most how many
-- returns {visitor, event id, visitor, event id, ...}, the longest overdue first
--
-- Changes nothing.

local now = redis.call('TIME')
local ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
local found = {}
for _, visitor in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ms, 'LIMIT', 0, ARGV[1])) do
  found[#found + 1] = visitor
  found[#found + 1] = string.match(redis.call('HGET', KEYS[3], visitor) or '', '^(%S+) ') or ''
end
return found
