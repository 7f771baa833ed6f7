package proxy_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// observed collects what a gate tells of its requests.
type observed struct {
	mu   sync.Mutex
	list []proxy.Observation
}

func (o *observed) add(seen proxy.Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, seen)
}

// next waits for the observation of the request that was just made; an answer may
// arrive a moment before it.
func (o *observed) next(t *testing.T) proxy.Observation {
	t.Helper()
	var seen proxy.Observation
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.list) == 0 {
			return false
		}
		seen, o.list = o.list[0], o.list[1:]
		return true
	}, soon, time.Millisecond)
	return seen
}

func TestEachRequestIsObservedOnceWithWhatBecameOfIt(t *testing.T) {
	seen := &observed{}
	b := newBench(t, func(o *proxy.Options) { o.Observe = seen.add })
	decided := func(o proxy.Observation) []string {
		return []string{o.Room, string(o.Outcome), string(o.Reason)}
	}

	b.call("GET", "/other", "")
	free := seen.next(t)
	require.Equal(t, []string{"", "proxied", "unprotected"}, decided(free))
	require.True(t, free.Shop.Asked)
	require.Equal(t, 200, free.Shop.Status)
	require.GreaterOrEqual(t, free.Took, free.Shop.Took)

	pass := b.admit()
	joined, claimed := seen.next(t), seen.next(t)
	require.Equal(t, []string{"sale", "proxied", "admitted"}, decided(joined))
	require.True(t, joined.Issued)
	require.False(t, joined.TookUp)
	require.Equal(t, []string{"sale", "proxied", "claimed"}, decided(claimed))
	require.True(t, claimed.TookUp)
	require.True(t, claimed.Issued)

	b.call("GET", "/order", "", "X-Entry-Token: "+pass)
	used := seen.next(t)
	require.Equal(t, []string{"sale", "proxied", "pass"}, decided(used))
	require.False(t, used.Issued || used.TookUp)
	require.Empty(t, used.Rejected)

	b.fill()
	b.call("GET", "/order", "")
	queued := seen.next(t)
	require.Equal(t, []string{"sale", "queued", "newcomer"}, decided(queued))
	require.False(t, queued.Shop.Asked)
	require.Empty(t, queued.Denied)
	b.call("GET", "/_queue/sale/status", "")
	require.Equal(t, []string{"sale", "answered", "status"}, decided(seen.next(t)))
	b.line.change(func() { b.line.state = queue.RoomClosed })
	b.call("POST", "/_queue/sale/join", "")
	require.Equal(t, queue.Closed, seen.next(t).Denied)
}

func TestWhatTheShopFailsIsObserved(t *testing.T) {
	for name, c := range map[string]struct {
		shop func(shopRequest, net.Conn) // nil: never answers
		want proxy.ShopFailure
	}{
		"an answer": {func(_ shopRequest, c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 500 Oops\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}, ""},
		"closed": {func(shopRequest, net.Conn) {}, proxy.ShopUnreachable},
		"late":   {nil, proxy.ShopTimeout},
		"broken off": {func(_ shopRequest, c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshop")
		}, proxy.ShopBroke},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &observed{}
			b := newBench(t, func(o *proxy.Options) {
				if o.Observe = seen.add; c.shop == nil {
					o.Upstream.ResponseTimeout = 200 * time.Millisecond
				}
			})
			if c.shop == nil {
				c.shop = func(shopRequest, net.Conn) { b.shop.hold(nil) }
			}
			b.shop.does(c.shop)
			conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, raw("GET", "/other", "", "Connection: close"))
			require.NoError(t, err)
			_, _ = io.ReadAll(conn)
			require.Equal(t, c.want, seen.next(t).Shop.Failure)
		})
	}
}

func TestWhyAPassIsWorthNothingIsObserved(t *testing.T) {
	seen := &observed{}
	b := newBench(t, func(o *proxy.Options) { o.Observe = seen.add })
	b.fill()
	ended := token.NewVisitor()
	b.line.change(func() { b.line.ended[key(ended, 1)] = queue.Released })
	foreign, err := token.New(token.Options{Issuer: "test", Secret: []byte(identitySecret)})
	require.NoError(t, err)
	strange, err := foreign.Sign(token.Pass{
		Room: "sale", Admission: "a", Visitor: token.NewVisitor(), Stage: token.Active, Place: 1, Generation: 1, Epoch: 1,
		End: b.line.now.Add(time.Minute).UnixMilli(), IssuedAt: b.line.now, Expires: b.line.now.Add(time.Minute),
	})
	require.NoError(t, err)
	for _, c := range []struct {
		pass string
		want proxy.Rejection
	}{
		{"nonsense", proxy.RejectedMalformed},
		{strange, proxy.RejectedSignature},
		{b.pass(func(p *token.Pass) { p.Room = "drop" }), proxy.RejectedRoom},
		{b.pass(func(p *token.Pass) { p.Visitor = ended }), proxy.RejectedEnded},
		{b.pass(func(p *token.Pass) { p.Generation = 0 }), proxy.RejectedReset},
	} {
		require.NotEqual(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+c.pass).StatusCode)
		require.Equal(t, c.want, seen.next(t).Rejected)
	}
}
