package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
)

var handshake = []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}

// streamingShop answers a handshake with a tunnel that echoes, everything else
// with an event stream that says one thing. Both last until the gate hangs up.
func (b *bench) streamingShop() {
	b.shop.does(func(req shopRequest, conn net.Conn) {
		if len(req.header["Upgrade"]) > 0 {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(conn, conn)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\ndata: 1\n\n")
		_, _ = io.Copy(io.Discard, conn)
	})
}

// stream begins a stream and returns when its first bytes are there.
func (b *bench) stream(kind, path string, lines ...string) (net.Conn, *bufio.Reader) {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(soon)))
	want := 200
	if kind == "tunnel" {
		lines, want = append(lines, handshake...), 101
	}
	_, err = io.WriteString(conn, raw("GET", path, "", lines...))
	require.NoError(b.t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(b.t, err)
	require.Equal(b.t, want, resp.StatusCode)
	if kind == "tunnel" {
		_, err = io.WriteString(conn, "hello\n")
		require.NoError(b.t, err)
		line, err := r.ReadString('\n')
		require.NoError(b.t, err)
		require.Equal(b.t, "hello\n", line)
		return conn, r
	}
	body := bufio.NewReader(resp.Body)
	line, err := body.ReadString('\n')
	require.NoError(b.t, err)
	require.Equal(b.t, "data: 1\n", line)
	return conn, r
}

// shortSession makes streams look often whether their pass lasts; the line's own
// sessions are as long as ever.
func shortSession(o *proxy.Options) {
	o.Rooms[0].Line.(*fakeLine).settings.Session = 200 * time.Millisecond
}

// closed asserts that the gate closes a stream.
func closed(t *testing.T, r io.Reader) {
	t.Helper()
	_, err := io.Copy(io.Discard, r)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the stream goes on")
}

// A client that is told why does not come again at once. Nothing is put into the middle
// of what the shop says, nor behind its own close.
func TestClientOfATunnelIsToldThatItsPassHasEnded(t *testing.T) {
	const word = "\x88\x14\x03\xf0the pass has ended"
	for name, tc := range map[string]struct{ said, word string }{
		"nothing was said":          {"", word},
		"a frame was said":          {"\x81\x05hello", word},
		"a frame is half said":      {"\x81\x05hel", ""},
		"the shop has closed":       {"\x88\x02\x03\xe8", ""},
		"it is no WebSocket at all": {"hello\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, shortSession)
			pass := b.admit()
			b.shop.does(func(_ shopRequest, conn net.Conn) {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"+tc.said)
				_, _ = io.Copy(io.Discard, conn)
			})
			conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
			_, err = io.WriteString(conn, raw("GET", "/order/live", "", append(handshake, "X-Entry-Token: "+pass)...))
			require.NoError(t, err)
			r := bufio.NewReader(conn)
			_, err = http.ReadResponse(r, nil)
			require.NoError(t, err)
			_, err = io.ReadFull(r, make([]byte, len(tc.said)))
			require.NoError(t, err)
			_, err = io.WriteString(conn, "\x81\x80\x00\x00\x00\x00") // on its way when the end comes
			require.NoError(t, err)
			require.Equal(t, 200, b.call("POST", "/_queue/sale/release", "", "X-Entry-Token: "+pass).StatusCode)
			rest, err := io.ReadAll(r)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Equal(t, tc.word, string(rest))
		})
	}
}

