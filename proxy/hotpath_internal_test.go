//go:build !race

// The race detector has sync.Pool forget things, which are then allocated anew.

package proxy

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// By default two idle connections are kept for each host and each body gets a buffer of
// its own: with that the gate passed on 0.44 of the requests.
func TestTheWayToTheShopStaysTuned(t *testing.T) {
	s := newShop(Upstream{URL: &url.URL{Scheme: "http", Host: "shop"}}.withDefaults(), nil)
	way := s.transport
	require.GreaterOrEqual(t, way.MaxIdleConnsPerHost, 512)
	require.GreaterOrEqual(t, way.MaxIdleConns, way.MaxIdleConnsPerHost)
	require.Zero(t, way.MaxConnsPerHost, "no request waits for another's connection")
	require.True(t, way.DisableCompression)

	pool := s.proxy.BufferPool
	require.NotNil(t, pool)
	require.Zero(t, int(testing.AllocsPerRun(1000, func() { pool.Put(pool.Get()) })), "a buffer that was given back is used again")
}
