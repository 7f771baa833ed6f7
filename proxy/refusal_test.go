package proxy_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

func TestAShopThatTakesNoConnectionsPausesTheLineUntilItDoes(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Upstream.DialTimeout = time.Second })
	b.fill()
	waiting := b.call("POST", "/_queue/sale/join", "")
	ticket := "X-Queue-Ticket: " + waiting.doc(t)["ticket"].(string)
	require.Equal(t, "open", waiting.doc(t)["room_state"])
	require.False(t, b.gate.ShopRefuses("sale"))

	addr := b.shop.ln.Addr().String()
	require.NoError(t, b.shop.ln.Close())
	require.Equal(t, 502, b.call("GET", "/other", "").StatusCode)
	require.True(t, b.gate.ShopRefuses("sale"))
	told := b.call("GET", "/_queue/sale/status", "", ticket).doc(t)
	require.Equal(t, "paused", told["room_state"])
	require.Equal(t, "waiting", told["status"])
	require.Nil(t, told["estimated_wait_seconds"])
	require.Contains(t, b.navigate("/order", ticket).text, "The line is paused")

	back, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	defer back.Close()
	require.Eventually(t, func() bool { return !b.gate.ShopRefuses("sale") }, soon, 10*time.Millisecond,
		"it is tried by itself, no visitor is needed")
	require.Equal(t, "open", b.call("GET", "/_queue/sale/status", "", ticket).doc(t)["room_state"])
	require.Contains(t, b.log.String(), "the shop takes no connections")
	require.Eventually(t, func() bool { // the lines ask twice a second
		return !b.gate.ShopRefuses("sale") && strings.Contains(b.log.String(), "the shop takes connections again")
	}, soon, 10*time.Millisecond)
}
