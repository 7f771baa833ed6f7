package proxy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/openapi/openapitest"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// described is a bench that holds what the gate says in place of the shop against the
// description, too.
type described struct {
	*bench
	contract *openapitest.Contract
}

func (d described) call(method, target, body string, lines ...string) reply {
	d.t.Helper()
	got := d.bench.call(method, target, body, lines...)
	if strings.HasPrefix(target, "/order") {
		schema := map[string]string{"application/problem+json": "Problem", "application/json": "Refusal"}[got.Header.Get("Content-Type")]
		d.contract.Value(d.t, "/components/schemas/"+schema, []byte(got.text))
	}
	return got
}

// brittleLine has a fault in all it does.
type brittleLine struct{ proxy.Line }

func (brittleLine) Join(context.Context, queue.Arrival) (queue.Standing, error) { panic("a fault") }
func (brittleLine) Touch(context.Context, queue.Sign) (queue.Standing, error)   { panic("a fault") }
func (brittleLine) Reckon(queue.Sign) (queue.Standing, bool)                    { panic("a fault") }
func (brittleLine) Claim(context.Context, queue.Holding) (queue.Standing, error) {
	panic("a fault")
}
func (brittleLine) Leave(context.Context, queue.Holding) (queue.Standing, error) {
	panic("a fault")
}
func (brittleLine) Release(context.Context, queue.Holding) (queue.Standing, error) {
	panic("a fault")
}

// An app is written by the description, so it says all that is true, and nothing else:
// answers it does not describe fail here, and so do promises that no answer keeps.
func TestTheDescriptionIsWhatTheGateAnswers(t *testing.T) {
	contract, err := contract()
	require.NoError(t, err)
	for name, journey := range map[string]func(t *testing.T, start func(...func(*proxy.Options)) described){
		"a stay":          describedStay,
		"no place":        describedNoPlace,
		"mistakes":        describedMistakes,
		"haste":           describedHaste,
		"faults":          describedFaults,
		"Redis away":      describedOutage,
		"the page":        describedPage,
		"front proxies":   describedFront,
		"streams":         describedStreams,
		"orders":          describedOrders,
		"files":           describedFiles,
		"a room in words": describedRoom,
	} {
		t.Run(name, func(t *testing.T) {
			journey(t, func(change ...func(*proxy.Options)) described { return described{newBench(t, change...), contract} })
		})
	}
	if !t.Failed() { // else what was not reached says nothing
		require.Empty(t, contract.Unseen(), "the description promises what no answer keeps")
	}
}

func TestTheDescriptionNamesTheReservedPathOfTheGate(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Prefix = "/wait/here" })
	got := b.do("GET", "/wait/here/openapi.yaml", "")
	require.Equal(t, "application/yaml", got.Header.Get("Content-Type"))
	_, err := openapitest.New([]byte(got.text), "/wait/here")
	require.NoError(t, err)
	require.NotContains(t, got.text, "/_queue")
}

func describedStay(t *testing.T, start func(...func(*proxy.Options)) described) {
	b := start()
	require.Equal(t, "not_entered", b.call("GET", "/_queue/sale/status", "").doc(t)["status"])
	first := b.call("POST", "/_queue/sale/join", `{"return_to":"/order?size=1"}`)
	require.Equal(t, "ready", first.doc(t)["status"])
	pass := "X-Entry-Token: " + first.doc(t)["entry_token"].(string)
	b.call("GET", "/_queue/sale/status", "", pass)
	active := "X-Entry-Token: " + b.bench.call("GET", "/order", "", pass).Header.Get("X-Entry-Token")
	require.Equal(t, "active", b.call("GET", "/_queue/sale/status", "", active).doc(t)["status"])

	ticket := "X-Queue-Ticket: " + b.call("POST", "/_queue/sale/join", "", "Idempotency-Key: 0123456789abcdef").doc(t)["ticket"].(string)
	require.Equal(t, "waiting", b.call("GET", "/_queue/sale/status", "", ticket).doc(t)["status"])
	require.Equal(t, 429, b.call("POST", "/order", "{}", ticket).StatusCode)
	next := "X-Queue-Ticket: " + b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	require.Equal(t, "released", b.call("POST", "/_queue/sale/release", "", active, "Cookie: queuegate_entry_sale=x").doc(t)["status"])
	require.Equal(t, "ready", b.call("GET", "/_queue/sale/status", "", ticket).doc(t)["status"])
	require.Equal(t, "left", b.call("DELETE", "/_queue/sale", "", ticket, "Cookie: queuegate_ticket_sale=x").doc(t)["status"])
	require.Equal(t, "left", b.call("GET", "/_queue/sale/status", "", ticket).doc(t)["status"])
	b.line.change(func() { b.line.generation++ })
	require.Equal(t, "expired", b.call("GET", "/_queue/sale/status", "", next).doc(t)["status"])
	b.do("HEAD", "/_queue/sale/status", "")
}

