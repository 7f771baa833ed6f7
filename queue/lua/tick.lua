-- tick.lua: what any gate does twice a second, for promptness: nothing depends
-- on one gate doing it.
-- KEYS    as room.lua
-- ARGV[2] the number of the last end this gate knows
-- ARGV[3] how many ends to send at most
-- ARGV[4] the room time of the snapshot this gate holds
-- ARGV[5] how long ends are kept (ms): as long as one could refute something
-- ARGV[6] the version of the control values that this gate knows
-- returns {header, again, snapshot, version, control, number, visitor, record, number, …}
--         again is 1 when bounded work was left over: call once more, now;
--         snapshot is empty when the gate holds the newest, and so is control, the
--         record of the control values of that version
--
-- Moves overdue people aside, admits from the front, gives on what expired long
-- ago, forgets who stayed away too long, measures the flow, makes the snapshot
-- that all gates answer from, and tells the new ends.

local kept = redis.call('HMGET', ROOM, 'sweep', 'swept', 'made', 'measured', 'seen', 'from', 'thinned', 'stepped',
  'returned', 'left', 'pruned', 'marked', 'version', 'aside')
local function field(i) return tonumber(kept[i] or '0') end

-- A lease that nobody wanted stays its holder's for as long again as it lasted,
-- so that who comes back a little late finds it; then it is over.
local function reap()
  if healing() then return end
  local long = now - math.max(call.session, call.claim_window)
  local expired = redis.call('ZRANGEBYSCORE', SLOTS, '-inf', int(long), 'LIMIT', 0, PAGE)
  for i = 1, #expired do
    if spent >= MOST then return end
    give_back(expired[i], lease_of(expired[i]))
  end
end

local function forget_ends()
  local before = '(' .. int((now - tonumber(ARGV[5])) * 1000)
  while spent < MOST do
    local old = redis.call('ZRANGEBYSCORE', ENDED, '-inf', before, 'LIMIT', 0, PAGE)
    if #old == 0 then return end
    redis.call('ZREM', ENDED, unpack(old))
    redis.call('HDEL', ENDS, unpack(old))
    spent = spent + #old * ASIDE
  end
end

