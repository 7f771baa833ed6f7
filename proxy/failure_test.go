package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
)

func TestFailedOrderKeepsThePass(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Upstream.ResponseTimeout = 2 * time.Second })
	token := b.admit()
	for name, c := range map[string]struct {
		shop func(shopRequest, net.Conn)
		want int
	}{
		"500": {func(_ shopRequest, c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 500 Oops\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}, 500},
		"422": {func(_ shopRequest, c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 422 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}, 422},
		"dropped": {func(_ shopRequest, c net.Conn) {}, 502},
		"reset": {func(_ shopRequest, c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
		}, 502},
		"garbage": {func(_ shopRequest, c net.Conn) { _, _ = io.WriteString(c, "not http\r\n\r\n") }, 502},
		"late":    {func(shopRequest, net.Conn) { b.shop.hold(nil) }, 504},
	} {
		b.shop.does(c.shop)
		got := b.call("POST", "/order", `{"a":1}`, "X-Entry-Token: "+token)
		require.Equal(t, c.want, got.StatusCode, name)
		if c.want > 500 {
			require.Equal(t, "application/problem+json", got.Header.Get("Content-Type"), name)
			require.Equal(t, "no-store", got.Header.Get("Cache-Control"), name)
			require.Contains(t, got.text, "pass is kept", name)
			page := b.navigate("/order", "Cookie: queuegate_entry_sale="+token)
			require.Equal(t, c.want, page.StatusCode, name)
			require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"), name)
		}
		require.Empty(t, got.Header.Get("Location"), name)
	}
	b.shop.does(nil)
	require.Equal(t, 200, b.call("POST", "/order", `{"a":1}`, "X-Entry-Token: "+token).StatusCode)
	b.line.take()
}

func TestPassTakenUpByARequestTheShopFailsIsHandedOutAllTheSame(t *testing.T) {
	b := newBench(t)
	b.shop.does(func(shopRequest, net.Conn) {})
	got := b.navigate("/order")
	require.Equal(t, 502, got.StatusCode)
	entry := got.cookie("queuegate_entry_sale")
	require.NotNil(t, entry)
	b.shop.does(nil)
	require.Equal(t, 200, b.navigate("/order", "Cookie: queuegate_entry_sale="+entry.Value).StatusCode)
}

// A short one too, of which nothing would have been sent yet: clients repeat a request
// by themselves when its connection ends before any of its answer.
func TestAnswerThatBreaksOffReachesTheClientBroken(t *testing.T) {
	b := newBench(t)
	for _, half := range []string{strings.Repeat("half", 10000), "half", ""} {
		b.shop.says("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + half)
		conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, raw("GET", "/x", ""))
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.True(t, strings.HasPrefix(half, string(text)), "something was added to what the shop sent")
		if len(half) < 10 {
			require.Equal(t, half, string(text))
		}
	}
}

func TestClientThatLeftGetsNoAnswerAndIsLoggedAs499(t *testing.T) {
	b := newBench(t)
	arrived, done := make(chan struct{}), make(chan struct{})
	b.shop.does(func(_ shopRequest, c net.Conn) {
		close(arrived)
		_, _ = io.Copy(io.Discard, c) // ends when the gate gives up
		close(done)
	})
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(conn, raw("POST", "/x", "{}"))
	require.NoError(t, err)
	receive(t, arrived)
	conn.Close()
	receive(t, done)
	require.Eventually(t, func() bool { return strings.Contains(b.log.String(), `"status":499`) }, soon, 5*time.Millisecond)
}

func TestBrokenBodyIsTheClientsFault(t *testing.T) {
	b := newBench(t)
	got := b.do("POST", "/x", "", "Transfer-Encoding: chunked", "\r\nzz\r\n")
	require.Equal(t, 400, got.StatusCode)
	require.True(t, got.Close)
}

