-- record.lua: one point of a room's last hour, for operators, and a word about the
-- gate that writes it. It runs alone, without the common part, every few seconds and
-- for no visitor; it changes nothing that decides about anybody.
-- KEYS    1 room, 2 waiting, 3 fresh, 4 away, 5 slots, 6 gates, as in room.lua
--         7 history   HASH   slot of the last hour -> point
--         8 versions  HASH   gate -> "what it does version"
-- ARGV[1] the gate, ARGV[2] its version
-- ARGV[3] what it does: here, refused (the shop takes no connections) or leaves
-- returns {written, wait}: 1 when this call wrote the point of the slot, and how many
--         milliseconds are left of the slot
--
-- One point for each five seconds of TIME, by the gate that comes first; run again it
-- finds the point and changes nothing but the gate's own word. The slots are a ring, so
-- that the history never holds more than an hour. A gate that has not called for ten
-- minutes is forgotten.
-- A point is "form slot time epoch generation state healing waiting away holding slots
-- rate gates refused counter… wait:count…"; the counters run on from point to point.

local FORM = '1'
local SLOT, RING = 5000, 720
local GONE, FORGOTTEN = 4000, 600000
local COUNTERS = { 'joined', 'admitted', 'claimed', 'lapsed', 'returned', 'stepped', 'dropped', 'restored', 'resets',
  'consumed', 'released', 'left', 'moved', 'expired' }
local WAITS = 68 -- see waited in slots.lua

local function int(n) return string.format('%d', n) end

local time = redis.call('TIME')
local at = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local slot = math.floor(at / SLOT)
local rest = (slot + 1) * SLOT - at
if ARGV[3] == 'leaves' then
  redis.call('HDEL', KEYS[8], ARGV[1])
  return { 0, rest }
end
redis.call('HSET', KEYS[8], ARGV[1], ARGV[3] .. ' ' .. ARGV[2])
local place = int(slot % RING)
local there = string.match(redis.call('HGET', KEYS[7], place) or '', '^%S+ (%d+)')
if there and tonumber(there) == slot then return { 0, rest } end

local fields = { 'now', 'epoch', 'generation', 'state', 'healed', 'slots', 'rate', 'base', 'based' }
local first = #fields
for i = 1, #COUNTERS do fields[#fields + 1] = COUNTERS[i] end
for i = 0, WAITS - 1 do fields[#fields + 1] = 'wait' .. int(i) end
local room = redis.call('HMGET', KEYS[1], unpack(fields))
if not room[1] then return { 0, rest } end
local function number(i) return tonumber(room[i] or '0') end

local now = number(1)
local called = redis.call('HGETALL', KEYS[6])
local heard = {}
for i = 1, #called, 2 do heard[called[i]] = tonumber(called[i + 1]) end
local gates, refused = 0, 0
local words = redis.call('HGETALL', KEYS[8])
for i = 1, #words, 2 do
  local last = heard[words[i]] or 0
  if last < now - FORGOTTEN and words[i] ~= ARGV[1] then
    redis.call('HDEL', KEYS[8], words[i])
  elseif last >= now - GONE then
    gates = gates + 1
    if string.sub(words[i + 1], 1, 8) == 'refused ' then refused = refused + 1 end
  end
end

local holding = redis.call('ZCOUNT', KEYS[5], '(' .. int(now), '+inf')
if now < number(9) then holding = holding + math.max(0, number(8) - redis.call('ZCARD', KEYS[5])) end
local waiting = redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3])
local state = room[4] ~= '' and room[4] or '-'
local point = { FORM, int(slot), int(at), int(number(2)), int(number(3)), state, now < number(5) and '1' or '0',
  int(waiting), int(redis.call('ZCARD', KEYS[4])), int(holding), int(number(6)), int(number(7)), int(gates), int(refused) }
for i = first + 1, first + #COUNTERS do point[#point + 1] = int(number(i)) end
for i = 0, WAITS - 1 do
  local count = room[first + #COUNTERS + 1 + i]
  if count then point[#point + 1] = int(i) .. ':' .. count end
end
redis.call('HSET', KEYS[7], place, table.concat(point, ' '))
return { 1, rest }
