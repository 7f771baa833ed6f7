-- tick.lua: what any gate does twice a second, for promptness: nothing depends
-- on one gate doing it.
-- KEYS    as room.lua
-- ARGV[2] the number of the last end this gate knows
-- ARGV[3] how many ends to send at most
-- returns {header, again, number, visitor, record, number, visitor, record, …}
--         again is 1 when bounded work was left over: call once more, now
--
-- Moves overdue people aside, admits from the front, gives on what expired long
-- ago, forgets who stayed away too long, and tells the new ends.

-- A lease that nobody wanted stays its holder's for as long again as it lasted,
-- so that who comes back a little late finds it; then it is over.
local function reap(most)
  local long = now - math.max(call.session, call.claim_window)
  local expired = redis.call('ZRANGEBYSCORE', SLOTS, '-inf', int(long), 'LIMIT', 0, most)
  for i = 1, #expired do give_back(expired[i]) end
  return #expired == most
end

-- Ends are kept as long as a ticket or token that they refute may be shown.
local function forget_ends(most)
  local keep = math.max(call.waiting_timeout + 100000, call.session, call.claim_window)
  local old = redis.call('ZRANGEBYSCORE', ENDED, '-inf', '(' .. int((now - keep) * 1000), 'LIMIT', 0, most)
  if #old == 0 then return false end
  redis.call('ZREM', ENDED, unpack(old))
  redis.call('HDEL', ENDS, unpack(old))
  return #old == most
end

local second = math.max(PAGE, math.ceil(room.rate / 60))
local again = sweep_fresh(MOST)
again = reap(PAGE) or again
again = admit(math.min(second, MOST)) or again
again = drop_away(MOST) or again
again = forget_ends(MOST) or again

local answer = { false, again and 1 or 0 }
local ends = redis.call('ZRANGEBYSCORE', ENDED, '(' .. ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[3]))
for i = 1, #ends, 2 do
  answer[#answer + 1] = int(tonumber(ends[i + 1]))
  answer[#answer + 1] = ends[i]
  answer[#answer + 1] = redis.call('HGET', ENDS, ends[i]) or ''
end
save()
answer[1] = header()
return answer
