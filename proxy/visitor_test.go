package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

func TestAppJoinsPollsIsAdmittedAndOrders(t *testing.T) {
	b := newBench(t)
	b.fill()
	joined := b.call("POST", "/_queue/sale/join", `{"return_to":"/order?id=7"}`)
	require.Equal(t, 200, joined.StatusCode)
	d := joined.doc(t)
	require.Equal(t, "waiting", d["status"])
	require.Equal(t, "sale", d["room"])
	require.EqualValues(t, 1, d["position"])
	require.EqualValues(t, 0, d["ahead"])
	require.EqualValues(t, 0, d["behind"])
	require.EqualValues(t, 1, d["waiting"])
	require.EqualValues(t, 30, d["estimated_wait_seconds"])
	require.NotEmpty(t, d["joined_at"])
	require.Contains(t, d, "remaining_stock")
	require.Nil(t, d["remaining_stock"])
	require.NotContains(t, d, "entry_token")
	poll := d["poll_after_ms"].(float64)
	require.GreaterOrEqual(t, poll, 1600.0)
	require.LessOrEqual(t, poll, 2400.0)
	ticket := d["ticket"].(string)

	for range 10 { // the app keeps no cookies, only the ticket
		got := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket).doc(t)
		require.Equal(t, "waiting", got["status"])
		require.EqualValues(t, 1, got["position"])
		ticket = got["ticket"].(string)
	}
	require.EqualValues(t, 1, b.line.seq)

	b.line.setSlots(1)
	ready := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket)
	require.Equal(t, 200, ready.StatusCode)
	d = ready.doc(t)
	require.Equal(t, "ready", d["status"])
	require.Equal(t, "/order?id=7", d["return_to"])
	require.NotEmpty(t, d["claim_before"])
	require.NotEmpty(t, d["entry_expires_at"])
	require.Nil(t, d["position"])
	entry := d["entry_token"].(string)
	require.Equal(t, entry, ready.Header.Get("X-Entry-Token"))

	again := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket).doc(t)
	require.Equal(t, "ready", again["status"], "the answer that got lost is given again")
	first, err := b.passes.Verify(entry, "sale")
	require.NoError(t, err)
	second, err := b.passes.Verify(again["entry_token"].(string), "sale")
	require.NoError(t, err)
	require.Equal(t, first.Admission, second.Admission)

	order := b.call("POST", "/order", "{}", "X-Entry-Token: "+entry)
	require.Equal(t, 200, order.StatusCode)
	active := order.Header.Get("X-Entry-Token")
	d = b.call("GET", "/_queue/sale/status", "", "X-Entry-Token: "+active).doc(t)
	require.Equal(t, "active", d["status"])
	require.Equal(t, active, d["entry_token"])
	require.NotContains(t, d, "claim_before")

	released := b.call("POST", "/_queue/sale/release", "", "X-Entry-Token: "+active)
	require.Equal(t, 200, released.StatusCode)
	require.Equal(t, "released", released.doc(t)["status"])
	require.Equal(t, 429, func() int { b.fill(); return b.call("POST", "/order", "{}", "X-Entry-Token: "+active).StatusCode }())
	require.Equal(t, "released", b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket).doc(t)["status"])
}

func TestBeforeADrawNobodyHasANumber(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].Page.ByLot = true })
	b.fill()
	b.line.change(func() { b.line.undrawn = true })
	d := b.call("POST", "/_queue/sale/join", "").doc(t)
	require.Equal(t, "waiting", d["status"])
	for _, name := range []string{"position", "ahead", "behind", "estimated_wait_seconds"} {
		require.Contains(t, d, name)
		require.Nil(t, d[name], name)
	}
	require.EqualValues(t, 1, d["waiting"])
	require.NotNil(t, d["poll_after_ms"])
	line := "X-Queue-Ticket: " + d["ticket"].(string)
	require.Nil(t, b.call("GET", "/_queue/sale/status", "", line).doc(t)["position"])
	page := b.navigate("/order", line)
	require.Equal(t, 429, page.StatusCode)
	require.Contains(t, page.text, "drawn by lot once a minute")
	require.NotContains(t, page.text, "You are number 0")

	b.line.change(func() { b.line.undrawn = false })
	require.EqualValues(t, 1, b.call("GET", "/_queue/sale/status", "", line).doc(t)["position"])
}