-- sweep passes over the whole of waiting once a minute, so that the absent far
-- back are not counted either. The cursor is a place; what time asks for and MOST
-- does not allow is left for the call that follows at once.
local function sweep()
  local cursor, swept = field(1), math.max(field(2), now - 60000)
  local share = math.ceil(waiting_n * (now - swept) / 60000)
  local looked = 0
  while looked < share and spent < MOST do
    local names = redis.call('ZRANGEBYSCORE', WAITING, '(' .. int(cursor), '+inf', 'LIMIT', 0,
      math.min(PAGE, share - looked))
    if #names == 0 then
      cursor, looked = 0, share
      break
    end
    cursor = tonumber(redis.call('ZSCORE', WAITING, names[#names]))
    local overdue, dues = {}, redis.call('HMGET', DUE, unpack(names))
    for i = 1, #names do
      local due = dues[i] or '0'
      if tonumber(due) < now then
        overdue[#overdue + 1] = names[i]
        overdue[#overdue + 1] = redis.call('ZSCORE', WAITING, names[i])
        overdue[#overdue + 1] = due
      end
    end
    step_aside(WAITING, overdue)
    looked = looked + #names
    spent = spent + #names
  end
  if looked < share then swept = swept + math.floor((now - swept) * looked / share) else swept = now end
  redis.call('HSET', ROOM, 'sweep', int(cursor), 'swept', int(swept))
end

-- prune_gates forgets, once a minute, the gates that were not heard from for
-- waiting_timeout.
local function prune_gates()
  if now - field(11) < 60000 then return end
  local gates = redis.call('HGETALL', GATES)
  for i = 1, #gates, 2 do
    if tonumber(gates[i + 1]) < now - call.waiting_timeout then redis.call('HDEL', GATES, gates[i]) end
  end
  redis.call('HSET', ROOM, 'pruned', int(now))
end

-- measure follows two figures over about three quarters of a minute, the same for
-- all gates: admissions a second, and the share of the waiting who go away in a
-- second.
-- Whom the operator let in says nothing about it.
-- Only time in which people waited and could be admitted counts: a quiet hour or
-- a pause says nothing about how fast a line moves.
local function measure(waited, admitted, lost)
  local last, seen = field(4), field(5)
  local span = now - last
  if span < 1000 then return end
  if waited and room.state == 'open' and not healing() and last > 0 and span < 10000 then
    seen = math.min(45000, seen + span)
    local weight = span / seen
    local flow = (admitted - field(6)) * 1000 / span * 1000000
    room.flow = math.max(0, math.floor(room.flow + (flow - room.flow) * weight + 0.5))
    local share = (lost - field(7)) * 1000 / span / math.max(1, waiting_n) * 1000000000
    room.thinning = math.max(0, math.floor(room.thinning + (share - room.thinning) * weight + 0.5))
  end
  redis.call('HSET', ROOM, 'measured', int(now), 'seen', int(seen), 'from', int(admitted), 'thinned', int(lost))
end

-- snapshot is the line as gates need it to answer who is far back: the room,
-- the highest place admitted, and pairs of place and people ahead, at most two per
-- cent of the rank apart up to two million waiting, and in the newest part of the
-- line by tenths. The number of pairs is the same for every long line, and so is
-- the cost; one call finds a quarter of them, and the next goes on from there unless
-- that was too long ago. It returns when the stored snapshot was begun, and whether
-- it is finished.
local MARKS, MARKS_AT_ONCE = 392, 98

local function mark(place, ahead)
  return ' ' .. place .. ' ' .. int(ahead)
end

local function newest_marks(index)
  for tenth = 0, fresh_n > 0 and 9 or -1 do
    local at = int(math.floor(fresh_n * tenth / 10))
    local place = redis.call('ZRANGE', FRESH, at, at, 'WITHSCORES')[2]
    index[#index + 1] = mark(place, ahead_of(tonumber(place)))
  end
end

local function snapshot()
  local made, rank = field(3), field(12) -- of an unfinished one the next rank to find, else 0
  local age, stored = now - made, redis.call('EXISTS', SNAPSHOT) == 1
  if stored and rank == 0 and age < (spent < MOST and 400 or 800) then return made, true end
  local index = {}
  if not stored or rank == 0 or age >= 400 then
    made, rank = now, math.min(NEAR, math.max(1, waiting_n - 1))
    index[1] = int(now) .. ' ' .. int(room.top)
    redis.call('DEL', SNAPSHOT)
  end
  local step = math.max(1, waiting_n / NEAR) ^ (1 / MARKS)
  local first = fresh_n > 0 and tonumber(redis.call('ZRANGE', FRESH, 0, 0, 'WITHSCORES')[2]) or math.huge
  while rank < waiting_n and #index <= MARKS_AT_ONCE do
    local at, ahead = int(rank), rank
    local place = redis.call('ZRANGE', WAITING, at, at, 'WITHSCORES')[2]
    if tonumber(place) > first then ahead = rank + redis.call('ZCOUNT', FRESH, '-inf', '(' .. place) end
    index[#index + 1] = mark(place, ahead)
    rank = math.max(rank + 1, math.ceil(rank * step))
  end
  if rank >= waiting_n then
    rank = 0
    newest_marks(index)
  end
  redis.call('APPEND', SNAPSHOT, table.concat(index))
  redis.call('HSET', ROOM, 'made', int(made), 'marked', int(rank))
  spent = spent + #index * ASIDE
  return made, rank == 0
end

local waited = waiting_n > 0
sweep_fresh(MOST)
reap()
admit(math.min(MOST, math.max(PAGE, math.ceil(room.rate / 60)))) -- as many as one second admits
local made, finished = snapshot()
sweep()
if not healing() then drop_away() end
forget_ends()
measure(waited and waiting_n > 0, room.admitted - field(14), field(8) + (count.stepped or 0) - field(9) + field(10))

local again = spent >= MOST or not finished
local answer = { false, again and 1 or 0, '', kept[13] or '0', '' }
if answer[4] ~= ARGV[6] then answer[5] = redis.call('HGET', ROOM, 'control') or '' end
if finished and tonumber(ARGV[4]) ~= made then answer[3] = redis.call('GET', SNAPSHOT) end
local ends = redis.call('ZRANGEBYSCORE', ENDED, '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0,
  again and int(PAGE / 2) or ARGV[3])
if #ends > 0 then
  local visitors = {}
  for i = 1, #ends, 2 do visitors[#visitors + 1] = ends[i] end
  local records = redis.call('HMGET', ENDS, unpack(visitors))
  for i = 1, #visitors do
    answer[#answer + 1] = ends[2 * i]
    answer[#answer + 1] = visitors[i]
    answer[#answer + 1] = records[i] or ''
  end
end
prune_gates()
save()
answer[1] = header()
return answer
