package proxy_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/queue"
)

// consuming makes POST /order/pay an order that a 201 or 3xx of the shop ends.
func consuming(o *proxy.Options) {
	o.Rooms[0].Consume = proxy.Consume{
		Routes: []route.Rule{{Paths: []string{"/order/pay"}, Methods: []string{"POST"}}}, Success: []string{"201", "3xx"},
	}
}

func answers(status string) func(shopRequest, net.Conn) {
	return func(_ shopRequest, c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	}
}

func TestOrderUsesThePassUpByTheListedStatusesOnly(t *testing.T) {
	for _, c := range []struct {
		status string
		used   bool
	}{
		{"200 OK", false}, {"201 Created", true}, {"202 Accepted", false}, {"204 No Content", false},
		{"302 Found", true}, {"303 See Other", true}, {"409 Conflict", false}, {"422 No", false}, {"500 Oops", false},
	} {
		t.Run(c.status, func(t *testing.T) {
			b := newBench(t, consuming)
			pass := b.admit()
			b.shop.does(answers(c.status))
			b.line.take()
			got := b.call("POST", "/order/pay", "{}", "Cookie: queuegate_entry_sale="+pass, "X-Entry-Token: "+pass)
			require.Equal(t, c.status[:3], got.Status[:3])
			require.Equal(t, []string{"adm1"}, b.shop.last().header["X-Queuegate-Admission"])
			entry := got.cookie("queuegate_entry_sale")
			if c.used {
				require.Equal(t, []string{"claim", "settle consumed"}, b.line.take())
				require.NotNil(t, entry)
				require.Negative(t, entry.MaxAge, "the pass leaves the browser")
				require.Empty(t, got.Header.Get("X-Entry-Token"))
				require.Contains(t, got.Header.Get("Cache-Control"), "no-store")
				return
			}
			require.Equal(t, []string{"claim", "settle failed"}, b.line.take())
			require.True(t, entry == nil || entry.MaxAge > 0, "the pass is kept")
			b.shop.does(answers("201 Created"))
			require.Equal(t, 201, b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass).StatusCode)
		})
	}
}

func TestPassOfARequestThatBroughtNoCookieDeletesNone(t *testing.T) {
	b := newBench(t, consuming)
	pass := b.admit()
	b.shop.does(answers("201 Created"))
	got := b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass)
	require.Equal(t, 201, got.StatusCode)
	require.Empty(t, got.Header.Values("Set-Cookie"))
}

func TestOrderThatGotNoAnswerFreesTheLockBeforeTheClientIsTold(t *testing.T) {
	b := newBench(t, consuming, func(o *proxy.Options) { o.Upstream.ResponseTimeout = 2 * time.Second })
	pass := b.admit()
	for name, shop := range map[string]func(shopRequest, net.Conn){
		"dropped": func(shopRequest, net.Conn) {},
		"reset":   func(_ shopRequest, c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
		"garbage": func(_ shopRequest, c net.Conn) { _, _ = io.WriteString(c, "not http\r\n\r\n") },
		"late":    func(shopRequest, net.Conn) { b.shop.hold(nil) },
	} {
		b.shop.does(shop)
		b.line.take()
		got := b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass)
		require.GreaterOrEqual(t, got.StatusCode, 502, name)
		require.Contains(t, got.text, "pass is kept", name)
		require.Equal(t, []string{"claim", "settle failed"}, b.line.take(), name)
	}
	b.shop.does(answers("201 Created"))
	require.Equal(t, 201, b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass).StatusCode)
}

