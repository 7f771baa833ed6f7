package proxy_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// deepLine is a line in which everybody stands far back, with as many ahead as the
// test says.
type deepLine struct {
	*fakeLine
	ahead atomic.Int64
}

func (l *deepLine) where(s queue.Sign) queue.Standing {
	st := queue.Standing{
		Visitor: s.Visitor, State: queue.Waiting, Place: s.Place, Ahead: l.ahead.Load(), Waiting: 50_000, Poll: 20 * time.Second,
		Seen: 1, Due: 1,
	}
	st.Room = queue.Room{State: queue.Open, Generation: s.Generation, Epoch: s.Epoch, Waiting: 50_000}
	return st
}

func (l *deepLine) Touch(_ context.Context, s queue.Sign) (queue.Standing, error) {
	return l.where(s), nil
}
func (l *deepLine) Look(_ context.Context, s queue.Sign) (queue.Standing, error) {
	return l.where(s), nil
}
func (l *deepLine) Reckon(s queue.Sign) (queue.Standing, bool) {
	st := l.where(s)
	st.Seen, st.Due = 0, s.Due // nothing is recorded
	return st, true
}
func (l *deepLine) Glance(s queue.Sign) (queue.Standing, bool)        { return l.where(s), true }
func (l *deepLine) Hints(ctx context.Context, _ func([]string)) error { <-ctx.Done(); return ctx.Err() }

// newDeepBench is a gate before a deep line.
func newDeepBench(t testing.TB, change ...func(*proxy.Options)) (*bench, *deepLine) {
	line := &deepLine{}
	line.ahead.Store(40_000)
	b := newBench(t, append(change, func(o *proxy.Options) {
		line.fakeLine = o.Rooms[0].Line.(*fakeLine)
		o.Rooms[0].Line = line
	})...)
	return b, line
}

// ticketFor is the ticket of somebody in line.
func (b *bench) ticketFor(place int64) string {
	return b.tickets.Seal("sale", token.Ticket{Visitor: token.NewVisitor(), Place: place, Generation: 1, Epoch: 1, Seen: 1, Due: 1, Ahead: 50_000})
}

// offersSocket are the header lines of a WebSocket handshake.
var offersSocket = []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}

// openStream opens a stream and returns its connection behind the head of the answer.
func openStream(t testing.TB, addr, kind, ticket string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(2*soon))) // a stream never ends by itself
	lines := []string{"X-Queue-Ticket: " + ticket}
	if kind == "ws" {
		lines = append(lines, offersSocket...)
	}
	_, err = io.WriteString(conn, raw("GET", "/_queue/sale/"+kind, "", lines...))
	require.NoError(t, err)
	r := bufio.NewReaderSize(conn, 1024)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	return conn, r, resp
}

func TestStreamsAreRefusedWithAReason(t *testing.T) {
	b, _ := newDeepBench(t, func(o *proxy.Options) { o.AllowOrigins = []string{"https://friend.example"} })
	ticket := "X-Queue-Ticket: " + b.ticketFor(5)
	for _, tc := range []struct {
		name, method, target string
		lines                []string
		status               int
		problem              string
	}{
		{"no ticket", "GET", "events", nil, 409, "no-place"},
		{"a ticket that is none", "GET", "events", []string{"X-Queue-Ticket: nonsense"}, 409, "no-place"},
		{"no ticket, WebSocket", "GET", "ws", offersSocket, 409, "no-place"},
		{"a wrong method", "POST", "events", []string{ticket}, 405, "method-not-allowed"},
		{"another site", "GET", "events", []string{ticket, "Origin: https://evil.example"}, 403, "cross-site"},
		{"another site, WebSocket", "GET", "ws", append([]string{ticket, "Origin: https://evil.example"}, offersSocket...), 403, "cross-site"},
		{"a page without an origin", "GET", "ws", append([]string{ticket, "Origin: null"}, offersSocket...), 403, "cross-site"},
		{"another site by what the browser says", "GET", "events", []string{ticket, "Sec-Fetch-Site: cross-site"}, 403, "cross-site"},
		{"no handshake", "GET", "ws", []string{ticket}, 426, "upgrade-required"},
		{"a handshake of another version", "GET", "ws", append([]string{ticket, "Sec-WebSocket-Version: 8"}, offersSocket[:2]...), 426, "upgrade-required"},
		{"a short key", "GET", "ws", append([]string{ticket, "Sec-WebSocket-Key: c2hvcnQ="}, offersSocket[:3]...), 426, "upgrade-required"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := b.do(tc.method, "/_queue/sale/"+tc.target, "", tc.lines...)
			require.Equal(t, tc.status, got.StatusCode, got.text)
			require.Equal(t, "application/problem+json", got.Header.Get("Content-Type"))
			require.Equal(t, "urn:queuegate:problem:"+tc.problem, got.doc(t)["type"])
		})
	}
	require.Equal(t, 405, b.do("HEAD", "/_queue/sale/events", "", ticket).StatusCode)
	for _, origin := range []string{"http://shop.test", "https://friend.example"} {
		conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, raw("GET", "/_queue/sale/events", "", ticket, "Origin: "+origin))
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode, origin)
	}
	b.gate.CloseStreams()
}