func TestRequestThatRunsTooLongEndsButAStreamDoesNot(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Upstream.MaxRequest = 300 * time.Millisecond })
	gone := make(chan struct{}, 1)
	b.shop.does(func(_ shopRequest, c net.Conn) {
		_, _ = io.Copy(io.Discard, c)
		gone <- struct{}{}
	})
	require.Equal(t, 504, b.do("POST", "/x", "{}").StatusCode)
	receive(t, gone)

	next := make(chan struct{})
	b.shop.does(func(_ shopRequest, c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
		b.shop.hold(next)
		_, _ = io.WriteString(c, "data: 2\n\n")
	})
	client := &http.Client{Timeout: soon}
	var resp *http.Response
	require.Eventually(t, func() bool { // a busy machine may miss the bound before the stream begins
		var err error
		if resp, err = client.Get(b.server.URL + "/x"); err != nil || resp.StatusCode == http.StatusOK {
			return err == nil
		}
		_ = resp.Body.Close()
		return false
	}, soon, time.Millisecond)
	defer resp.Body.Close()
	time.AfterFunc(900*time.Millisecond, func() { close(next) })
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "data: 1\n\ndata: 2\n\n", string(text))
}

func TestRequestsBeyondTheBoundKeepTheirPass(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].MaxInFlight = 1 })
	token := b.admit()
	arrived, release := make(chan struct{}), make(chan struct{})
	b.shop.does(func(_ shopRequest, c net.Conn) {
		close(arrived)
		b.shop.hold(release)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		resp := b.call("POST", "/order", "{}", "X-Entry-Token: "+token)
		if resp.StatusCode != 200 {
			t.Errorf("the first request got %d", resp.StatusCode)
		}
	})
	receive(t, arrived)
	got := b.call("POST", "/order", "{}", "X-Entry-Token: "+token)
	require.Equal(t, 503, got.StatusCode)
	require.NotEmpty(t, got.Header.Get("Retry-After"))
	require.Equal(t, 503, b.navigate("/order", "Cookie: queuegate_entry_sale="+token).StatusCode)
	close(release)
	wg.Wait()
	b.idle()
	b.shop.does(nil)
	require.Equal(t, 200, b.call("POST", "/order", "{}", "X-Entry-Token: "+token).StatusCode)
}

// TestAskAgainBeforeThePassIsOver: the turn may come the moment after Redis is back, and
// who was told to ask again much later would find a pass that nobody took up.
func TestAskAgainBeforeThePassIsOver(t *testing.T) {
	for _, tc := range []struct{ claimWindow, waitingTimeout, least, most time.Duration }{
		{0, 0, 4 * time.Second, 6 * time.Second},
		{6 * time.Second, 0, 1600 * time.Millisecond, 2400 * time.Millisecond},
		{0, 3 * time.Second, 800 * time.Millisecond, 1200 * time.Millisecond},
		{100 * time.Millisecond, 0, 160 * time.Millisecond, 240 * time.Millisecond},
	} {
		b := newBench(t, func(o *proxy.Options) {
			o.Rooms[0].ClaimWindow, o.Rooms[0].WaitingTimeout = tc.claimWindow, tc.waitingTimeout
		})
		ticket := "X-Queue-Ticket: " + b.tickets.Seal("sale", ticketOf(newVisitor(), 1))
		b.line.lose()
		for _, path := range []string{"/_queue/sale/status", "/order"} {
			told := b.call("GET", path, "", ticket).doc(t)
			require.Equal(t, "degraded", told["room_state"])
			require.GreaterOrEqual(t, told["poll_after_ms"], float64(tc.least.Milliseconds()), path)
			require.LessOrEqual(t, told["poll_after_ms"], float64(tc.most.Milliseconds()), path)
		}
	}
}

