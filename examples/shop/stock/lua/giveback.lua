-- giveback.lua: an order came to nothing, its quantity is for sale again.
-- KEYS    as take.lua
-- ARGV[1] visitor  ARGV[2] event id
-- returns how many came back, 0 when the visitor has no order of this event here
--
-- Idempotent: what is given back is forgotten with it, and a stock that was filled from the
-- database since does not know the event.

local had = redis.call('HGET', KEYS[3], ARGV[1])
if not had then return 0 end
local event, quantity = string.match(had, '^(%S+) (%d+) ')
if event ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HINCRBY', KEYS[1], 'left', quantity)
redis.call('HINCRBY', KEYS[1], 'seq', 1)
return tonumber(quantity)
