package proxy_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

// held has the shop keep every request until release is closed.
func (s *rawShop) held() (arrived, release chan struct{}) {
	arrived, release = make(chan struct{}, 1000), make(chan struct{})
	s.does(func(_ shopRequest, c net.Conn) {
		arrived <- struct{}{}
		s.hold(release)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	return arrived, release
}

// Whatever a pass does there is room for the next one.
func TestPassNeverHasMoreAtTheShopThanItLeavesFree(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].MaxInFlight = 12 })
	b.line.setSlots(3)
	passes := []string{b.admit(), b.admit(), b.admit()}
	arrived, release := b.shop.held()
	done := make(chan int, 100)
	answered := func() int {
		select {
		case status := <-done:
			return status
		case <-time.After(2 * soon):
			return 0
		}
	}
	for i, let := range []int{6, 3, 2} { // of 12, of the 6 that are left, of 3
		const asked = 20
		for range asked {
			go func() { done <- b.call("GET", "/order/slow", "", "X-Entry-Token: "+passes[i]).StatusCode }()
		}
		for range let {
			receive(t, arrived)
		}
		for range asked - let {
			require.Equal(t, 503, answered())
		}
		got := b.navigate("/order", "Cookie: queuegate_entry_sale="+passes[i])
		require.Equal(t, 503, got.StatusCode)
		require.NotEmpty(t, got.Header.Get("Retry-After"))
		require.Contains(t, b.log.String(), `"reason":"pass_in_flight"`)
		require.NotContains(t, b.log.String(), `"reason":"max_in_flight"`)
	}
	close(release)
	for range 6 + 3 + 2 {
		require.Equal(t, 200, answered())
	}
	b.shop.does(nil)
	for range 12 {
		for _, pass := range passes {
			require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+pass).StatusCode, "the pass is kept, and nothing stays counted")
		}
	}
}
