package stock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/examples/shop/stock"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// onEach runs a test on every Redis, with lanterns of which there are left.
func onEach(t *testing.T, left int, opts stock.Options, test func(*testing.T, *stock.Stock, *redis.Client)) {
	for name, start := range queuetest.Backends() {
		t.Run(name, func(t *testing.T) {
			client := start(t)
			s, err := stock.New(client, opts)
			require.NoError(t, err)
			filled, err := s.Fill(t.Context(), "lantern", stock.Count{}, left, nil)
			require.NoError(t, err)
			require.True(t, filled)
			test(t, s, client)
		})
	}
}

func order(visitor, event string, quantity int) stock.Order {
	return stock.Order{Product: "lantern", Visitor: visitor, EventID: event, Key: "key-" + visitor, Quantity: quantity}
}

func left(t *testing.T, s *stock.Stock) int {
	t.Helper()
	count, err := s.Look(t.Context(), "lantern")
	require.NoError(t, err)
	require.True(t, count.Known)
	return count.Left
}

func TestTwoHundredAtOnceTakeExactlyWhatThereIs(t *testing.T) {
	onEach(t, 100, stock.Options{}, func(t *testing.T, s *stock.Stock, _ *redis.Client) {
		var sold, soldOut atomic.Int64
		var everybody sync.WaitGroup
		for n := range 200 {
			everybody.Go(func() {
				o := order(fmt.Sprint("visitor-", n), fmt.Sprint("event-", n), 1)
				switch _, err := s.Take(t.Context(), o); {
				case err == nil:
					sold.Add(1)
				case errors.Is(err, stock.ErrSoldOut):
					soldOut.Add(1)
				}
			})
		}
		everybody.Wait()
		require.EqualValues(t, 100, sold.Load())
		require.EqualValues(t, 100, soldOut.Load())
		require.Zero(t, left(t, s))
	})
}

func TestWhoWantsMoreThanThereIsGetsNothing(t *testing.T) {
	onEach(t, 3, stock.Options{}, func(t *testing.T, s *stock.Stock, _ *redis.Client) {
		taken, err := s.Take(t.Context(), order("ann", "e1", 4))
		require.ErrorIs(t, err, stock.ErrSoldOut)
		require.Equal(t, 3, taken.Left)
		_, err = s.Take(t.Context(), order("ann", "e1", 3))
		require.NoError(t, err)
		require.Zero(t, left(t, s))
	})
}

func TestARepeatedOrderIsTakenOnce(t *testing.T) {
	onEach(t, 10, stock.Options{}, func(t *testing.T, s *stock.Stock, _ *redis.Client) {
		first, err := s.Take(t.Context(), order("ann", "e1", 2))
		require.NoError(t, err)
		require.Equal(t, stock.Taken{EventID: "e1", Left: 8}, first)

		again, err := s.Take(t.Context(), order("ann", "e2", 2))
		require.NoError(t, err)
		require.Equal(t, stock.Taken{EventID: "e1", Repeated: true, Left: 8}, again)

		other := order("ann", "e3", 2)
		other.Key = "another"
		had, err := s.Take(t.Context(), other)
		require.ErrorIs(t, err, stock.ErrOther)
		require.Equal(t, "e1", had.EventID)
		_, err = s.Take(t.Context(), order("ann", "e4", 1))
		require.ErrorIs(t, err, stock.ErrOther, "the same key for another quantity")
		require.Equal(t, 8, left(t, s))
	})
}

func TestWhatIsGivenBackComesBackOnce(t *testing.T) {
	onEach(t, 10, stock.Options{}, func(t *testing.T, s *stock.Stock, _ *redis.Client) {
		_, err := s.Take(t.Context(), order("ann", "e1", 2))
		require.NoError(t, err)
		require.NoError(t, s.Settle(t.Context(), "lantern", stock.Hold{Visitor: "ann", EventID: "e1"}))
		require.NoError(t, s.GiveBack(t.Context(), "lantern", stock.Hold{Visitor: "ann", EventID: "of-another"}))
		require.Equal(t, 8, left(t, s))
		for range 3 {
			require.NoError(t, s.GiveBack(t.Context(), "lantern", stock.Hold{Visitor: "ann", EventID: "e1"}))
		}
		require.Equal(t, 10, left(t, s))
		_, err = s.Take(t.Context(), order("ann", "e2", 1))
		require.NoError(t, err, "whoever's order came to nothing may order again")
	})
}