func TestJoinWithAKeyIsFoundAgain(t *testing.T) {
	b := newBench(t)
	b.fill()
	line := "Idempotency-Key: 0123456789abcdef-key"
	b.call("POST", "/_queue/sale/join", "", line)
	b.call("POST", "/_queue/sale/join", "", line)
	require.EqualValues(t, 1, b.line.seq)
	require.Equal(t, b.line.arrivals[0].Visitor, b.line.arrivals[1].Visitor)
	b.call("POST", "/_queue/sale/join", "", "Idempotency-Key: 0123456789abcdef-other")
	require.EqualValues(t, 2, b.line.seq)
	require.Equal(t, 400, b.call("POST", "/_queue/sale/join", "", "Idempotency-Key: short").StatusCode)
	require.Equal(t, 400, b.call("POST", "/_queue/sale/join", "", line, "Idempotency-Key: 0123456789abcdef-other").StatusCode)
	b.call("POST", "/order", "{}", line)
	require.EqualValues(t, 3, b.line.seq, "on the shop's routes the key is the shop's")
}

func TestEightParallelJoinsWithOneKeyHaveOnePlace(t *testing.T) {
	b := newBench(t)
	b.fill()
	done := make(chan reply, 8)
	for range 8 {
		go func() { done <- b.call("POST", "/_queue/sale/join", "", "Idempotency-Key: 0123456789abcdef") }()
	}
	for range 8 {
		require.EqualValues(t, 1, receive(t, done).doc(t)["position"])
	}
	require.EqualValues(t, 1, b.line.seq)
}

func TestJoinRefusesABodyItDoesNotUnderstand(t *testing.T) {
	b := newBench(t)
	b.fill()
	for body, want := range map[string]int{
		`{"return_to":"/x","other":1}`: 400, `[]`: 400, `{"return_to":1}`: 400, `{} {}`: 400, `nonsense`: 400,
		`{"return_to":"` + strings.Repeat("/x", 9000) + `"}`: 413, "   ": 200, `{}`: 200,
	} {
		require.Equal(t, want, b.call("POST", "/_queue/sale/join", body).StatusCode, body[:min(len(body), 40)])
	}
	chunked := b.call("POST", "/_queue/sale/join", "", "Transfer-Encoding: chunked", "\r\n8000\r\n"+strings.Repeat("x", 0x8000)+"\r\n0\r\n")
	require.Equal(t, 413, chunked.StatusCode)
}

func TestUnknownIsToldApartFromMalformed(t *testing.T) {
	b := newBench(t)
	for target, want := range map[string]int{
		"GET /_queue/nowhere/status": 404, "POST /_queue/nowhere/join": 404, "GET /_queue/sale/other": 404, "GET /_queue/": 404, "GET /_queue": 404,
		"GET /_queue/sale/": 404, "GET /_QUEUE/sale/status": 404, "GET //_queue/sale/status": 404, "GET /_queue/sale/status;x": 404, "GET /_queue/../order": 404,
		"GET /_queue/sale%2fstatus": 404, "PUT /_queue/sale/status": 405, "GET /_queue/sale/join": 405, "POST /_queue/sale": 405, "DELETE /_queue/sale/status": 405,
	} {
		method, path, _ := strings.Cut(target, " ")
		got := b.do(method, path, "")
		require.Equal(t, want, got.StatusCode, target)
		require.Equal(t, "application/problem+json", got.Header.Get("Content-Type"), target)
		require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
		require.Equal(t, "Cookie, Accept, Origin", got.Header.Get("Vary"))
		if want == 405 {
			require.NotEmpty(t, got.Header.Get("Allow"), target)
		}
		require.EqualValues(t, want, got.doc(t)["status"])
		require.True(t, strings.HasPrefix(got.doc(t)["type"].(string), "urn:queuegate:problem:"))
	}
	for _, ticket := range []string{"x", strings.Repeat("A", 30000), "a.b.c", b.tickets.Seal("drop", ticketOf(newVisitor(), 3)), b.pass()} {
		got := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket)
		require.Equal(t, 200, got.StatusCode)
		require.Equal(t, "not_entered", got.doc(t)["status"])
		got = b.call("GET", "/_queue/sale/status", "", "Cookie: queuegate_ticket_sale="+ticket)
		require.Equal(t, "not_entered", got.doc(t)["status"])
	}
	require.Empty(t, b.line.take(), "Redis was asked for nothing")
	require.Empty(t, b.shop.requests())
}

