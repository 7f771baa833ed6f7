-- look.lua: what is here of a product.
-- KEYS    as take.lua
-- returns {left, seq, holds}; left is -1 and seq "" when there is no stock here
--
-- Changes nothing.

local left = redis.call('HGET', KEYS[1], 'left')
if not left then return { -1, '', 0 } end
return { tonumber(left), redis.call('HGET', KEYS[1], 'seq'), redis.call('ZCARD', KEYS[2]) }
