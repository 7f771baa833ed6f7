package queue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
)

// minute is a draw's distance from the next.
const minute = 60_000

func drawing(o *queue.Options) {
	o.Method, o.DrawKey = queue.Random, []byte("a key for the draws of the tests")
}

// toDraw moves room time to a moment before (negative) or after the next draw.
func toDraw(t *testing.T, line *queue.Line, rdb redis.Cmdable, offset time.Duration) {
	t.Helper()
	_, err := line.Tick(t.Context())
	require.NoError(t, err)
	at := now(t, line)
	advance(t, line, rdb, time.Duration(minute-at%minute)*time.Millisecond+offset)
	_, err = line.Tick(t.Context())
	require.NoError(t, err)
}

func TestWhoJoinsBeforeADrawSharesItsPlacesByLot(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, drawing)
		inside := enter(t, line, 1, 2)
		toDraw(t, line, rdb, 5*time.Second) // a whole minute until the next one
		const people = 30
		early := make([]queue.Standing, people)
		for n := range people {
			s := join(t, line, 100+n)
			require.EqualValues(t, -1, s.Ahead, "no number before the draw")
			require.False(t, s.WaitKnown)
			early[n] = touch(t, line, s)
			require.Equal(t, queue.Waiting, early[n].State)
			require.EqualValues(t, -1, early[n].Ahead)
		}
		release(t, line, inside[0])
		toDraw(t, line, rdb, -2*time.Second)
		for n := range early {
			early[n] = touch(t, line, early[n])
			require.Equal(t, queue.Waiting, early[n].State, "nobody is admitted before the draw")
		}

		toDraw(t, line, rdb, 100*time.Millisecond)
		late := touch(t, line, join(t, line, 999))
		require.EqualValues(t, -1, late.Ahead)
		var order []int64
		for n := range early {
			if early[n] = touch(t, line, early[n]); early[n].State == queue.Ready {
				continue
			}
			require.GreaterOrEqual(t, early[n].Ahead, int64(0))
			order = append(order, early[n].Place)
			require.Less(t, early[n].Place, late.Place, "later joiners stand behind")
		}
		require.Len(t, order, people-1, "one slot was free")
		require.False(t, slices.IsSorted(order), "the lot decides, not the order of the joins")

		toDraw(t, line, rdb, time.Second)
		for n := range early {
			if early[n].State != queue.Ready {
				early[n] = touch(t, line, early[n])
			}
		}
		late = touch(t, line, late)
		require.GreaterOrEqual(t, late.Ahead, int64(people-1-2), "everybody of the first draw is ahead")
	})
}

func TestALotFollowsFromVisitorAndDrawAlone(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, drawing)
		enter(t, line, 1, 2)
		toDraw(t, line, rdb, 5*time.Second)
		first, again := join(t, line, 5), join(t, line, 5)
		require.Equal(t, first.Place, again.Place)
		_, err := line.Leave(t.Context(), queue.Holding{Visitor: first.Visitor, Place: first.Place})
		require.NoError(t, err)
		toDraw(t, line, rdb, 5*time.Second)
		rejoined := join(t, line, 5)
		require.NotEqual(t, first.Place%(minute*1000), rejoined.Place%(minute*1000), "another draw, another lot")
		other := newLine(t, rdb, func(o *queue.Options) {
			drawing(o)
			o.Room, o.DrawKey = "checkout", []byte("another key, which nobody knows")
		})
		require.Equal(t, rejoined.Place, join(t, other, 5).Place, "who has a place keeps it")
	})
}

