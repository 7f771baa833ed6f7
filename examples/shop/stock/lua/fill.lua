-- fill.lua: takes over from the database who has an order and, at the end, how many are left.
-- KEYS    as take.lua
-- ARGV[1] the seq that the caller saw before it asked the database, "" when there was no stock
-- ARGV[2] how many are left, "" while more orders follow
-- ARGV[3], ARGV[4], ... visitor, "event quantity key" of at most 500 orders
-- returns 1, or 0 when the stock has changed since and nothing was taken over
--
-- Idempotent. A stock that was not here begins without holds.

local seq = redis.call('HGET', KEYS[1], 'seq') or ''
if seq ~= ARGV[1] then return 0 end
if seq == '' then redis.call('DEL', KEYS[2]) end
for i = 3, #ARGV, 2 do redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
if ARGV[2] ~= '' then
  if seq == '' then
    local now = redis.call('TIME')
    redis.call('HSET', KEYS[1], 'seq', now[1] .. string.format('%06d', tonumber(now[2])))
  end
  redis.call('HSET', KEYS[1], 'left', ARGV[2])
  redis.call('HINCRBY', KEYS[1], 'seq', 1)
end
return 1
