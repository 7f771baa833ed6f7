package queue

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// gathered is a batch whose calls are answered when the test says so.
type gathered struct {
	*batch[int, int]
	group sync.WaitGroup
	mu    sync.Mutex
	calls [][]int         // those that left
	open  []chan struct{} // and the answer of each
}

func newGathered() *gathered {
	g := &gathered{}
	g.batch = &batch[int, int]{
		send: func(ctx context.Context, asked []int) ([]int, error) {
			answer := make(chan struct{})
			g.mu.Lock()
			g.calls, g.open = append(g.calls, asked), append(g.open, answer)
			g.mu.Unlock()
			select {
			case <-answer:
				return asked, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		allow: func() bool { return true }, timeout: 80 * time.Millisecond, most: 4, flights: 2,
	}
	return g
}

func (g *gathered) ask(t *testing.T, questions ...int) {
	for _, asked := range questions {
		g.group.Go(func() {
			answer, err := g.batch.ask(t.Context(), asked)
			if err == nil && answer != asked {
				t.Errorf("%d was answered with %d", asked, answer)
			}
		})
	}
	synctest.Wait()
}

// sizes are how many questions each call took.
func (g *gathered) sizes() []int {
	var sizes []int
	for _, call := range g.calls {
		sizes = append(sizes, len(call))
	}
	return sizes
}

func (g *gathered) answer(call int) {
	close(g.open[call])
	synctest.Wait()
}

func TestWhatFillsNoCallWaitsForTheOneInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathered()
		g.ask(t, 1)
		require.Equal(t, []int{1}, g.sizes(), "alone it leaves at once")
		g.ask(t, 2, 3)
		require.Equal(t, []int{1}, g.sizes(), "what fills no call waits for the one in flight")
		g.answer(0)
		require.Equal(t, []int{1, 2}, g.sizes())
		g.answer(1)
		g.group.Wait()
	})
}

func TestAFullCallLeavesBesideTheOneInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathered()
		g.ask(t, 1)
		g.ask(t, 2, 3, 4, 5, 6)
		require.Equal(t, []int{1, 4}, g.sizes(), "a full one, and no third")
		g.answer(0)
		require.Equal(t, []int{1, 4}, g.sizes(), "the rest is left to the one in flight")
		g.answer(1)
		require.Equal(t, []int{1, 4, 1}, g.sizes())
		g.answer(2)
		g.group.Wait()
		all := slices.Sorted(slices.Values(slices.Concat(g.calls...)))
		require.Equal(t, []int{1, 2, 3, 4, 5, 6}, all, "each asked once")
	})
}

// A connection that has lost an answer must not keep everybody waiting.
func TestACallThatIsLateIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathered()
		g.ask(t, 1)
		time.Sleep(20 * time.Millisecond)
		g.ask(t, 2)
		require.Equal(t, []int{1, 1}, g.sizes())
		g.ask(t, 3)
		g.answer(1)
		require.Equal(t, []int{1, 1, 1}, g.sizes(), "goes on past the late one")
		g.answer(2)
		g.answer(0)
		g.group.Wait()
	})
}