func TestRedisAway(t *testing.T) {
	room := func(mode proxy.OnRedisError) func(*proxy.Options) {
		return func(o *proxy.Options) { o.Rooms[0].OnRedisError, o.Rooms[0].MaxInFlight = mode, 10 }
	}
	// Everybody there is when Redis goes away.
	prepare := func(t *testing.T, mode proxy.OnRedisError) (b *bench, active, ready, ticket string) {
		b = newBench(t, room(mode))
		b.line.setSlots(2)
		active = b.admit()
		ready = b.call("GET", "/order", "").Header.Get("X-Entry-Token")
		ticket = b.call("GET", "/order", "").Header.Get("X-Queue-Ticket")
		require.NotEmpty(t, ticket)
		b.line.take()
		b.line.lose()
		return b, active, ready, ticket
	}
	for _, mode := range []proxy.OnRedisError{proxy.OnRedisErrorClosed, proxy.OnRedisErrorStrict} {
		t.Run(string(mode)+": newcomers get 503 and the shop sees nothing", func(t *testing.T) {
			b, _, _, _ := prepare(t, mode)
			before := len(b.shop.requests())
			page := b.navigate("/order")
			require.Equal(t, 503, page.StatusCode)
			require.NotEmpty(t, page.Header.Get("Retry-After"))
			require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
			require.Empty(t, page.Header.Values("Set-Cookie"))
			call := b.call("POST", "/order", "{}")
			require.Equal(t, 503, call.StatusCode)
			require.Equal(t, "degraded", call.doc(t)["room_state"])
			require.Len(t, b.shop.requests(), before)
			require.Equal(t, 200, b.navigate("/public").StatusCode)
		})
		t.Run(string(mode)+": who waits sees the last place", func(t *testing.T) {
			b, _, _, ticket := prepare(t, mode)
			before := len(b.shop.requests())
			d := b.call("GET", "/order", "", "X-Queue-Ticket: "+ticket)
			require.Equal(t, 429, d.StatusCode)
			require.Equal(t, "degraded", d.doc(t)["room_state"])
			require.EqualValues(t, 1, d.doc(t)["position"])
			require.Equal(t, ticket, d.doc(t)["ticket"])
			page := b.navigate("/order", "Cookie: queuegate_ticket_sale="+ticket)
			require.Equal(t, 429, page.StatusCode)
			require.Empty(t, page.Header.Values("Set-Cookie"), "the place is kept")
			status := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+ticket)
			require.Equal(t, 200, status.StatusCode)
			require.Equal(t, "degraded", status.doc(t)["room_state"])
			require.Equal(t, "waiting", status.doc(t)["status"])
			require.Len(t, b.shop.requests(), before)
		})
	}
	t.Run("closed: an active pass needs no Redis, a ready one waits for it and passes", func(t *testing.T) {
		b, active, ready, _ := prepare(t, proxy.OnRedisErrorClosed)
		require.Equal(t, 200, b.call("POST", "/order", "{}", "X-Entry-Token: "+active).StatusCode)
		require.Empty(t, b.line.take())
		got := b.call("POST", "/order", "{}", "X-Entry-Token: "+ready)
		require.Equal(t, 200, got.StatusCode)
		require.Empty(t, got.Header.Get("X-Entry-Token"))
		b.line.heal()
		got = b.call("POST", "/order", "{}", "X-Entry-Token: "+ready)
		require.NotEmpty(t, got.Header.Get("X-Entry-Token"), "claimed when Redis is back")
	})
	t.Run("closed: a pass past its end is not let in unasked", func(t *testing.T) {
		b, active, _, _ := prepare(t, proxy.OnRedisErrorClosed)
		b.line.advance(b.line.session + time.Second)
		before := len(b.shop.requests())
		require.Equal(t, 429, b.call("POST", "/order", "{}", "X-Entry-Token: "+active).StatusCode)
		require.Len(t, b.shop.requests(), before)
		b.line.heal()
		got := b.call("POST", "/order", "{}", "X-Entry-Token: "+active)
		require.Equal(t, 200, got.StatusCode, "its slot was not given on")
		require.NotEmpty(t, got.Header.Get("X-Entry-Token"))
	})
	t.Run("strict: nobody passes, and everybody again once Redis is back", func(t *testing.T) {
		b, active, ready, _ := prepare(t, proxy.OnRedisErrorStrict)
		before := len(b.shop.requests())
		require.Equal(t, 503, b.call("POST", "/order", "{}", "X-Entry-Token: "+active).StatusCode)
		require.Equal(t, 503, b.call("POST", "/order", "{}", "X-Entry-Token: "+ready).StatusCode)
		require.Len(t, b.shop.requests(), before)
		b.line.heal()
		require.Equal(t, 200, b.call("POST", "/order", "{}", "X-Entry-Token: "+active).StatusCode)
		require.Equal(t, 200, b.call("POST", "/order", "{}", "X-Entry-Token: "+ready).StatusCode)
	})
	t.Run("open: everybody passes", func(t *testing.T) {
		b, _, _, ticket := prepare(t, proxy.OnRedisErrorOpen)
		got := b.call("POST", "/order", "{}")
		require.Equal(t, 200, got.StatusCode)
		require.Empty(t, got.Header.Values("Set-Cookie"))
		require.Empty(t, b.shop.last().header["X-Queuegate-Visitor"])
		require.Equal(t, 200, b.navigate("/order", "Cookie: queuegate_ticket_sale="+ticket).StatusCode)
	})
	t.Run("a forged ticket makes nobody known", func(t *testing.T) {
		b, _, _, ticket := prepare(t, proxy.OnRedisErrorClosed)
		require.Equal(t, 503, b.call("GET", "/order", "", "X-Queue-Ticket: "+ticket[:len(ticket)-3]+"abc").StatusCode)
	})
	t.Run("after one question without an answer no other is asked", func(t *testing.T) {
		b, active, _, ticket := prepare(t, proxy.OnRedisErrorClosed)
		b.line.advance(b.line.session + time.Second)
		b.call("GET", "/order", "", "X-Queue-Ticket: "+ticket, "X-Entry-Token: "+active)
		require.Equal(t, []string{"claim"}, b.line.take())
	})
	t.Run("an answer that makes no sense opens nothing", func(t *testing.T) {
		b, _, _, _ := prepare(t, proxy.OnRedisErrorClosed)
		b.line.change(func() { b.line.down = queue.ErrReply })
		before := len(b.shop.requests())
		require.Equal(t, 503, b.call("POST", "/order", "{}").StatusCode)
		require.Len(t, b.shop.requests(), before)
	})
}