func describedNoPlace(t *testing.T, start func(...func(*proxy.Options)) described) {
	b := start()
	b.fill()
	b.line.change(func() { b.line.full = true })
	require.Equal(t, "full", b.call("POST", "/_queue/sale/join", "").doc(t)["status"])
	require.Equal(t, 429, b.call("GET", "/order", "").StatusCode)
	b.line.change(func() { b.line.full = false })
	for _, state := range []queue.RoomState{queue.RoomClosed, queue.RoomSoldOut} {
		b.line.change(func() { b.line.state = state })
		require.Equal(t, string(state), b.call("POST", "/_queue/sale/join", "").doc(t)["room_state"])
		require.Equal(t, 429, b.call("GET", "/order", "").StatusCode)
	}
	require.Equal(t, "not_entered", b.call("POST", "/_queue/sale/release", "").doc(t)["status"])
}

func describedRoom(t *testing.T, start func(...func(*proxy.Options)) described) {
	b := start(func(o *proxy.Options) {
		o.Rooms = append(o.Rooms, proxy.Room{Name: "off", Protect: o.Rooms[0].Protect[:0:0], Suspended: true})
		o.Rooms[2].Protect = append(o.Rooms[2].Protect, o.Rooms[1].Protect[0])
		o.Rooms[2].Protect[0].Paths = []string{"/off"}
	})
	b.fill()
	ticket := "X-Queue-Ticket: " + b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	b.line.change(func() { b.line.settings.Message, b.line.settings.Stock = "Doors at nine.", new(int64(12)) })
	for _, state := range []queue.RoomState{queue.Paused, queue.QueueAll, queue.Open} {
		b.line.change(func() { b.line.state = state })
		told := b.call("GET", "/_queue/sale/status", "", ticket).doc(t)
		require.Equal(t, string(state), told["room_state"])
		require.Equal(t, "Doors at nine.", told["message"])
		require.EqualValues(t, 12, told["remaining_stock"])
	}
	require.Equal(t, "suspended", b.call("GET", "/_queue/off/status", "").doc(t)["room_state"])
}

func describedMistakes(t *testing.T, start func(...func(*proxy.Options)) described) {
	b := start()
	b.call("POST", "/_queue/sale/join", `{"to":"/order"}`)
	b.call("POST", "/_queue/sale/join", "", "Idempotency-Key: short")
	require.Equal(t, 413, b.call("POST", "/_queue/sale/join", strings.Repeat(" ", 17<<10)).StatusCode)
	const elsewhere = "Origin: https://other.example"
	require.Equal(t, 403, b.call("DELETE", "/_queue/sale", "", elsewhere).StatusCode)
	for _, end := range []string{"", "/join", "/status", "/events", "/ws", "/release"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			require.Equal(t, 404, b.call(method, "/_queue/nosuch"+end, "").StatusCode)
		}
		require.Equal(t, 405, b.call("PUT", "/_queue/sale"+end, "").StatusCode)
		b.call("POST", "/_queue/sale"+end, "", elsewhere)
		b.call("GET", "/_queue/sale"+end, "", elsewhere)
	}
	require.Equal(t, 405, b.do("HEAD", "/_queue/sale/events", "").StatusCode)
	for _, path := range []string{"/_queue", "/_queue/sale/", "/_queue/sale/nosuch", "/_queue/jwks.json"} {
		require.Equal(t, 404, b.call("GET", path, "").StatusCode, path)
	}
	require.Equal(t, 409, b.call("GET", "/_queue/sale/events", "").StatusCode)
	require.Equal(t, 409, b.call("GET", "/_queue/sale/ws", "", offersSocket...).StatusCode)
	require.Equal(t, 426, b.call("GET", "/_queue/sale/ws", "").StatusCode)
}