func TestStatusWithRedisAwayAndNothingKnown(t *testing.T) {
	b := newBench(t)
	b.line.lose()
	require.Equal(t, 503, b.call("POST", "/_queue/sale/join", "").StatusCode)
	require.Equal(t, 503, b.call("DELETE", "/_queue/sale", "", "X-Queue-Ticket: "+b.tickets.Seal("sale", ticketOf(newVisitor(), 1))).StatusCode)
	require.Equal(t, 503, b.call("POST", "/_queue/sale/release", "", "X-Entry-Token: "+b.pass()).StatusCode)
	got := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+b.tickets.Seal("sale", ticketOf(newVisitor(), 1)))
	require.Equal(t, 200, got.StatusCode)
	require.EqualValues(t, 5, got.doc(t)["position"])
	require.Equal(t, "degraded", got.doc(t)["room_state"])
}

func TestLeaveClearsWhatTheRequestBrought(t *testing.T) {
	b := newBench(t)
	b.fill()
	ticket := b.navigate("/order").cookie("queuegate_ticket_sale").Value
	got := b.call("DELETE", "/_queue/sale", "", "Cookie: queuegate_ticket_sale="+ticket)
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "left", got.doc(t)["status"])
	require.Len(t, got.Cookies(), 1)
	require.Negative(t, got.Cookies()[0].MaxAge)
	require.Equal(t, "left", b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket).doc(t)["status"])
	bare := b.call("DELETE", "/_queue/sale", "")
	require.Equal(t, "not_entered", bare.doc(t)["status"])
	require.Empty(t, bare.Cookies())

	back := b.navigate("/order", "Cookie: queuegate_ticket_sale="+ticket)
	require.Equal(t, 429, back.StatusCode)
	opened, err := b.tickets.Open("sale", back.cookie("queuegate_ticket_sale").Value)
	require.NoError(t, err)
	old, err := b.tickets.Open("sale", ticket)
	require.NoError(t, err)
	require.NotEqual(t, old.Visitor, opened.Visitor, "whoever else has the old ticket has no part in it")
	require.Greater(t, opened.Place, old.Place, "a new stay begins at the end")
}

func TestChangesAskedForByAnotherSiteAreRefused(t *testing.T) {
	b := newBench(t)
	b.fill()
	ticket := b.navigate("/order").cookie("queuegate_ticket_sale").Value
	for _, line := range []string{"Origin: https://evil.test", "Origin: null", "Sec-Fetch-Site: cross-site"} {
		for _, target := range []string{"DELETE /_queue/sale", "POST /_queue/sale/join", "POST /_queue/sale/release"} {
			method, path, _ := strings.Cut(target, " ")
			got := b.call(method, path, "", line, "Cookie: queuegate_ticket_sale="+ticket)
			require.Equal(t, 403, got.StatusCode, target)
			require.Empty(t, got.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	require.Equal(t, 200, b.call("POST", "/_queue/sale/join", "", "Origin: https://shop.test").StatusCode)
}

func TestPollsWithoutEndGetTheLastAnswerAgain(t *testing.T) {
	now := time.Now()
	b := newBench(t, func(o *proxy.Options) { o.Now = func() time.Time { return now } })
	b.fill()
	ticket := b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	for range 20 {
		require.Equal(t, 200, b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket).StatusCode)
	}
	b.line.take()
	got := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket)
	require.Equal(t, 429, got.StatusCode)
	require.NotEmpty(t, got.Header.Get("Retry-After"))
	require.Equal(t, "waiting", got.doc(t)["status"])
	require.EqualValues(t, 1, got.doc(t)["position"])
	require.Empty(t, b.line.take())
	other := b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	require.Equal(t, 200, b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+other).StatusCode, "one visitor's flood is nobody else's")
	now = now.Add(100 * time.Millisecond)
	require.Equal(t, 200, b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket).StatusCode)
	require.Equal(t, 429, b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket).StatusCode)
	now = now.Add(time.Hour)
	for range 20 {
		require.Equal(t, 200, b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket).StatusCode)
	}
}

