//go:build !race

// The race detector has sync.Pool forget things, which are then allocated anew.

package proxy_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A request that is passed on may allocate so much more than by a bare reverse proxy:
// both include the shop, which is in the same process.
func TestWhatIsPassedOnAllocatesLittleMoreThanByABareProxy(t *testing.T) {
	bare := testing.AllocsPerRun(300, hotBare(t).serve)
	require.LessOrEqual(t, testing.AllocsPerRun(300, hotPass(t, "/").serve)-bare, -10.0, "nobody protects it")
	require.LessOrEqual(t, testing.AllocsPerRun(300, hotPass(t, "/order").serve)-bare, 4.0, "with a pass")
}

// The hot paths allocate no more than they were brought down to: a number that does not
// depend on the machine.
func TestHotPathsAllocateNoMoreThanTheyDid(t *testing.T) {
	for _, c := range []struct {
		name string
		hot  func(*testing.T) hot
		most float64
	}{
		{"a poll by header", func(t *testing.T) hot { return hotPoll(t, "header") }, 8},
		{"a poll by cookie", func(t *testing.T) hot { return hotPoll(t, "cookie") }, 8},
		{"a join", func(t *testing.T) hot { return hotJoin(t) }, 18},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := c.hot(t)
			got := testing.AllocsPerRun(1000, h.serve)
			require.LessOrEqual(t, got, c.most)
		})
	}
}
