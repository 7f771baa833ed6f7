package proxy_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/token"
)

// A gate that takes another's place forgives nobody what the other has counted.
func TestWhatBoundsAGateGoesOnUnderTheNext(t *testing.T) {
	var o proxy.Options
	b := newBench(t, func(made *proxy.Options) {
		made.Rooms[0].MaxInFlight = 2
		o = *made
	})
	b.line.setSlots(3)
	passes := []string{b.admit(), b.admit(), b.admit()}
	arrived, release := b.shop.held()
	done := make(chan int, 3)
	order := func(pass string) { done <- b.call("GET", "/order", "", "X-Entry-Token: "+pass).StatusCode }
	go order(passes[0])
	receive(t, arrived)

	o.After = b.gate
	next, err := proxy.New(o)
	require.NoError(t, err)
	b.server.Config.Handler = b.served(next)
	go order(passes[1])
	receive(t, arrived)
	require.Equal(t, 503, b.call("GET", "/order", "", "X-Entry-Token: "+passes[2]).StatusCode, "two are there, one by each gate")
	close(release)
	require.Equal(t, []int{200, 200}, []int{receive(t, done), receive(t, done)})

	require.NoError(t, b.shop.ln.Close())
	require.Equal(t, 502, b.call("GET", "/other", "").StatusCode)
	o.After = next
	third, err := proxy.New(o)
	require.NoError(t, err)
	require.True(t, third.ShopRefuses("sale"), "what is known of the shop is not forgotten")
	b.gate.Close()
	next.Close()
	third.Close()
}

func TestARoomWithAShopOfItsOwnIsServedByIt(t *testing.T) {
	other := newRawShop(t)
	b := newBench(t, func(o *proxy.Options) {
		o.Rooms[1].Upstream = proxy.Upstream{URL: &url.URL{Scheme: "http", Host: other.ln.Addr().String()}}
	})
	require.Equal(t, 200, b.call("GET", "/drop", "").StatusCode)
	require.Equal(t, "GET /drop HTTP/1.1", other.last().line)
	require.Equal(t, 200, b.call("GET", "/other", "").StatusCode)
	require.Equal(t, 200, b.call("GET", "/order", "").StatusCode)
	require.Len(t, other.requests(), 1, "nothing but the room's own requests")

	other.hangUp()
	require.NoError(t, other.ln.Close())
	require.Equal(t, 502, b.call("GET", "/drop", "", "X-Entry-Token: "+b.pass(func(p *token.Pass) { p.Room = "drop" })).StatusCode)
	require.True(t, b.gate.ShopRefuses("drop"))
	require.False(t, b.gate.ShopRefuses("sale"), "one shop that is down pauses no other room")
}

func TestSwapLeavesEachRequestWithTheHandlerItHas(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	v := serve(t, proxy.ServerOptions{Grace: soon, Admin: say("before"), Public: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = w.Write([]byte("before"))
	})})
	got := make(chan string, 1)
	go func() { _, body := v.get(v.URL()); got <- body }()
	receive(t, begun)
	over := v.Swap(say("after"), say("after"))
	_, body := v.get(v.URL())
	require.Equal(t, "after", body)
	_, body = v.get(v.AdminURL())
	require.Equal(t, "after", body)
	select {
	case <-over:
		require.Fail(t, "a request of the old handler runs")
	default:
	}
	close(finish)
	require.Equal(t, "before", receive(t, got))
	receive(t, over)
	receive(t, v.Swap(say("last"), say("last")))
	v.stop()
	require.NoError(t, v.ended())
}