func describedHaste(t *testing.T, start func(...func(*proxy.Options)) described) {
	clock := &movedClock{now: time.Now()} // stands still
	b := start(func(o *proxy.Options) { o.JoinLimit, o.Now = proxy.JoinLimit{PerMinute: 1}, clock.Now })
	b.fill()
	ticket := "X-Queue-Ticket: " + b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	limited := b.call("POST", "/_queue/sale/join", "")
	require.Equal(t, "urn:queuegate:problem:join-limit", limited.doc(t)["type"])
	for range 20 {
		b.call("GET", "/_queue/sale/status", "", ticket)
	}
	for _, target := range []string{"GET status", "POST join", "GET events", "GET ws"} {
		method, end, _ := strings.Cut(target, " ")
		lines := []string{ticket}
		if end == "ws" {
			lines = append(lines, offersSocket...)
		}
		require.Equal(t, 429, b.call(method, "/_queue/sale/"+end, "", lines...).StatusCode, target)
	}
}

func describedFaults(t *testing.T, start func(...func(*proxy.Options)) described) {
	whole := start(trustLoopback)
	ready := "X-Entry-Token: " + whole.call("POST", "/_queue/sale/join", "").doc(t)["entry_token"].(string)
	whole.fill()
	ticket := "X-Queue-Ticket: " + whole.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	b := start(trustLoopback, func(o *proxy.Options) { o.Rooms[0].Line = brittleLine{o.Rooms[0].Line} })
	for _, target := range []string{"POST join", "GET status", "GET events", "GET ws"} {
		method, end, _ := strings.Cut(target, " ")
		lines := []string{ticket}
		if end == "ws" {
			lines = append(lines, offersSocket...)
		}
		require.Equal(t, 500, b.call(method, "/_queue/sale/"+end, "", lines...).StatusCode, target)
	}
	require.Equal(t, 500, b.call("GET", "/_queue/sale", "").StatusCode)
	require.Equal(t, 500, b.call("DELETE", "/_queue/sale", "", ticket).StatusCode)
	require.Equal(t, 500, b.call("POST", "/_queue/sale/release", "", ready).StatusCode)
	require.Equal(t, 500, b.call("GET", "/_queue/auth", "", ready, "X-Original-Uri: /order", "X-Original-Method: GET").StatusCode)
}

func describedOutage(t *testing.T, start func(...func(*proxy.Options)) described) {
	b := start(members)
	pass := "X-Entry-Token: " + b.call("POST", "/_queue/sale/join", "").doc(t)["entry_token"].(string)
	ticket := "X-Queue-Ticket: " + b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	b.line.lose()
	require.Equal(t, "degraded", b.call("GET", "/_queue/sale/status", "", ticket).doc(t)["room_state"])
	for _, c := range []struct{ method, end, line string }{
		{"POST", "/join", bob}, {"GET", "/status", bob}, {"GET", "", bob}, {"DELETE", "", ticket}, {"POST", "/release", pass},
	} {
		require.Equal(t, 503, b.call(c.method, "/_queue/sale"+c.end, "", c.line).StatusCode, c.end)
	}
	require.Equal(t, 503, b.navigate("/_queue/sale").StatusCode)
	require.Equal(t, 503, b.call("GET", "/order", "").StatusCode)
}