func TestBeyondTheCapNewStreamsAreRefusedAndNoneIsEvicted(t *testing.T) {
	b, line := newDeepBench(t, func(o *proxy.Options) { o.MaxStreams = 2 })
	addr := b.server.Listener.Addr().String()
	first, r, _ := openStream(t, addr, "events", b.ticketFor(1))
	defer first.Close()
	second, _, _ := openStream(t, addr, "ws", b.ticketFor(2))
	for place := range int64(20) {
		got := b.do("GET", "/_queue/sale/events", "", "X-Queue-Ticket: "+b.ticketFor(3+place))
		require.Equal(t, 503, got.StatusCode)
		require.NotEmpty(t, got.Header.Get("Retry-After"))
		require.Equal(t, "urn:queuegate:problem:streams-full", got.doc(t)["type"])
	}
	line.ahead.Store(20_000)
	awaitText(t, r, `"ahead":20000`)
	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { // its place is free again
		conn, _, resp := openStream(t, addr, "events", b.ticketFor(50))
		defer conn.Close()
		return resp.StatusCode == 200
	}, time.Minute, 50*time.Millisecond)
	b.gate.CloseStreams()
	require.Equal(t, 503, b.do("GET", "/_queue/sale/events", "", "X-Queue-Ticket: "+b.ticketFor(60)).StatusCode)
}

// awaitText reads until a line holds text.
func awaitText(t testing.TB, r *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		if strings.Contains(line, text) {
			return
		}
	}
}

func TestAWaitingStreamTakesLittleMemory(t *testing.T) {
	for _, tc := range []struct {
		kind string
		most int64
	}{{"events", 6 << 10}, {"ws", 20 << 10}} {
		t.Run(tc.kind, func(t *testing.T) {
			const n = 2000
			b, line := newDeepBench(t)
			before := inUse()
			conns := make([]net.Conn, n)
			for i := range conns {
				conn, _, resp := openStream(t, b.server.Listener.Addr().String(), tc.kind, b.ticketFor(int64(i+1)))
				require.Contains(t, []int{101, 200}, resp.StatusCode)
				conns[i] = conn
			}
			line.ahead.Store(30_000)
			for _, conn := range conns {
				require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
				awaitText(t, bufio.NewReaderSize(untilNumber{conn}, 4096), "30000")
			}
			// Signed: what tests before this one left may go meanwhile.
			each := (int64(inUse()) - int64(before)) / n
			t.Logf("%d bytes for each of %d streams, the client's end of the connection counted", each, n)
			require.Less(t, each, tc.most)
			b.gate.CloseStreams()
			for _, conn := range conns {
				_ = conn.Close()
			}
		})
	}
}

// untilNumber ends lines at the end of what a read gave: frames have none.
type untilNumber struct{ net.Conn }

func (u untilNumber) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p[:len(p)-1])
	if err == nil {
		p[n] = '\n'
		n++
	}
	return n, err
}

// inUse is the memory of heap and stacks after a collection.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