func TestRefusedBodyLetsTheClientReadTheAnswer(t *testing.T) {
	b := newBench(t)
	b.fill()
	t.Run("a short one is read and the connection stays", func(t *testing.T) {
		conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		r := bufio.NewReader(conn)
		for range 3 {
			_, err = io.WriteString(conn, raw("POST", "/order", strings.Repeat("x", 100<<10), "Accept: application/json"))
			require.NoError(t, err)
			resp, err := http.ReadResponse(r, nil)
			require.NoError(t, err)
			require.Equal(t, 429, resp.StatusCode)
			require.False(t, resp.Close)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
		}
	})
	t.Run("a long one ends the connection after the answer, also for a client that sends all of it first", func(t *testing.T) {
		conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, raw("POST", "/order", strings.Repeat("GET /public HTTP/1.1\r\nHost: shop.test\r\n\r\n", 500000), "Accept: application/json"))
		require.NoError(t, err)
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, 429, resp.StatusCode)
		require.True(t, resp.Close)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		_, err = http.ReadResponse(r, nil)
		require.Error(t, err, "the body was read as a request")
	})
	for _, length := range []string{"100", "1000000000"} {
		t.Run("one that was not sent yet is not asked for: "+length, func(t *testing.T) {
			conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, raw("POST", "/order", "", "Content-Length: "+length, "Expect: 100-continue"))
			require.NoError(t, err)
			all, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(all), "HTTP/1.1 429"), string(all))
			require.NotContains(t, string(all), "100 Continue")
		})
	}
	require.Empty(t, b.shop.requests())
}

func TestFaultOfOursIsOne500(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].Line = panicLine{o.Rooms[0].Line} })
	require.Equal(t, 500, b.call("GET", "/order", "").StatusCode)
	require.Equal(t, 200, b.call("GET", "/public", "").StatusCode)
	require.Contains(t, b.log.String(), "fault while serving a request")
}

func TestNewNamesEverythingThatIsWrong(t *testing.T) {
	_, err := proxy.New(proxy.Options{Rooms: []proxy.Room{{Name: "Bad Name", QueueingStatusCode: 404, OnRedisError: "maybe", Cookie: proxy.Cookie{Secure: "x"}}}})
	require.Error(t, err)
	for _, part := range []string{"upstream", "Passes", "Tickets", "IdentitySecret", "the name must be", "no Line", "404", `"maybe"`, "Cookie.Secure"} {
		require.ErrorContains(t, err, part)
	}
}
