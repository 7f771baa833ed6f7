package queue_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// A place that is given up leaves its end behind, for as long as its ticket could be
// shown; one that is just abandoned is kept as long. Whoever joins and leaves without
// end therefore takes about what somebody takes who only joins, who is bounded by
// join_limit as well. The README tells these figures.
func TestEndOfAPlaceTakesNoMoreThanThePlace(t *testing.T) {
	const people = 10_000
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, nil)
	enter(t, line, 1, 2)
	used := func() int64 {
		info, err := rdb.Info(t.Context(), "memory").Result()
		require.NoError(t, err)
		_, rest, _ := strings.Cut(info, "\nused_memory:")
		text, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		return n
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	gate := newLine(t, rdb, nil) // it has seen none of them
	tickThrough(t, gate)
	bare := used()
	joined := make([]queue.Standing, people)
	crowd(t, people, func(i int) error {
		var err error
		joined[i], err = line.Join(context.Background(), queue.Arrival{Visitor: visitor(1000 + i)})
		return err
	})
	advance(t, line, rdb, time.Minute)
	tickThrough(t, line)
	stays := used() - bare
	crowd(t, people, func(i int) error {
		_, err := line.Leave(context.Background(), queue.Holding{Visitor: joined[i].Visitor, Place: joined[i].Place})
		return err
	})
	ends := used() - bare
	before := heap()
	tickThrough(t, gate)
	knows := heap() - before
	t.Logf("bytes for each in Redis: %d who stays away, %d who has left; %d at a gate", stays/people, ends/people, knows/people)
	require.LessOrEqual(t, ends, stays*3/2)
	require.Less(t, ends/people, int64(400))
	require.EqualValues(t, people, rdb.ZCard(t.Context(), "qg:{checkout}:ended").Val())
	_, over := gate.Ended(joined[0].Visitor, joined[0].Place)
	require.True(t, over)

	advance(t, line, rdb, 40*time.Minute)
	tickThrough(t, line)
	require.LessOrEqual(t, rdb.ZCard(t.Context(), "qg:{checkout}:ended").Val(), int64(2), "they are forgotten, but for the sessions that ended just now")
}