// Broken off with its client an order would leave the pass good, and who leaves
// before the answer could order with it again and again.
func TestAnOrderWhoseClientLeavesGoesOn(t *testing.T) {
	b := newBench(t, consuming)
	pass := b.admit()
	arrived, decide := make(chan struct{}, 10), make(chan func(shopRequest, net.Conn), 1)
	b.shop.does(func(req shopRequest, c net.Conn) {
		arrived <- struct{}{}
		select {
		case shop := <-decide:
			shop(req, c)
		case <-b.shop.free:
		}
	})
	for _, c := range []struct {
		name string
		shop func(shopRequest, net.Conn)
		why  string
	}{
		{"an order that comes to nothing", answers("422 Unprocessable Content"), "settle failed"},
		{"a shop that goes away", func(_ shopRequest, c net.Conn) { c.Close() }, "settle failed"},
		{"an order that succeeds", answers("201 Created"), "settle consumed"},
	} {
		conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, raw("POST", "/order/pay", "{}", "X-Entry-Token: "+pass))
		require.NoError(t, err)
		receive(t, arrived)
		b.line.take()
		require.NoError(t, conn.Close())
		require.Never(t, func() bool { return len(b.line.take()) > 0 }, 100*time.Millisecond, 10*time.Millisecond,
			"%s: nobody knows yet what becomes of it", c.name)
		decide <- c.shop
		var calls []string
		require.Eventually(t, func() bool {
			calls = append(calls, b.line.take()...)
			return len(calls) > 0
		}, soon, time.Millisecond, c.name)
		require.Equal(t, []string{c.why}, calls, c.name)
	}
}

func TestAnOrderThatDoesNotArriveWholeIsBrokenOff(t *testing.T) {
	b := newBench(t, consuming)
	pass := b.admit()
	b.line.take()
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(t, err)
	head, _, _ := strings.Cut(raw("POST", "/order/pay", "{}", "X-Entry-Token: "+pass), "\r\n\r\n")
	_, err = io.WriteString(conn, head+"\r\n\r\n{")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	var calls []string
	require.Eventually(t, func() bool {
		calls = append(calls, b.line.take()...)
		return len(calls) > 1
	}, soon, time.Millisecond)
	require.Equal(t, []string{"claim", "settle failed"}, calls)
}

func TestOneOrderOfAPassIsAtTheShopAtATime(t *testing.T) {
	b := newBench(t, consuming)
	pass := b.admit()
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	b.shop.does(func(req shopRequest, c net.Conn) {
		arrived <- struct{}{}
		b.shop.hold(release)
		answers("201 Created")(req, c)
	})
	before := len(b.shop.requests())
	var first sync.WaitGroup
	first.Go(func() { b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass) })
	receive(t, arrived)

	got := b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass)
	require.Equal(t, http.StatusConflict, got.StatusCode)
	require.Equal(t, "urn:queuegate:problem:order-under-way", got.doc(t)["type"])
	require.Equal(t, "1", got.Header.Get("Retry-After"))
	// Whatever the request says of itself, and however the route is spelled.
	for _, c := range []struct{ method, target, line string }{
		{"POST", "/order/pay/", "Sec-Purpose: prefetch"},
		{"POST", "/ORDER/%70ay", "Sec-Fetch-Dest: image"},
		{"POST", "/x/..//order/pay", "Host: another.test"},
		{"GET", "/order/pay", "X-HTTP-Method-Override: POST"},
		{"post", "/order/pay", "Accept: */*"},
	} {
		got := b.do(c.method, c.target, "", "X-Entry-Token: "+pass, c.line)
		require.Equal(t, http.StatusConflict, got.StatusCode, "%s %s", c.method, c.target)
	}
	form := b.do("POST", "/order/pay", "a=1", "Cookie: queuegate_entry_sale="+pass, "Sec-Fetch-Mode: navigate", "Accept: "+browserAccept)
	require.Equal(t, http.StatusConflict, form.StatusCode)
	require.Contains(t, form.text, `data-state="ordering"`)
	require.Empty(t, form.Header.Values("Set-Cookie"), "a late losing answer takes no pass away")

	close(release)
	first.Wait()
	used := b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass)
	require.Equal(t, http.StatusConflict, used.StatusCode)
	require.Equal(t, "urn:queuegate:problem:already-used", used.doc(t)["type"])
	form = b.do("POST", "/order/pay", "a=1", "Cookie: queuegate_entry_sale="+pass, "Sec-Fetch-Mode: navigate", "Accept: "+browserAccept)
	require.Equal(t, http.StatusConflict, form.StatusCode)
	require.Contains(t, form.text, `data-state="used"`)
	require.Len(t, b.shop.requests(), before+1, "one order reached the shop")
}