func TestOnlyHoldsThatNobodySettledAreOverdue(t *testing.T) {
	onEach(t, 10, stock.Options{Hold: time.Millisecond}, func(t *testing.T, s *stock.Stock, _ *redis.Client) {
		for _, visitor := range []string{"ann", "ben", "cleo"} {
			_, err := s.Take(t.Context(), order(visitor, "of-"+visitor, 1))
			require.NoError(t, err)
		}
		require.NoError(t, s.Settle(t.Context(), "lantern", stock.Hold{Visitor: "ann", EventID: "of-ann"}))
		require.NoError(t, s.GiveBack(t.Context(), "lantern", stock.Hold{Visitor: "ben", EventID: "of-ben"}))
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			holds, err := s.Overdue(t.Context(), "lantern", 10)
			require.NoError(c, err)
			require.Equal(c, []stock.Hold{{Visitor: "cleo", EventID: "of-cleo"}}, holds)
		}, 10*time.Second, time.Millisecond)
	})
}

func TestAStockThatWasLostIsFilledOnceAndKnowsItsBuyers(t *testing.T) {
	onEach(t, 10, stock.Options{}, func(t *testing.T, s *stock.Stock, client *redis.Client) {
		require.NoError(t, client.FlushAll(t.Context()).Err())
		_, err := s.Take(t.Context(), order("ann", "e1", 1))
		require.ErrorIs(t, err, stock.ErrUnknown)

		var orders []stock.Order
		for n := range 1200 { // more than one call takes
			orders = append(orders, order(fmt.Sprint("visitor-", n), fmt.Sprint("event-", n), 1))
		}
		filled, err := s.Fill(t.Context(), "lantern", stock.Count{}, 7, orders)
		require.NoError(t, err)
		require.True(t, filled)
		filled, err = s.Fill(t.Context(), "lantern", stock.Count{}, 9, nil)
		require.NoError(t, err)
		require.False(t, filled, "somebody was faster")
		require.Equal(t, 7, left(t, s))

		again, err := s.Take(t.Context(), order("visitor-1100", "e2", 1))
		require.NoError(t, err)
		require.Equal(t, stock.Taken{EventID: "event-1100", Repeated: true, Left: 7}, again)
	})
}

func TestAStockThatSellsIsNotFilled(t *testing.T) {
	onEach(t, 10, stock.Options{}, func(t *testing.T, s *stock.Stock, _ *redis.Client) {
		seen, err := s.Look(t.Context(), "lantern")
		require.NoError(t, err)
		_, err = s.Take(t.Context(), order("ann", "e1", 1))
		require.NoError(t, err)
		filled, err := s.Fill(t.Context(), "lantern", seen, 10, nil)
		require.NoError(t, err)
		require.False(t, filled)
		require.Equal(t, 9, left(t, s))
	})
}

// silent is a Redis that does not answer.
type silent struct{ redis.Scripter }

func (silent) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(errors.New("no answer"))
	return cmd
}

func TestARedisThatDoesNotAnswerIsNotSoldOut(t *testing.T) {
	s, err := stock.New(silent{}, stock.Options{})
	require.NoError(t, err)
	_, err = s.Take(t.Context(), order("ann", "e1", 1))
	require.ErrorContains(t, err, "no answer")
	require.NotErrorIs(t, err, stock.ErrSoldOut)
	require.NotErrorIs(t, err, stock.ErrUnknown)
}

func TestAHoldThatIsNoTimeIsRefused(t *testing.T) {
	_, err := stock.New(silent{}, stock.Options{Hold: time.Microsecond})
	require.EqualError(t, err, "stock: a hold of 1µs is too short: want at least 1ms")
}
