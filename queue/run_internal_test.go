package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A shop may change its stock with every order: ticks come sooner by that, and not
// without end.
func TestChangedValuesBringTheNextTickForwardWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Line{hurry: make(chan struct{}, 1)}
		for _, told := range []bool{false, true, true} {
			if told {
				ring(l.hurry)
				ring(l.hurry)
			}
			began := time.Now()
			l.pause(t.Context(), slowTick)
			want := slowTick
			if told {
				want = fastTick
			}
			require.Equal(t, want, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		l.pause(ctx, time.Hour)
		require.Zero(t, time.Since(began))
	})
}