func TestRoomThatTakesNobody(t *testing.T) {
	for name, c := range map[string]struct {
		set       func(*fakeLine)
		status    string
		roomState string
		retry     bool
	}{
		"full":     {func(l *fakeLine) { l.full = true }, "full", "open", true},
		"closed":   {func(l *fakeLine) { l.state = queue.RoomClosed }, "not_entered", "closed", false},
		"sold out": {func(l *fakeLine) { l.state = queue.RoomSoldOut }, "not_entered", "sold_out", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.line.change(func() { c.set(b.line) })
			page := b.navigate("/order")
			require.Equal(t, 429, page.StatusCode)
			require.Equal(t, c.retry, page.Header.Get("Retry-After") != "")
			require.Empty(t, page.Header.Values("Set-Cookie"))
			call := b.call("POST", "/order", "{}")
			require.Equal(t, 429, call.StatusCode)
			require.Equal(t, c.retry, call.Header.Get("Retry-After") != "")
			for _, got := range []reply{call, b.call("POST", "/_queue/sale/join", "")} {
				require.Equal(t, c.status, got.doc(t)["status"])
				require.Equal(t, c.roomState, got.doc(t)["room_state"])
				require.NotContains(t, got.doc(t), "ticket")
				require.Nil(t, got.doc(t)["position"])
			}
			require.Empty(t, b.shop.requests())
		})
	}
}

func TestPageAtItsOwnAddress(t *testing.T) {
	b := newBench(t)
	b.fill()
	got := b.navigate("/_queue/sale?return=%2Forder%3Fid%3D7")
	require.Equal(t, 429, got.StatusCode)
	require.Contains(t, got.text, "/order?id=7")
	ticket := got.cookie("queuegate_ticket_sale").Value
	b.line.setSlots(1)
	turn := b.navigate("/_queue/sale?return=%2Forder%3Fid%3D7", "Cookie: queuegate_ticket_sale="+ticket)
	require.Equal(t, 303, turn.StatusCode)
	require.Equal(t, "/order?id=7", turn.Header.Get("Location"))
	entry := turn.cookie("queuegate_entry_sale").Value
	seq := b.line.seq
	again := b.navigate("/_queue/sale", "Cookie: queuegate_entry_sale="+entry)
	require.Equal(t, 303, again.StatusCode)
	require.Equal(t, "/order", again.Header.Get("Location"))
	require.Equal(t, seq, b.line.seq, "a live pass makes no new entry")

	b.call("POST", "/_queue/sale/release", "", "X-Entry-Token: "+entry)
	over := b.navigate("/_queue/sale", "Cookie: queuegate_entry_sale="+entry+"; queuegate_ticket_sale="+ticket)
	require.Equal(t, 429, over.StatusCode)
	require.Equal(t, seq, b.line.seq, "no new stay without a click")
	require.Contains(t, over.text, `data-state="ended"`)
}

func TestReturnNeverLeadsAway(t *testing.T) {
	b := newBench(t)
	entry := b.call("GET", "/order", "").Header.Get("X-Entry-Token")
	for back, want := range map[string]string{
		"%2F%2Fevil.test": "/order", "%2F%5Cevil.test": "/order", "%2F%2509%2Fevil.test": "/order", "%2F%09%2Fevil.test": "/order",
		"https%3Aevil.test": "/order", "https%3A%2F%2Fevil.test": "/order", "javascript%3Aalert(1)": "/order", "http%3A%2F%2Fshop.test%40evil.test": "/order",
		"%2F%2F%2Fevil.test": "/order", "%2F..%2F%2Fevil.test": "/order", "%2F%252f%252fevil.test": "/order", "%2Fx%0D%0AX-Evil%3A1": "/order",
		"%2Fx%250d%250aX-Evil%3A1": "/order", "%2F%255cevil.test": "/order", "": "/order", "evil": "/order", "%2F_queue%2Fsale": "/order", "%2F_QUEUE%2Fsale": "/order",
		"%2Forder%3Fnext%3Dhttps%3A%2F%2Fshop.example%2Fa%257Cb%26x%3D%2F%2Fy": "/order?next=https://shop.example/a%7Cb&x=//y",
		"%2Forder%2Fitem%3Fid%3D7%26c%3Da%2520b%2Bc%23seat":                    "/order/item?id=7&c=a%20b+c#seat",
	} {
		got := b.navigate("/_queue/sale?return="+back, "Cookie: queuegate_entry_sale="+entry)
		require.Equal(t, 303, got.StatusCode, back)
		require.Equal(t, want, got.Header.Get("Location"), back)
		require.Empty(t, got.Header.Get("X-Evil"))
	}
}

