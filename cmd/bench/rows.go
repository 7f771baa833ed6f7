package main

import "fmt"

// rowID names a row within this program.
type rowID string

// row is one line of the table.
type row struct {
	id     rowID
	family string
	what   string
	bar    bar
}

// bar is what a figure is to reach.
type bar struct {
	side  direction // on which side of the limit it is to be
	limit float64
	unit  string // of limit and figure; "" for a ratio
}

type direction int

const (
	none direction = iota // there is no bar: the row is there to compare
	atLeast
	atMost
)

func least(limit float64) bar             { return bar{atLeast, limit, ""} }
func most(limit float64, unit string) bar { return bar{atMost, limit, unit} }

// met tells whether a figure reaches the bar.
func (b bar) met(f figure) bool {
	return b.side == none || b.side == atLeast && f.median >= b.limit || b.side == atMost && f.median <= b.limit
}

func (b bar) String() string {
	switch b.side {
	case atLeast:
		return fmt.Sprintf("≥ %.2f%s", b.limit, spaced(b.unit))
	case atMost:
		return "≤ " + number(b.limit, b.unit)
	default:
		return "–"
	}
}

// number writes a figure with its unit.
func number(value float64, unit string) string { return digits(value, unit) + spaced(unit) }

// digits writes a figure: with two digits behind the point, but for great ones that
// are no ratio.
func digits(value float64, unit string) string {
	if unit != "" && value >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.2f", value)
}

func spaced(unit string) string {
	if unit == "" {
		return ""
	}
	return " " + unit
}

const (
	passBare   rowID = "pass/bare"
	passLogged rowID = "pass/logged"
	passP99    rowID = "pass/p99"
	passAllocs rowID = "pass/allocs"
	passOpen   rowID = "pass/open"
	passCaddy  rowID = "pass/caddy"
	passNginx  rowID = "pass/nginx"
	passHAP    rowID = "pass/haproxy"
	passDirect rowID = "pass/direct"

	statusEmpty rowID = "status/empty"
	statusRedis rowID = "status/redis"
	statusUsual rowID = "status/usual"

	joinHTTP     rowID = "join/http"
	joinRedis    rowID = "join/redis"
	joinFew      rowID = "join/few"
	joinFewRedis rowID = "join/few-redis"
	joinAlone    rowID = "join/alone"
	pageSame     rowID = "page/same"

	lineJoin  rowID = "line/join"
	lineTouch rowID = "line/status"
	lineAdmit rowID = "line/admit"
	lineBytes rowID = "line/bytes"

	streamsSSE    rowID = "streams/sse"
	streamsWS     rowID = "streams/ws"
	streamsSSEAll rowID = "streams/sse-all"
	streamsWSAll  rowID = "streams/ws-all"
	delayNext     rowID = "delay/next"
)

// rows are all lines of the table, in its order.
func rows() []row {
	return []row{
		{passBare, "pass", "admitted request, against the same ReverseProxy bare: requests/s", least(0.95)},
		{passP99, "pass", "… 99th percentile of the time", most(1.1, "")},
		{passAllocs, "pass", "… allocations more a request", most(6, "a request")},
		{passLogged, "pass", "… with the access log, which bare has not: requests/s", bar{}},
		{passOpen, "pass", "unprotected route, against bare: requests/s", least(0.99)},
		{passCaddy, "pass", "admitted request, against Caddy's reverse_proxy: requests/s", least(1.5)},
		{passNginx, "pass", "… against nginx, which decides nothing", bar{}},
		{passHAP, "pass", "… against HAProxy, which decides nothing", bar{}},
		{passDirect, "pass", "… against no proxy at all", bar{}},
		{statusEmpty, "status", "poll from far back in line, against an empty handler of net/http that writes the same bytes: requests/s", least(0.80)},
		{statusRedis, "status", "… Redis commands a poll", most(0, "")},
		{statusUsual, "status", "… against the usual three Redis commands a poll: requests/s", least(3.5)},
		{joinHTTP, "join", "join, 256 at once, against the usual four Redis commands a join: requests/s", least(2.8)},
		{joinRedis, "join", "… Redis CPU a join", most(0.167, "")},
		{joinFew, "join", "… 64 at once: requests/s", bar{}},
		{joinFewRedis, "join", "… 64 at once: Redis CPU a join", bar{}},
		{joinAlone, "join", "… 256 at once without HTTP, in process: joins/s", least(10)},
		{pageSame, "page", "queue page with its join, against a handler that writes the same bytes: requests/s", least(0.5)},
		{lineJoin, "line", "Redis CPU of joins, 2,000,000 waiting against 10,000", most(1.5, "")},
		{lineTouch, "line", "… of signs of life", most(1.5, "")},
		{lineAdmit, "line", "… of admissions", most(1.5, "")},
		{lineBytes, "line", "Redis memory of somebody who waits", most(230, "bytes")},
		{streamsSSE, "streams", "gate memory of an event stream, 15,000 of them", most(6, "KB")},
		{streamsSSEAll, "streams", "… until all have heard of an update", most(400, "ms")},
		{streamsWS, "streams", "gate memory of a WebSocket, 15,000 of them", most(20, "KB")},
		{streamsWSAll, "streams", "… until all have heard of an update", most(400, "ms")},
		{delayNext, "delay", "a pass is given back until the next in line has theirs on the stream, 99th percentile", most(150, "ms")},
	}
}