func TestStreamEndsWithItsPass(t *testing.T) {
	for _, kind := range []string{"tunnel", "events"} {
		for name, end := range map[string]func(*bench, string){
			"released": func(b *bench, pass string) {
				require.Equal(b.t, 200, b.call("POST", "/_queue/sale/release", "", "X-Entry-Token: "+pass).StatusCode)
			},
			"left": func(b *bench, pass string) {
				require.Equal(b.t, 200, b.call("DELETE", "/_queue/sale", "", "X-Entry-Token: "+pass).StatusCode)
			},
			"used up by an order at another gate": func(b *bench, pass string) {
				p, err := b.passes.Verify(pass, "sale")
				require.NoError(b.t, err)
				b.line.change(func() { b.line.ended[key(p.Visitor, p.Place)] = queue.Consumed })
			},
			"reset": func(b *bench, _ string) {
				b.line.change(func() { b.line.generation++ })
			},
			"over, for the client says nothing": func(b *bench, _ string) {
				b.line.advance(b.line.session)
			},
			"given on": func(b *bench, _ string) {
				b.line.advance(b.line.session)
				b.line.giveOn()
			},
			"over while Redis is away": func(b *bench, _ string) {
				b.line.lose()
				b.line.advance(b.line.session)
			},
		} {
			t.Run(kind+": "+name, func(t *testing.T) {
				b := newBench(t, shortSession)
				pass := b.admit()
				b.streamingShop()
				_, r := b.stream(kind, "/order/live", "X-Entry-Token: "+pass)
				_, free := b.stream(kind, "/public/live", "X-Entry-Token: "+pass)
				end(b, pass)
				closed(t, r)
				require.Eventually(t, func() bool { return strings.Contains(b.log.String(), `"upstream":"pass_ended"`) }, soon, time.Millisecond)
				if kind == "tunnel" { // what nobody protects goes on
					require.Zero(t, free.Buffered())
				}
				require.Equal(t, 1, strings.Count(b.log.String(), "pass_ended"))
			})
		}
	}
}

func TestStreamGoesOnWhileThePassLasts(t *testing.T) {
	b := newBench(t, shortSession)
	b.line.session = 2 * time.Second
	pass := b.admit()
	b.streamingShop()
	conn, r := b.stream("tunnel", "/order/live", "X-Entry-Token: "+pass)
	_, events := b.stream("events", "/order/events", "X-Entry-Token: "+pass)
	// Three sessions pass by the line's clock, and the client says something in each.
	for range 12 {
		before := len(b.line.renewals(false))
		require.Eventually(t, func() bool {
			_, _ = io.WriteString(conn, "hello\n")
			_, err := r.ReadString('\n')
			require.NoError(t, err)
			return len(b.line.renewals(false)) > before
		}, soon, 10*time.Millisecond)
		b.line.advance(b.line.session / 4)
	}
	require.Zero(t, events.Buffered(), "the event stream lives by what the visitor does elsewhere")
	require.NotContains(t, b.log.String(), "pass_ended")
	b.line.advance(b.line.session)
	closed(t, r)
	closed(t, events)
}

func TestStreamOfARoomWithoutRenewalEndsWithTheSessionWhateverIsSaid(t *testing.T) {
	b := newBench(t, shortSession, func(o *proxy.Options) { o.Rooms[0].Line.(*fakeLine).settings.DisableRenewal = true })
	pass := b.admit()
	b.streamingShop()
	conn, r := b.stream("tunnel", "/order/live", "X-Entry-Token: "+pass)
	for enough := time.After(500 * time.Millisecond); ; { // in which it would be renewed ten times
		_, err := io.WriteString(conn, "hello\n")
		require.NoError(t, err)
		_, err = r.ReadString('\n')
		require.NoError(t, err)
		select {
		case <-enough:
		default:
			continue
		}
		break
	}
	b.line.advance(b.line.session)
	closed(t, r)
	require.Empty(t, b.line.renewals(false))
}

func TestPassThatGrowsOlderThanItsStreamRenewsNothing(t *testing.T) {
	b := newBench(t)
	pass := b.admit()
	b.streamingShop()
	_, r := b.stream("events", "/order/events", "X-Entry-Token: "+pass)
	b.line.advance(b.line.session + time.Second)
	b.fill() // somebody else may want the slot
	closed(t, r)
	p, err := b.passes.Verify(pass, "sale")
	require.NoError(t, err)
	b.line.change(func() {
		left := b.line.stays[p.Visitor].lease.End - b.line.now.UnixMilli()
		require.LessOrEqual(t, left, int64(1), "an open connection alone keeps no slot")
	})
}

