-- settle.lua: the database has the order, its hold needs no end any more.
-- KEYS    as take.lua
-- ARGV[1] visitor  ARGV[2] event id
-- returns 1 when a hold was settled, 0 when there was none of this event
--
-- Idempotent. The stock does not change.

local had = redis.call('HGET', KEYS[3], ARGV[1])
if not had or string.match(had, '^(%S+) ') ~= ARGV[2] then return 0 end
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], 'seq', 1)
return 1
