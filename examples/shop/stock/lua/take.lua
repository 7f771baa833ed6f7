-- take.lua: takes some of a product for one visitor, all of them or none.
-- KEYS[1] HASH left, seq: how many are left, and the number of the last change
-- KEYS[2] ZSET visitor -> when the hold ends (ms of Redis TIME)
-- KEYS[3] HASH visitor -> "event quantity key" of the one order
-- ARGV[1] visitor  ARGV[2] event id  ARGV[3] quantity
-- ARGV[4] idempotency key, without spaces  ARGV[5] how long the hold lasts, ms
-- returns {what, event id, quantity, left}; what is one of
--   taken     the quantity is off the stock and held for the event
--   repeated  this visitor's order with this key: the event it already has
--   other     this visitor has another order of the product: that event
--   sold_out  fewer are left than were asked for; nothing was taken
--   unknown   there is no stock here: Redis is new or has lost it
--
-- Idempotent: run twice, the second run answers repeated. left never falls below zero.

local left = tonumber(redis.call('HGET', KEYS[1], 'left') or '')
if not left then return { 'unknown', '', 0, 0 } end

local had = redis.call('HGET', KEYS[3], ARGV[1])
if had then
  local event, quantity, key = string.match(had, '^(%S+) (%d+) (%S+)$')
  local same = key == ARGV[4] and quantity == ARGV[3]
  return { same and 'repeated' or 'other', event, tonumber(quantity), left }
end

local quantity = tonumber(ARGV[3])
if quantity < 1 or left < quantity then return { 'sold_out', '', 0, left } end

local now = redis.call('TIME')
local ends = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000) + tonumber(ARGV[5])
redis.call('HINCRBY', KEYS[1], 'left', -quantity)
redis.call('HINCRBY', KEYS[1], 'seq', 1)
redis.call('ZADD', KEYS[2], ends, ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
return { 'taken', ARGV[2], quantity, left - quantity }