func TestPageReflectsNothing(t *testing.T) {
	b := newBench(t)
	b.fill()
	for _, target := range []string{`/order/"><svg/onload=1>`, `/order?"><script>alert(1)</script>`, `/order?</script><script>`, `/_queue/sale?return=/order/"><svg>`} {
		got := b.navigate(target, `X-Forwarded-Host: "><script>`, `User-Agent: "><script>`, `Referer: http://shop.test/"><script>`)
		if got.StatusCode == 400 {
			continue
		}
		require.Equal(t, 429, got.StatusCode, target)
		require.NotContains(t, got.text, `"><s`, target)
		require.NotContains(t, got.text, `</script><script>`, target)
		require.NotEmpty(t, got.Header.Get("Content-Security-Policy"))
	}
}

func TestTicketOfBeforeAResetIsExpired(t *testing.T) {
	b := newBench(t)
	b.fill()
	ticket := b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	b.line.change(func() { b.line.generation = 2; b.line.stays = map[string]*stay{}; b.line.line = nil })
	require.Equal(t, "expired", b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket).doc(t)["status"])
	got := b.call("GET", "/order", "", "X-Queue-Ticket: "+ticket).doc(t)
	require.Equal(t, "waiting", got["status"], "the protected route joins again")
}

func TestRoomsDoNotMix(t *testing.T) {
	b := newBench(t)
	b.fill()
	sale := b.navigate("/order").cookie("queuegate_ticket_sale").Value
	got := b.navigate("/drop", "Cookie: queuegate_ticket_sale="+sale)
	require.Equal(t, 200, got.StatusCode)
	require.NotNil(t, got.cookie("queuegate_entry_drop"))
	require.Equal(t, 429, b.call("GET", "/order", "", "X-Entry-Token: "+got.cookie("queuegate_entry_drop").Value).StatusCode)
}

func TestAccessRecordTellsTheDecisionAndNeverASecret(t *testing.T) {
	b := newBench(t)
	raw := b.admit()
	b.fill()
	ticket := b.call("GET", "/order/%1b[31m?q=secretquery", "").Header.Get("X-Queue-Ticket")
	require.Empty(t, ticket, "an encoded control byte is refused")
	ticket = b.call("GET", "/order/x?q=secretquery", "").Header.Get("X-Queue-Ticket")
	b.call("GET", "/order", "", "X-Entry-Token: "+raw, "Cookie: queuegate_ticket_sale="+ticket)
	b.do("GET", "/caf\xe9\xc2\x9b", "")
	b.server.Close()
	log := b.log.String()
	for _, part := range []string{`"decision":"proxied"`, `"reason":"pass"`, `"reason":"newcomer"`, `"room":"sale"`, `"client_ip":"127.0.0.1"`, `"status":429`, `"path":"/order/x"`, `"visitor":"`, `caf\\xe9\\u009b`} {
		require.Contains(t, log, part)
	}
	p, err := b.passes.Verify(raw, "sale")
	require.NoError(t, err)
	for _, secret := range []string{raw, ticket, p.Visitor, "secretquery"} {
		require.NotContains(t, log, secret)
	}
	require.Equal(t, strings.Count(log, "\n"), strings.Count(log, `"msg":"request"`), "one record a request and nothing else")
}

func TestUnknownHostIsNoWayAround(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) {
		o.Rooms[0].Protect = []route.Rule{{Paths: []string{"/order"}, Hosts: []string{"shop.test"}}}
	})
	b.fill()
	for _, host := range []string{"shop.test", "SHOP.TEST.", "shop.test:8080", "other.test", ""} {
		require.Equal(t, 429, b.do("GET", "/order", "", "Host: "+host).StatusCode, host)
	}
	require.Empty(t, b.shop.requests())
}

func TestLineIsToldAllThatTicketAndTokenProve(t *testing.T) {
	b := newBench(t)
	b.fill()
	k := ticketOf(newVisitor(), 9)
	k.Epoch, k.Seen, k.Due, k.Joined = 3, 100, 200, time.UnixMilli(1).UTC()
	raw := b.tickets.Seal("sale", k)
	b.call("GET", "/order", "", "X-Queue-Ticket: "+raw)
	require.Equal(t, []queue.Sign{{
		Visitor: k.Visitor, Place: 9, Generation: 1, Epoch: 3, Seen: 100, Due: 200, Ahead: 4, Joined: k.Joined,
	}}, b.line.signs)

	var p pass
	token := b.pass(func(q *pass) { q.Place, q.Epoch, q.End = 12, 4, b.line.now.UnixMilli(); p = *q })
	b.line.change(func() { b.line.ended[key(k.Visitor, 9)] = queue.Left })
	b.call("GET", "/order", "", "X-Queue-Ticket: "+raw, "X-Entry-Token: "+token)
	require.Equal(t, []queue.Holding{{
		Visitor: p.Visitor, Admission: "adm1", Place: 12, Generation: 1, Epoch: 4, Active: true, End: p.End,
	}}, b.line.holdings)
	require.Len(t, b.line.arrivals, 1)
	require.EqualValues(t, 12, b.line.arrivals[0].Highest)
	require.NotEqual(t, k.Visitor, b.line.arrivals[0].Visitor)
}