func TestAStreamIsToldOnlyWhatIsNew(t *testing.T) {
	b := newBench(t)
	b.fill()
	joined := b.call("POST", "/_queue/sale/join", "")
	ticket := joined.doc(t)["ticket"].(string)
	b.line.change(func() { b.line.far = true })
	conn, r, _ := openStream(t, b.server.Listener.Addr().String(), "events", ticket)
	defer conn.Close()
	events := map[string]int{}
	read := func() (event, data string) {
		for data == "" {
			line, err := r.ReadString('\n')
			require.NoError(t, err)
			if e, ok := strings.CutPrefix(line, "event: "); ok {
				event = strings.TrimSpace(e)
			}
			if d, ok := strings.CutPrefix(line, "data: "); ok {
				data = d
			}
		}
		events[event]++
		return event, data
	}
	for events["ping"] < 2 {
		read()
	}
	require.Equal(t, map[string]int{"update": 1, "ping": 2}, events, "nothing has changed")
	b.line.change(func() { b.line.state = queue.Paused })
	event, data := read()
	for event == "ping" {
		event, data = read()
	}
	require.Equal(t, "state", event)
	require.Contains(t, data, `"room_state":"paused"`)
	b.line.change(func() { b.line.settings.Message, b.line.settings.Stock = "Doors at nine.", new(int64(3)) })
	for event != "state" || !strings.Contains(data, `"message":"Doors at nine."`) {
		event, data = read()
	}
	require.Contains(t, data, `"remaining_stock":3`)
	b.line.change(func() { b.line.settings.Stock = new(int64(0)) })
	for event != "state" || !strings.Contains(data, `"remaining_stock":0`) {
		event, data = read()
	}
	require.NotContains(t, fmt.Sprint(b.line.take()), "look", "what the gate sees by itself is not asked for")
	b.gate.CloseStreams()
	for event != "closed" {
		event, data = read()
	}
	require.Contains(t, data, `"status":"waiting"`)
}

// nextPing reads events up to the next ping.
func nextPing(t *testing.T, r *bufio.Reader) {
	t.Helper()
	awaitText(t, r, "event: ping")
}

// Among the first Redis is asked once for each ping, by the call that answers it.
func TestAStreamLearnsFromTheCallThatAnswersItsPing(t *testing.T) {
	b := newBench(t)
	b.fill()
	ahead := b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	ticket := b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	conn, r, _ := openStream(t, b.server.Listener.Addr().String(), "events", ticket)
	defer conn.Close()
	nextPing(t, r)
	require.Eventually(t, func() bool { return slices.Contains(b.line.take(), "look") }, soon, time.Millisecond, "nobody has answered, so it has to ask")
	answer := func() {
		require.Equal(t, 200, b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket).StatusCode)
	}
	for calls := []string{"look"}; slices.Contains(calls, "look"); { // on a slow machine a call comes too late for its ping
		nextPing(t, r)
		answer()
		b.line.take()
		nextPing(t, r)
		answer()
		calls = b.line.take()
	}
	require.Equal(t, 200, b.call("DELETE", "/_queue/sale", "", "X-Queue-Ticket: "+ahead).StatusCode)
	answer()
	awaitText(t, r, `"position":1`)
	b.gate.CloseStreams()
}

// Browsers follow over HTTP/2 where there is TLS. A WebSocket there is a connection of
// HTTP/1.1.
func TestStreamsOverTLS(t *testing.T) {
	b, line := newDeepBench(t)
	server := httptest.NewUnstartedServer(b.gate)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ask := func(kind, ticket string) *http.Response {
		ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/_queue/sale/"+kind, nil)
		require.NoError(t, err)
		r.Header.Set("X-Queue-Ticket", ticket)
		resp, err := server.Client().Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	resp := ask("events", b.ticketFor(1))
	require.Equal(t, "HTTP/2.0", resp.Proto)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	require.Equal(t, http.StatusUpgradeRequired, ask("ws", b.ticketFor(2)).StatusCode)

	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"})
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*soon)))
	_, err = io.WriteString(conn, raw("GET", "/_queue/sale/ws", "", append(offersSocket, "X-Queue-Ticket: "+b.ticketFor(3))...))
	require.NoError(t, err)
	socket := bufio.NewReader(conn)
	upgraded, err := http.ReadResponse(socket, nil)
	require.NoError(t, err)
	require.Equal(t, 101, upgraded.StatusCode)

	line.ahead.Store(30_000)
	events := bufio.NewReader(resp.Body)
	awaitText(t, events, `"ahead":30000`)
	text, err := socket.ReadString('}')
	for err == nil && !strings.Contains(text, `"ahead":30000`) {
		text, err = socket.ReadString('}')
	}
	require.NoError(t, err)
	b.gate.CloseStreams()
	awaitText(t, events, "event: closed")
	_, err = io.Copy(io.Discard, events)
	require.NoError(t, err)
}
