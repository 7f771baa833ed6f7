package queue_test

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

func TestAPauseEndsWithoutABurst(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		limits := func(o *queue.Options) { o.Limits = queue.Limits{PerMinute: 600, Burst: 10} }
		open := newLine(t, rdb, limits)
		enter(t, open, 1000, 10) // the burst of the beginning
		paused := newLine(t, rdb, func(o *queue.Options) {
			limits(o)
			o.QueueAll = true
		})
		var line []queue.Standing
		for n := range 30 {
			line = append(line, touch(t, paused, join(t, paused, n)))
		}
		for range 5 {
			advance(t, paused, rdb, 5*time.Second)
			for i := range line {
				line[i] = touch(t, paused, line[i])
				require.Equal(t, queue.Waiting, line[i].State, "paused, and nobody is lost")
			}
		}
		require.NoError(t, open.Configure(t.Context()))
		began, admitted := now(t, open), 0
		for i := range line {
			if touch(t, open, line[i]).State == queue.Ready {
				admitted++
			}
		}
		passed := float64(now(t, open)-began) / 1000
		require.LessOrEqual(t, float64(admitted), 1+passed*10, "no more than time has earned since")
	})
}

// Fifty a second are one every twenty milliseconds, not fifty at the tick.
func TestARateIsSpreadOverTheSecond(t *testing.T) {
	var admitted []int64
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		defer m.Close()
		rdb, err := queue.NewClient(queue.ClientOptions{
			Timeout: queuetest.Timeout,
			Dial:    func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		})
		require.NoError(t, err)
		defer func() { _ = rdb.Close() }()
		line, err := queue.New(queue.Options{
			Redis: rdb, Room: "sale", Timeout: queuetest.Timeout, Limits: queue.Limits{PerMinute: 3000},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		var mu sync.Mutex
		var group sync.WaitGroup
		group.Go(func() { _ = line.Run(ctx) })
		for n := range 400 {
			rng := rand.New(rand.NewPCG(uint64(n), 3))
			group.Go(func() {
				s, err := line.Join(ctx, queue.Arrival{Visitor: visitor(n)})
				for err == nil && (s.State == queue.Away || s.State == queue.Waiting) {
					if !sleep(ctx, time.Duration(float64(s.Poll)*(0.8+0.4*rng.Float64()))) {
						return
					}
					s, err = line.Touch(ctx, sign(s))
				}
				if err == nil && s.State == queue.Ready {
					mu.Lock()
					admitted = append(admitted, s.Lease.Started)
					mu.Unlock()
				}
			})
		}
		group.Wait()
	})
	slices.Sort(admitted)
	burst := admitted[0]
	most := 0
	for i, at := range admitted {
		if at < burst+2000 { // the burst of the beginning and the first polls
			continue
		}
		n := 0
		for j := i; j < len(admitted) && admitted[j] < at+100; j++ {
			n++
		}
		most = max(most, n)
	}
	require.Positive(t, most)
	// What 50 a second save up until a tick, 0.11 s at most, and in the tenth after it.
	require.LessOrEqual(t, most, 11, "in a tenth of a second")
}