// Whoever leaves and joins again before the draw, under a name that stays the same,
// stands in the next draw, and not at the place that has just ended.
func TestWhoLeavesBeforeTheDrawTakesPartInTheNext(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, drawing)
		inside := enter(t, line, 1, 2)
		toDraw(t, line, rdb, 5*time.Second)
		first, other := touch(t, line, join(t, line, 5)), touch(t, line, join(t, line, 6))
		require.Equal(t, queue.Ended, leave(t, line, first).State)
		again := touch(t, line, join(t, line, 5))
		require.Equal(t, queue.Waiting, again.State)
		require.Greater(t, again.Place/(minute*1000), other.Place/(minute*1000), "behind those who stayed")
		toDraw(t, line, rdb, time.Second)
		again, other = touch(t, line, again), touch(t, line, other)
		require.EqualValues(t, -1, again.Ahead)
		require.EqualValues(t, 0, other.Ahead)
		release(t, line, inside[0])
		require.Equal(t, queue.Ready, touch(t, line, other).State)
		toDraw(t, line, rdb, time.Second)
		release(t, line, inside[1])
		require.Equal(t, queue.Ready, touch(t, line, again).State)
	})
}

func TestARoomThatRejectsHasNoLine(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Method = queue.Reject })
		inside := enter(t, line, 1, 2)
		s := join(t, line, 3)
		require.Equal(t, queue.Full, s.Refusal)
		require.Zero(t, s.Waiting)
		release(t, line, inside[0])
		require.Equal(t, queue.Ready, join(t, line, 4).State)
	})
}

func move(t *testing.T, line *queue.Line, s queue.Standing, to int) queue.Standing {
	t.Helper()
	moved, err := line.Move(t.Context(), sign(s), visitor(to))
	require.NoError(t, err)
	return moved
}

func TestAPlaceMovesToThePersonOnce(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		enter(t, line, 1, 2)
		first, second := touch(t, line, join(t, line, 10)), touch(t, line, join(t, line, 11))
		touch(t, line, join(t, line, 12))

		owner := move(t, line, second, 50)
		require.Equal(t, second.Place, owner.Place)
		require.Equal(t, queue.Waiting, owner.State)
		require.Equal(t, queue.Moved, touch(t, line, second).Why, "the first ticket is void")
		require.Equal(t, owner.Place, move(t, line, second, 50).Place, "repeated: the same")
		require.Equal(t, queue.Unknown, move(t, line, second, 60).State, "a moved place moves to nobody else")

		require.Equal(t, first.Place, move(t, line, first, 50).Place, "the earlier of two places stays")
		third := touch(t, line, join(t, line, 13))
		require.Equal(t, first.Place, move(t, line, third, 50).Place)
		require.Equal(t, queue.Moved, touch(t, line, third).Why)
		require.EqualValues(t, 2, touch(t, line, join(t, line, 12)).Waiting)
	})
}

func TestMovingToOneselfIsALookup(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		enter(t, line, 1, 2)
		s := join(t, line, 10)
		require.Equal(t, queue.Away, move(t, line, s, 10).State, "no sign of life")
		require.Equal(t, s.Place, move(t, line, s, 10).Place)
		require.Equal(t, queue.Unknown, move(t, line, queue.Standing{Visitor: visitor(11)}, 11).State)
	})
}

func TestAPassDoesNotMove(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		active := enter(t, line, 1, 1)[0]
		active.Place = active.Lease.Place
		require.Equal(t, queue.Unknown, move(t, line, active, 50).State)
		require.Equal(t, queue.Active, claim(t, line, active).State)
	})
}

func TestHintsNameWhoIsAdmittedAndWhoseStayEnds(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		sub := rdb.Subscribe(t.Context(), line.Keys()[0])
		defer func() { _ = sub.Close() }()
		_, err := sub.Receive(t.Context())
		require.NoError(t, err)
		s := join(t, line, 1)
		message, err := sub.ReceiveMessage(t.Context())
		require.NoError(t, err)
		require.Equal(t, visitor(1), message.Payload)
		release(t, line, s)
		message, err = sub.ReceiveMessage(t.Context())
		require.NoError(t, err)
		require.Equal(t, visitor(1), message.Payload)
	})
}
