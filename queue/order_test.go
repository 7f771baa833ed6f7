package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// order asks for the order lock of a pass.
func order(t *testing.T, line *queue.Line, s queue.Standing, request string) queue.Standing {
	t.Helper()
	h := holding(s)
	h.Order = request
	got, err := line.Claim(context.Background(), h)
	require.NoError(t, err)
	return got
}

// settle tells how an order ended.
func settle(line *queue.Line, s queue.Standing, request string, why queue.Why) {
	h := holding(s)
	h.Order = request
	line.Settle(context.Background(), h, why)
}

func TestOneRequestOfAPassOrdersAtATime(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		other := newLine(t, rdb, nil)
		ready := join(t, line, 1)
		var group sync.WaitGroup
		owners := make([]string, 100)
		for i := range owners {
			group.Go(func() {
				h := holding(ready)
				h.Order = fmt.Sprintf("request-%d", i)
				s, err := []*queue.Line{line, other}[i%2].Claim(context.Background(), h)
				if err == nil && s.State == queue.Active {
					owners[i] = s.Lease.Order
				}
			})
		}
		group.Wait()
		require.Contains(t, owners[0], "request-")
		for _, owner := range owners {
			require.Equal(t, owners[0], owner, "everybody is told the same owner")
		}

		settle(other, ready, owners[0], queue.Failed)
		require.Equal(t, "second", order(t, line, ready, "second").Lease.Order, "a failed order gives the lock back")
		require.Equal(t, "second", order(t, other, ready, "second").Lease.Order, "whoever has it gets it again")
		settle(line, ready, owners[0], queue.Failed)
		require.Equal(t, "second", order(t, line, ready, "third").Lease.Order, "nobody frees the lock of another")
	})
}

func TestASuccessfulOrderUsesThePassUpOnce(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
		other := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
		inside := enter(t, line, 1, 1)[0]
		next := touch(t, line, join(t, line, 2))
		order(t, line, inside, "first")

		settle(other, inside, "second", queue.Consumed)
		require.Equal(t, queue.Active, claim(t, line, inside).State, "the other order is still at the shop")
		require.Equal(t, 1, other.Unsettled(), "it waits for the end of that one")
		settle(line, inside, "first", queue.Consumed)
		settle(line, inside, "first", queue.Consumed)
		require.NoError(t, other.SettleRest(t.Context()))
		require.Zero(t, other.Unsettled())

		over := order(t, line, inside, "first")
		require.Equal(t, queue.Ended, over.State)
		require.Equal(t, queue.Consumed, over.Why)
		why, known := other.Ended(inside.Visitor, inside.Place)
		require.True(t, known)
		require.Equal(t, queue.Consumed, why)
		next = touch(t, line, next)
		require.Equal(t, queue.Ready, next.State, "the slot is free at once")
		require.EqualValues(t, 1, next.Room.Holding, "and was freed once")
	})
}

func TestTheLockOfAGateThatDiedIsGoneAfterFifteenSeconds(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) {
			o.Limits.Slots, o.Session, o.DisableRenewal = 1, 10*time.Second, true
		})
		inside := enter(t, line, 1, 1)[0]
		next := touch(t, line, join(t, line, 2))
		advance(t, line, rdb, 9*time.Second)
		require.Equal(t, "first", order(t, line, inside, "first").Lease.Order)

		advance(t, line, rdb, 14*time.Second)
		_, err := line.Tick(t.Context())
		require.NoError(t, err)
		require.Equal(t, queue.Waiting, touch(t, line, next).State, "a slot with an order under way is not given on, its session over or not")
		require.Equal(t, "first", order(t, line, inside, "second").Lease.Order)

		// A request in flight keeps the lock.
		flying := holding(inside)
		flying.Order, flying.Flight = "first", 30*time.Second
		_, err = line.Renew(t.Context(), flying)
		require.NoError(t, err)
		advance(t, line, rdb, 14*time.Second)
		require.Equal(t, "first", order(t, line, inside, "second").Lease.Order)

		advance(t, line, rdb, 2*time.Second)
		require.Equal(t, "second", order(t, line, inside, "second").Lease.Order, "nothing was heard of it for 15 s")
	})
}