// The sign of life in a ticket counts in the ticket's epoch: taken over into the next
// one it would look as if that had lost something, too.
func TestATicketOfALostEpochBringsNoSignOfLifeIntoTheNext(t *testing.T) {
	b := newBench(t)
	k := ticketOf(newVisitor(), 9)
	k.Epoch, k.Seen, k.Due = 1, 100, 200
	b.line.change(func() {
		b.line.epoch = 2
		b.line.stays[k.Visitor] = &stay{place: 9, state: queue.Ready, lease: queue.Lease{
			Admission: "adm1", Place: 9, End: b.line.now.Add(time.Minute).UnixMilli(), Until: b.line.now.Add(time.Minute),
		}}
	})
	got := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+b.tickets.Seal("sale", k)).doc(t)
	require.Equal(t, "ready", got["status"])
	fresh, err := b.tickets.Open("sale", got["ticket"].(string))
	require.NoError(t, err)
	require.EqualValues(t, 2, fresh.Epoch)
	require.Zero(t, fresh.Seen)
	require.EqualValues(t, b.line.now.Add(time.Minute).UnixMilli(), fresh.Due, "until then the place is proven")
}

// Who is known to be over is told so without a question to Redis, and while it is away.
func TestAStayThatIsKnownToBeOverIsToldWithoutRedis(t *testing.T) {
	b := newBench(t)
	for why, status := range map[queue.Why]string{queue.Left: "left", queue.Released: "released", queue.Expired: "expired"} {
		k := ticketOf(newVisitor(), 9)
		b.line.change(func() { b.line.ended[key(k.Visitor, 9)] = why })
		b.line.take()
		for _, away := range []bool{false, true} {
			if away {
				b.line.lose()
			}
			got := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+b.tickets.Seal("sale", k)).doc(t)
			require.Equal(t, status, got["status"], "%s, Redis away: %v", why, away)
			require.Empty(t, b.line.take(), "%s", why)
			b.line.heal()
		}
	}
}

// The line counts a pass that nobody took up against who heard of it, and knows that by
// the ticket that they come back with: the one that went out with the pass is due at its
// end, whatever was due before, and no other one is.
func TestTheTicketThatGoesWithAPassIsDueAtItsEnd(t *testing.T) {
	b := newBench(t)
	b.fill()
	waiting := ticketOf(newVisitor(), 9)
	raw := b.tickets.Seal("sale", waiting)
	answered := func(want string) token.Ticket {
		got := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+raw).doc(t)
		require.Equal(t, want, got["status"])
		k, err := b.tickets.Open("sale", got["ticket"].(string))
		require.NoError(t, err)
		require.Equal(t, waiting.Place, k.Place)
		return k
	}
	in := answered("waiting")
	end := b.line.now.Add(90 * time.Second)
	b.line.change(func() {
		b.line.stays[waiting.Visitor] = &stay{place: 9, state: queue.Ready, lease: queue.Lease{
			Admission: "adm1", Place: 9, End: end.UnixMilli(), Until: end,
		}}
	})
	told := answered("ready")
	require.Equal(t, end.UnixMilli(), told.Due)
	require.NotEqual(t, in.Due, told.Due)
	require.Equal(t, waiting.Ahead, told.Ahead, "the number shown before is kept")
	b.line.lose()
	require.NotEqual(t, end.UnixMilli(), answered("waiting").Due, "nobody was told of the pass")
}

func TestLeaveGivesUpPassAndPlaceAlsoOfTwo(t *testing.T) {
	b := newBench(t)
	entry := b.navigate("/order").cookie("queuegate_entry_sale").Value
	ticket := b.navigate("/order").cookie("queuegate_ticket_sale").Value
	got := b.call("DELETE", "/_queue/sale", "", "Cookie: queuegate_entry_sale="+entry+"; queuegate_ticket_sale="+ticket)
	require.Equal(t, "left", got.doc(t)["status"])
	require.Len(t, got.Cookies(), 2)
	require.Empty(t, b.line.stays)
}
