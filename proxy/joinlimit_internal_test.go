package proxy

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFloodOfAddressesNeitherGrowsTheTableNorFreesTheOneThatTookMost(t *testing.T) {
	now := time.Now()
	g := newJoinGuard(JoinLimit{PerMinute: 10}.withDefaults(), func() time.Time { return now })
	greedy := netip.MustParseAddr("192.0.2.1")
	for range 10 {
		require.Zero(t, g.take(greedy))
	}
	address := netip.MustParseAddr("2001:db8::1").As16()
	for i := range 300_000 {
		address[5], address[6], address[7] = byte(i>>16), byte(i>>8), byte(i)
		require.Zero(t, g.take(netip.AddrFrom16(address)))
	}
	require.Len(t, g.sets, joinSets)
	require.Equal(t, 6*time.Second, g.take(greedy))
	require.Zero(t, g.take(netip.Addr{}), "a Unix socket has no address")
	require.Zero(t, newJoinGuard(JoinLimit{}, time.Now).take(greedy))
}