func TestShutdownWaitsForRequestsAndNotForStreams(t *testing.T) {
	b := newBench(t)
	pass := b.admit()
	b.streamingShop()
	v := serve(t, proxy.ServerOptions{Public: b.gate, Grace: 3 * soon})
	t.Cleanup(b.shop.hangUp)
	listen := func(path string, lines ...string) (net.Conn, *bufio.Reader) {
		c := v.dial()
		_, err := io.WriteString(c, raw("GET", path, "", lines...))
		require.NoError(t, err)
		r := bufio.NewReader(c)
		_, err = http.ReadResponse(r, nil)
		require.NoError(t, err)
		return c, r
	}
	_, public := listen("/public/events")
	_, events := listen("/order/events", "X-Entry-Token: "+pass)
	conn, tunnel := listen("/order/live", append(handshake, "X-Entry-Token: "+pass)...)
	finish := make(chan struct{})
	b.shop.does(func(_ shopRequest, conn net.Conn) {
		b.shop.hold(finish)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
	})
	slow := make(chan string, 1)
	before := len(b.shop.requests())
	go func() {
		_, body := v.get(v.URL() + "/public/slow")
		slow <- body
	}()
	require.Eventually(t, func() bool { return len(b.shop.requests()) > before }, soon, time.Millisecond)
	v.stop()
	v.waitDraining()
	select {
	case <-v.result:
		require.Fail(t, "a request was not waited for")
	case <-slow:
		require.Fail(t, "a request was cut")
	case <-time.After(100 * time.Millisecond):
	}
	_, err := io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	line, err := tunnel.ReadString('\n')
	require.NoError(t, err, "tunnels go last")
	require.Equal(t, "hello\n", line)
	close(finish)
	require.Equal(t, "ok", receive(t, slow))
	require.NoError(t, v.ended(), "within the grace time")
	for _, r := range []*bufio.Reader{public, events, tunnel} {
		closed(t, r)
	}
}

func TestManyAbortedRequestsLeaveNothingBehind(t *testing.T) {
	b := newBench(t)
	b.streamingShop()
	pass := b.admitWith("/order/live")
	v := serve(t, proxy.ServerOptions{Public: b.gate, Grace: soon}) // checks goroutines at the end
	t.Cleanup(b.shop.hangUp)
	runtime.GC()
	before := openFiles(t)
	const workers, each = 10, 42 // each way to leave at least once, alone and with others
	done := make(chan error, workers)
	for n := range workers {
		go func() {
			var err error
			for i := range each {
				if e := v.abort(pass, n*each+i); e != nil {
					err = e
				}
			}
			done <- err
		}()
	}
	for range workers {
		require.NoError(t, receive(t, done))
	}
	require.Eventually(t, func() bool {
		b.shop.hangUp() // connections that were made for a request already gone are kept for the next
		runtime.GC()    // pipes by which the kernel copies are closed by it
		return openFiles(t) <= before
	}, soon, 10*time.Millisecond, "files stay open")
	v.stop()
	require.NoError(t, v.ended())
}

// admitWith admits somebody while the shop answers with streams.
func (b *bench) admitWith(path string) string {
	b.t.Helper()
	joined := b.call("POST", "/_queue/sale/join", "")
	pass, ok := joined.doc(b.t)["entry_token"].(string)
	require.True(b.t, ok, joined.text)
	conn, _ := b.stream("tunnel", path, "X-Entry-Token: "+pass)
	require.NoError(b.t, conn.Close())
	return pass
}

// abort leaves in the middle of a request, each time in another way.
func (v *served) abort(pass string, i int) error {
	c, err := net.Dial("tcp", strings.TrimPrefix(v.URL(), "http://"))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(soon)); err != nil {
		return err
	}
	lines := []string{"X-Entry-Token: " + pass}
	if i%3 == 0 {
		lines = append(lines, handshake...)
	}
	if _, err := io.WriteString(c, raw("GET", fmt.Sprintf("/order/live?%d", i), "", lines...)); err != nil {
		return err
	}
	if i%2 == 0 {
		if _, err := io.ReadFull(c, make([]byte, 20)); err != nil {
			return err
		}
	}
	if i%5 == 0 {
		_ = c.(*net.TCPConn).SetLinger(0) // reset
	}
	if i%7 == 0 {
		_ = c.(*net.TCPConn).CloseWrite() // half
		_, _ = io.Copy(io.Discard, c)
	}
	return nil
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}