func TestALockComesBackAfterALossAndNoOrderBeginsBefore(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		order(t, line, inside[0], "first")
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		_, err := line.Tick(t.Context())
		require.NoError(t, err)
		require.True(t, line.Lost())
		require.NoError(t, line.Heal(t.Context()))

		for _, s := range inside {
			got := order(t, line, s, "second")
			require.Equal(t, queue.Active, got.State, "the pass is known again")
			require.Empty(t, got.Lease.Order, "no order begins")
			require.Positive(t, got.Room.Healing)
		}
		flying := holding(inside[0])
		flying.Order, flying.Flight = "first", 30*time.Second
		_, err = line.Renew(t.Context(), flying)
		require.NoError(t, err)
		advance(t, line, rdb, 14*time.Second)
		_, err = line.Renew(t.Context(), flying)
		require.NoError(t, err)
		advance(t, line, rdb, 11*time.Second)
		require.Equal(t, "first", order(t, line, inside[0], "second").Lease.Order, "the request in flight has brought its lock back")
		require.Equal(t, "second", order(t, line, inside[1], "second").Lease.Order, "whoever had none orders again")
	})
}

func TestWhatRedisDidNotTakeIsToldByRun(t *testing.T) {
	server := queuetest.Start(t)
	line := newLine(t, server.Client(t), func(o *queue.Options) { o.Timeout = 10 * time.Second })
	other := newLine(t, server.Client(t), nil)
	inside := enter(t, line, 1, 2)
	order(t, line, inside[1], "order")
	dump := server.Save(t)
	server.Kill()
	line.Settle(t.Context(), holding(inside[0]), queue.Released)
	settle(line, inside[1], "order", queue.Consumed)
	for i, want := range []queue.Why{queue.Released, queue.Consumed} {
		why, known := line.Ended(inside[i].Visitor, inside[i].Place)
		require.True(t, known, "this gate knows at once")
		require.Equal(t, want, why)
	}
	server.Restore(t, dump)

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- line.Run(ctx) }()
	for i, want := range []queue.Why{queue.Released, queue.Consumed} {
		require.Eventually(t, func() bool {
			s, err := other.Claim(context.Background(), holding(inside[i]))
			return err == nil && s.State == queue.Ended && s.Why == want
		}, 60*time.Second, 20*time.Millisecond, "the other gate is told that visitor %d is %s", i+1, want)
	}
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestAGateThatEndsTellsRedisFirst(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line, other := newLine(t, rdb, nil), newLine(t, rdb, nil)
		inside := enter(t, line, 1, 1)[0]
		order(t, line, inside, "first")
		settle(line, inside, "second", queue.Consumed)
		require.Equal(t, 1, line.Unsettled())
		settle(other, inside, "first", queue.Failed)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, line.Run(ctx), context.Canceled)
		require.Equal(t, queue.Ended, claim(t, other, inside).State)
	})
}

func TestOrdersThatFailDoNotKeepAPassForEver(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		const most, request = 10 * time.Minute, time.Minute
		line := newLine(t, rdb, func(o *queue.Options) { o.SessionMax, o.MaxRequest = most, request })
		pass := enter(t, line, 1, 1)[0]
		over := pass.Lease.Started + (most + request).Milliseconds()
		for i := 0; ; i++ {
			request := fmt.Sprintf("request-%d", i)
			got := order(t, line, pass, request)
			if got.State != queue.Active {
				require.Greater(t, got.Room.Now, over-15_000, "as long as a request in flight may keep it")
				return
			}
			require.LessOrEqual(t, got.Lease.End, over)
			settle(line, pass, request, queue.Failed)
			advance(t, line, rdb, 5*time.Second)
		}
	})
}

func TestOrdersThatFailInAnOutageFillNoMemory(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		away, cancel := context.WithCancel(context.Background())
		cancel()
		h := queue.Holding{Visitor: "visitor", Order: "request"}
		for range 10_050 {
			line.Settle(away, h, queue.Failed)
		}
		require.Equal(t, 10_000, line.Unsettled())
		line.Settle(away, h, queue.Consumed)
		require.Equal(t, 10_001, line.Unsettled(), "a success is not forgotten")
	})
}
