package proxy_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/route"
)

// An address that need not wait is the address of the connection, or what a trusted
// proxy says of it, and never what the visitor writes.
func TestAnExemptAddressCannotBeClaimed(t *testing.T) {
	exempt := func(o *proxy.Options) {
		o.Rooms[0].Exempt = append(o.Rooms[0].Exempt, route.Rule{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	}
	claims := []string{
		"X-Forwarded-For: 10.1.2.3", "X-Forwarded-For: 10.1.2.3, 10.1.2.4", "X-Real-IP: 10.1.2.3", "Forwarded: for=10.1.2.3",
		"True-Client-IP: 10.1.2.3", "CF-Connecting-IP: 10.1.2.3", "X-Client-IP: 10.1.2.3", "X_Forwarded_For: 10.1.2.3",
	}
	t.Run("by anybody", func(t *testing.T) {
		b := newBench(t, exempt)
		b.fill()
		for _, header := range claims {
			require.Equal(t, 429, b.call("GET", "/order", "", header).StatusCode, header)
		}
		require.Empty(t, b.shop.requests())
	})
	t.Run("through a trusted proxy by what stands in front of its own word", func(t *testing.T) {
		b := newBench(t, exempt, trustLoopback)
		b.fill()
		require.Equal(t, 429, b.call("GET", "/order", "", "X-Forwarded-For: 10.1.2.3, 203.0.113.9").StatusCode)
		for _, header := range claims[2:] {
			require.Equal(t, 429, b.call("GET", "/order", "", header, "X-Forwarded-For: 203.0.113.9").StatusCode, header)
		}
		require.Empty(t, b.shop.requests())
		b.line.take()
		require.Equal(t, 200, b.call("GET", "/order", "", "X-Forwarded-For: 203.0.113.9, 10.1.2.3").StatusCode)
		require.Len(t, b.shop.requests(), 1, "who really is there passes, without a place")
		require.Empty(t, b.line.take())
	})
}