func TestWhoHasOrderedQueuesAgainUnlessBarred(t *testing.T) {
	b := newBench(t, consuming)
	pass := b.admit()
	b.shop.does(answers("201 Created"))
	require.Equal(t, 201, b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass).StatusCode)
	b.shop.does(nil)
	b.fill()
	again := b.call("GET", "/order", "", "X-Entry-Token: "+pass)
	require.Equal(t, http.StatusTooManyRequests, again.StatusCode, "a newcomer")
	require.Equal(t, "waiting", again.doc(t)["status"])

	opened, err := b.passes.Verify(pass, "sale")
	require.NoError(t, err)
	b.line.change(func() { b.line.barred[opened.Visitor] = true })
	barred := b.call("GET", "/order", "", "X-Entry-Token: "+pass)
	require.Equal(t, http.StatusConflict, barred.StatusCode)
	require.Equal(t, "urn:queuegate:problem:already-used", barred.doc(t)["type"])
	join := b.call("POST", "/_queue/sale/join", "", "X-Entry-Token: "+pass)
	require.Equal(t, http.StatusOK, join.StatusCode)
	require.Equal(t, "released", join.doc(t)["status"], "and no place")
}

func TestOrderIsRefusedWhileTheLineCannotLockIt(t *testing.T) {
	for name, trouble := range map[string]func(*bench){
		"Redis is away":    func(b *bench) { b.line.lose() },
		"Redis is healing": func(b *bench) { b.line.change(func() { b.line.healing = true }) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, consuming)
			pass := b.admit()
			trouble(b)
			before := len(b.shop.requests())
			got := b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass)
			require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
			require.NotEmpty(t, got.Header.Get("Retry-After"))
			require.Len(t, b.shop.requests(), before)
			require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+pass).StatusCode, "the pass is kept")
			b.line.heal()
			b.line.change(func() { b.line.healing = false })
			b.shop.does(answers("201 Created"))
			require.Equal(t, 201, b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass).StatusCode)
		})
	}
}

func TestNewcomersOrderTakesUpItsPassAndIsLocked(t *testing.T) {
	b := newBench(t, consuming)
	b.shop.does(answers("500 Oops"))
	got := b.call("POST", "/order/pay", "{}")
	require.Equal(t, 500, got.StatusCode)
	require.Equal(t, []string{"join", "claim", "settle failed"}, b.line.take())
	require.Len(t, got.Header.Values("Set-Cookie"), 2, "one pass, the one taken up, and the ticket")
	pass := got.Header.Get("X-Entry-Token")
	b.shop.does(answers("201 Created"))
	require.Equal(t, 201, b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass).StatusCode)
	require.Equal(t, []queue.Why{queue.Consumed}, endsOf(b.line))
}

func endsOf(l *fakeLine) (whys []queue.Why) {
	l.change(func() {
		for _, why := range l.ended {
			whys = append(whys, why)
		}
	})
	return whys
}

func TestExcessOrderFreesItsLock(t *testing.T) {
	b := newBench(t, consuming, func(o *proxy.Options) { o.Rooms[0].MaxInFlight = 1 })
	b.line.setSlots(2)
	first, second := b.admit(), b.admit()
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	b.shop.does(func(req shopRequest, c net.Conn) {
		arrived <- struct{}{}
		b.shop.hold(release)
		answers("201 Created")(req, c)
	})
	var one sync.WaitGroup
	one.Go(func() { b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+first) })
	receive(t, arrived)
	b.line.take()
	got := b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+second)
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.NotEmpty(t, got.Header.Get("Retry-After"))
	require.Contains(t, got.text, "pass is kept")
	close(release)
	one.Wait()
	require.Contains(t, b.line.take(), "settle failed")
	b.idle()
	require.Equal(t, 201, b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+second).StatusCode)
}
