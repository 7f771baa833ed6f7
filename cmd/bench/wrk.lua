-- The requests of one side, for wrk.
--   arguments  method, path, headers that all have ("Name: value|Name: value", may be empty),
--              name of a header that differs, file with its values, one a line (both may be empty)
--   prints     "wrk" and: requests, microseconds, 99th percentile of the latency in microseconds,
--              answers of 400 and above, what else failed, bytes read
-- Each request takes the next value; the threads begin at different ones.

local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

local list, at = {}, 0

function init(args)
  local method, path, common, name, file = args[1], args[2], args[3], args[4], args[5]
  for key, value in string.gmatch(common, "([^:|]+): ([^|]+)") do
    wrk.headers[key] = value
  end
  if file == "" then
    list[1] = wrk.format(method, path)
    return
  end
  for value in io.lines(file) do
    list[#list + 1] = wrk.format(method, path, {[name] = value, Host = wrk.headers["Host"]})
  end
  at = math.floor(#list / 2) * number
end

function request()
  at = at % #list + 1
  return list[at]
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("wrk %d %d %d %d %d %d\n", summary.requests, summary.duration, latency:percentile(99),
    e.status, e.connect + e.read + e.write + e.timeout, summary.bytes))
end