func describedPage(t *testing.T, start func(...func(*proxy.Options)) described) {
	b := start()
	require.Equal(t, 303, b.navigate("/_queue/sale?return=/order").StatusCode)
	b.line.setSlots(2)
	require.NotEmpty(t, b.call("GET", "/_queue/sale?return=/order", "").Header.Get("X-Entry-Token"))
	b.fill()
	joined := b.navigate("/_queue/sale")
	require.Equal(t, 429, joined.StatusCode)
	b.call("GET", "/_queue/sale", "")
	b.do("HEAD", "/_queue/sale", "")
	b.do("GET", "/_queue/sale", "", "Sec-Purpose: prefetch")
	b.do("GET", "/_queue/sale", "", offersSocket...)
	b.line.setSlots(3)
	turn := b.navigate("/_queue/sale", "X-Queue-Ticket: "+joined.Header.Get("X-Queue-Ticket"))
	require.Equal(t, 303, turn.StatusCode)
	b.line.change(func() { b.line.full = true })
	b.fill()
	require.Equal(t, "urn:queuegate:problem:full", b.call("GET", "/_queue/sale", "").doc(t)["type"])
	for _, state := range []queue.RoomState{queue.RoomClosed, queue.RoomSoldOut} {
		b.line.change(func() { b.line.state, b.line.full = state, false })
		b.call("GET", "/_queue/sale", "")
	}
}

func describedFront(t *testing.T, start func(...func(*proxy.Options)) described) {
	b := start(trustLoopback)
	require.Equal(t, 403, start().call("GET", "/_queue/auth", "").StatusCode)
	require.Equal(t, 403, b.call("GET", "/_queue/auth", "").StatusCode)
	nginx := []string{"X-Original-Uri: /order", "X-Original-Method: GET"}
	traefik := []string{"X-Forwarded-Uri: /order", "X-Forwarded-Method: GET", "X-Forwarded-Host: shop.test"}
	pass := b.call("POST", "/_queue/sale/join", "").doc(t)["entry_token"].(string)
	for _, asks := range [][]string{nginx, traefik} {
		b.call("GET", "/_queue/auth", "", asks...)
		b.navigate("/_queue/auth", asks...)
		b.do("GET", "/_queue/auth", "", append(asks, "Sec-Fetch-Mode: websocket")...)
		require.Equal(t, 200, b.call("GET", "/_queue/auth", "", append(asks, "X-Entry-Token: "+pass)...).StatusCode)
	}
	b.line.lose()
	require.Equal(t, 401, b.call("GET", "/_queue/auth", "", nginx...).StatusCode)
}

