package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

func TestTheTallyIsWhatHappened(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 2 })
		other := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 2 })
		inside := enter(t, line, 1, 2)
		waiting := waitIn(t, line, 10, 3)
		release(t, line, inside[0])
		leave(t, line, waiting[1])
		advance(t, line, rdb, 2*time.Minute)
		touch(t, other, waiting[2]) // gets the slot of the pass that nobody took up
		touch(t, other, waiting[0]) // and its holder is back at the place

		got, err := other.Tally(t.Context())
		require.NoError(t, err)
		require.Equal(t, queue.Tally{
			Joined: 5, Admitted: 4, Claimed: 2, Lapsed: 1, Returned: got.Returned, Stepped: got.Stepped,
			Ended: map[queue.Why]int64{queue.Released: 1, queue.Left: 1, queue.Consumed: 0, queue.Moved: 0, queue.Expired: 0},
			Gates: 1, Oldest: got.Oldest,
		}, got)
		require.GreaterOrEqual(t, got.Returned, int64(1))

		same, err := line.Tally(t.Context())
		require.NoError(t, err)
		require.Equal(t, got, same, "every gate tells the same, and telling changes nothing")
	})
}

func TestTheOldestIsTheFirstWhoIsHere(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
		empty, err := line.Tally(t.Context())
		require.NoError(t, err)
		require.Zero(t, empty.Oldest)
		enter(t, line, 1, 1)
		first := waitIn(t, line, 10, 1)[0]
		for range 12 { // in steps that nobody is overdue in
			advance(t, line, rdb, 5*time.Second)
			first = touch(t, line, first)
		}
		waitIn(t, line, 20, 1)
		got, err := line.Tally(t.Context())
		require.NoError(t, err)
		require.GreaterOrEqual(t, got.Oldest, time.Minute)
		require.Less(t, got.Oldest, 2*time.Minute)
	})
}

func TestEachCallOfRedisIsObserved(t *testing.T) {
	rdb := queuetest.Real(t)
	calls := map[string]int{}
	var failed error
	line := newLine(t, rdb, func(o *queue.Options) {
		o.Observe = func(script string, took time.Duration, err error) {
			require.GreaterOrEqual(t, took, time.Duration(0))
			calls[script]++
			failed = errors.Join(failed, err)
		}
	})
	claim(t, line, join(t, line, 1))
	_, err := line.Tick(t.Context())
	require.NoError(t, err)
	_, err = line.Tally(t.Context())
	require.NoError(t, err)
	require.NoError(t, failed)
	delete(calls, "configure")
	require.Equal(t, map[string]int{"join": 1, "claim": 1, "tick": 1, "tally": 1}, calls)

	require.NoError(t, rdb.Close())
	_, err = line.Tally(t.Context())
	require.ErrorIs(t, err, queue.ErrUnavailable)
	require.Error(t, failed)
}