func describedOrders(t *testing.T, start func(...func(*proxy.Options)) described) {
	b := start(consuming, func(o *proxy.Options) { o.Rooms[0].MaxInFlight = 1 })
	b.line.setSlots(2)
	pass, other := "X-Entry-Token: "+b.admit(), "X-Entry-Token: "+b.admit()
	arrived, answer := make(chan struct{}), make(chan struct{})
	b.shop.does(func(_ shopRequest, c net.Conn) {
		close(arrived)
		b.shop.hold(answer)
		_, _ = io.WriteString(c, "HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	ordered := make(chan int, 1)
	go func() { ordered <- b.bench.call("POST", "/order/pay", "{}", pass).StatusCode }()
	receive(t, arrived)
	require.Equal(t, "urn:queuegate:problem:order-under-way", b.call("POST", "/order/pay", "{}", pass).doc(t)["type"])
	require.Equal(t, "urn:queuegate:problem:busy", b.call("GET", "/order", "", other).doc(t)["type"])
	close(answer)
	require.Equal(t, 201, receive(t, ordered))
	require.Equal(t, "urn:queuegate:problem:already-used", b.call("POST", "/order/pay", "{}", pass).doc(t)["type"])
	b.shop.hangUp()
	require.Equal(t, 502, b.call("GET", "/order", "", other).StatusCode)
}

func describedFiles(t *testing.T, start func(...func(*proxy.Options)) described) {
	ed, err := token.New(token.Options{Issuer: "test", PrivateKey: ed25519.NewKeyFromSeed([]byte(secret))})
	require.NoError(t, err)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	es, err := token.New(token.Options{Issuer: "test", PrivateKey: private})
	require.NoError(t, err)
	for _, passes := range []*token.Authority{ed, es} {
		b := start(func(o *proxy.Options) { o.Passes = passes })
		for _, file := range []string{"jwks.json", "openapi.yaml", "queue.js"} {
			got := b.do("GET", "/_queue/"+file, "")
			require.Equal(t, 200, got.StatusCode)
			again := b.do("GET", "/_queue/"+file, "", "If-None-Match: "+got.Header.Get("Etag"))
			require.Equal(t, 304, again.StatusCode)
			require.Equal(t, 405, b.do("POST", "/_queue/"+file, "").StatusCode)
		}
	}
}

func describedStreams(t *testing.T, start func(...func(*proxy.Options)) described) {
	b := start(func(o *proxy.Options) { o.MaxStreams = 4 })
	ready := "X-Entry-Token: " + b.call("POST", "/_queue/sale/join", "").doc(t)["entry_token"].(string)
	b.do("GET", "/_queue/sale/events", "", ready) // the last event at once
	b.fill()
	var waiting [4]string
	for i := range waiting {
		waiting[i] = b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	}
	b.call("DELETE", "/_queue/sale", "", "X-Queue-Ticket: "+waiting[0]) // the others move up
	for _, kind := range []string{"events", "ws"} {
		b.follow(kind, waiting[3])
	}
	b.line.setSlots(3)
	b.do("GET", "/_queue/sale/events", "", "X-Queue-Ticket: "+waiting[1])
	require.Equal(t, "ready", receive(t, b.follow("ws", waiting[2])))
	b.fill()
	for i := range waiting {
		waiting[i] = b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	}
	b.line.change(func() { b.line.far = true })

	messages := b.follow("ws", waiting[0])
	b.follow("events", waiting[1])
	b.call("DELETE", "/_queue/sale", "", "X-Queue-Ticket: "+waiting[2])
	for _, end := range []string{"events", "ws"} { // four is as many as may be
		got := b.do("GET", "/_queue/sale/"+end, "", append(offersSocket, "X-Queue-Ticket: "+waiting[3])...)
		require.Equal(t, 503, got.StatusCode)
	}
	seen := map[string]bool{}
	until := func(kinds ...string) {
		for _, kind := range kinds {
			for !seen[kind] {
				next := receive(t, messages)
				require.NotEmpty(t, next, "no %s before the end", kind)
				seen[next] = true
			}
		}
	}
	until("update", "ping")
	b.line.change(func() { b.line.state = queue.Paused })
	until("state")
	b.gate.CloseStreams()
	until("closed")
}

// follow opens a stream and holds all of it against the description. The kinds of
// its messages come over the channel until it ends.
func (d described) follow(kind, ticket string) <-chan string {
	d.t.Helper()
	conn, r, resp := openStream(d.t, d.server.Listener.Addr().String(), kind, ticket)
	d.contract.Check(d.t, openapitest.Exchange{Method: "GET", Path: "/_queue/sale/" + kind, Status: resp.StatusCode, Header: resp.Header})
	kinds := make(chan string, 100)
	go func() {
		defer close(kinds)
		defer conn.Close()
		for {
			text, err := r.ReadString('}') // of a message, and no other stands in it
			if err != nil {
				return
			}
			_, text, _ = strings.Cut(text, "{")
			text = "{" + text
			if kind == "ws" {
				d.contract.Value(d.t, "/components/schemas/Message", []byte(text))
				kinds <- strings.Split(text, `"`)[3]
			} else {
				d.contract.Events(d.t, []byte("data: "+text))
				kinds <- "event"
			}
		}
	}()
	return kinds
}
