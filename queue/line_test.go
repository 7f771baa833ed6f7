package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// onEach runs a test of the line on the real Redis and on the embedded one.
func onEach(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	for name, start := range queuetest.Backends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// newLine returns a configured line; tests give what differs.
func newLine(t testing.TB, rdb redis.Scripter, change func(*queue.Options)) *queue.Line {
	t.Helper()
	opts := queue.Options{
		Redis: rdb, Room: "checkout", Timeout: queuetest.Timeout,
		Limits: queue.Limits{Slots: 2}, ClaimWindow: 90 * time.Second, WaitingTimeout: 30 * time.Minute,
	}
	if change != nil {
		change(&opts)
	}
	line, err := queue.New(opts)
	require.NoError(t, err)
	require.NoError(t, line.Configure(t.Context()))
	return line
}

func visitor(n int) string { return fmt.Sprintf("VISITOR%019d", n) }

func join(t *testing.T, line *queue.Line, n int) queue.Standing {
	t.Helper()
	s, err := line.Join(context.Background(), queue.Arrival{Visitor: visitor(n)})
	require.NoError(t, err)
	return s
}

// tickThrough ticks until nothing is left to do at this moment.
func tickThrough(t *testing.T, line *queue.Line) (calls int) {
	t.Helper()
	for again := true; again; calls++ {
		var err error
		again, err = line.Tick(t.Context())
		require.NoError(t, err)
	}
	return calls
}

// sign is a sign of life by the ticket that went out with a standing: the one of a pass
// is due at its end.
func sign(s queue.Standing) queue.Sign {
	if s.State == queue.Ready {
		s.Due = s.Lease.End
	}
	return queue.Sign{
		Visitor: s.Visitor, Place: s.Place, Generation: s.Room.Generation, Epoch: s.Room.Epoch, Seen: s.Seen,
		Due: s.Due, Ahead: s.Ahead, Joined: s.Joined,
	}
}

func touch(t *testing.T, line *queue.Line, s queue.Standing) queue.Standing {
	t.Helper()
	next, err := line.Touch(context.Background(), sign(s))
	require.NoError(t, err)
	return next
}

func holding(s queue.Standing) queue.Holding {
	return queue.Holding{
		Visitor: s.Visitor, Admission: s.Lease.Admission, Place: s.Lease.Place,
		Generation: s.Room.Generation, Epoch: s.Room.Epoch, Active: s.State == queue.Active, End: s.Lease.End,
	}
}

func claim(t *testing.T, line *queue.Line, s queue.Standing) queue.Standing {
	t.Helper()
	next, err := line.Claim(context.Background(), holding(s))
	require.NoError(t, err)
	return next
}

func claimOrRenew(t *testing.T, line *queue.Line, s queue.Standing) queue.Standing {
	t.Helper()
	next, err := line.Renew(t.Context(), holding(s))
	require.NoError(t, err)
	require.Equal(t, queue.Active, next.State)
	return next
}

func advance(t *testing.T, line *queue.Line, rdb redis.Cmdable, d time.Duration) {
	t.Helper()
	require.NoError(t, line.Advance(t.Context(), rdb, d))
}

func release(t *testing.T, line *queue.Line, s queue.Standing) queue.Standing {
	t.Helper()
	next, err := line.Release(context.Background(), holding(s))
	require.NoError(t, err)
	return next
}

// enter joins and claims until n people hold slots; it needs a free room.
func enter(t *testing.T, line *queue.Line, from, n int) []queue.Standing {
	t.Helper()
	inside := make([]queue.Standing, n)
	for i := range inside {
		s := join(t, line, from+i)
		require.Equal(t, queue.Ready, s.State, "visitor %d of an empty room", from+i)
		inside[i] = claim(t, line, s)
		require.Equal(t, queue.Active, inside[i].State)
	}
	return inside
}

func TestAFreeRoomAdmitsAtTheJoin(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		s := join(t, line, 1)
		require.Equal(t, queue.Ready, s.State)
		require.NotEmpty(t, s.Lease.Admission)
		require.Equal(t, s.Room.Now+90_000, s.Lease.End)
		require.Equal(t, s.Room.Clock.Add(90*time.Second), s.Lease.Until)
	})
}

func TestAFullRoomGivesPlacesInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		enter(t, line, 1, 2)
		var last queue.Standing
		for n := range 5 {
			s := join(t, line, 10+n)
			require.Equal(t, queue.Away, s.State, "newcomers start away")
			require.Greater(t, s.Place, last.Place)
			require.EqualValues(t, n, s.Ahead)
			last = s
		}
		s := touch(t, line, last)
		require.Equal(t, queue.Waiting, s.State)
		require.Equal(t, last.Place, s.Place)
		require.EqualValues(t, 4, s.Ahead)
		require.EqualValues(t, 5, s.Waiting)
		require.EqualValues(t, 0, s.Behind)
	})
}

func TestEveryCallRepeatedGivesTheSameAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		first := join(t, line, 1)
		require.Equal(t, first.Lease.Admission, join(t, line, 1).Lease.Admission, "join")
		active := claim(t, line, first)
		require.Equal(t, active.Lease, claim(t, line, first).Lease, "claim")
		require.Equal(t, queue.Ended, release(t, line, active).State)
		again := release(t, line, active)
		require.Equal(t, queue.Ended, again.State, "release")
		require.Equal(t, queue.Released, again.Why)

		enter(t, line, 2, 2)
		waiting := join(t, line, 9)
		require.Equal(t, waiting.Place, join(t, line, 9).Place, "join of who waits")
		require.Equal(t, waiting.Place, touch(t, line, waiting).Place)
		require.EqualValues(t, 1, touch(t, line, waiting).Waiting, "touch")
	})
}

func TestParallelJoinsOfOneVisitorGiveOnePlace(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		gates := []*queue.Line{newLine(t, rdb, nil), newLine(t, rdb, nil)}
		enter(t, gates[0], 1, 2)
		const parallel = 50
		places := make([]int64, parallel)
		var group sync.WaitGroup
		for i := range parallel {
			group.Go(func() {
				s, err := gates[i%2].Join(context.Background(), queue.Arrival{Visitor: visitor(7)})
				if err == nil {
					places[i] = s.Place
				}
			})
		}
		group.Wait()
		for _, place := range places {
			require.Equal(t, places[0], place)
		}
		room, _ := gates[0].Room()
		require.NotZero(t, places[0])
		require.EqualValues(t, 1, join(t, gates[0], 7).Room.Waiting, "room says %+v", room)
	})
}

func TestTheFrontIsAdmittedWhenASlotIsFreed(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		front := touch(t, line, join(t, line, 10))
		second := touch(t, line, join(t, line, 11))
		require.Equal(t, queue.Ended, release(t, line, inside[0]).State)

		newcomer := join(t, line, 12)
		require.Equal(t, queue.Away, newcomer.State, "nobody gets in past those who wait")
		require.Equal(t, queue.Waiting, touch(t, line, second).State)
		ready := touch(t, line, front)
		require.Equal(t, queue.Ready, ready.State)
		require.Equal(t, queue.Active, claim(t, line, ready).State)
	})
}

func TestOverduePeopleStepAsideAndKeepTheirPlace(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		silent := touch(t, line, join(t, line, 10))
		present := touch(t, line, join(t, line, 11))

		advance(t, line, rdb, 20*time.Second)
		present = touch(t, line, present)
		require.Equal(t, queue.Waiting, present.State)
		_, err := line.Tick(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 0, touch(t, line, present).Ahead, "the absent are not counted")

		release(t, line, inside[0])
		require.Equal(t, queue.Ready, touch(t, line, present).State, "the absent cost no slot")
		back := touch(t, line, silent)
		require.Equal(t, silent.Place, back.Place, "on return they stand where they stood")
		require.Equal(t, queue.Waiting, back.State)
		behind := touch(t, line, join(t, line, 12))
		release(t, line, inside[1])
		require.Equal(t, queue.Waiting, touch(t, line, behind).State)
		require.Equal(t, queue.Ready, touch(t, line, back).State, "and are admitted first")
	})
}

func TestReturningToOnesTurnAdmitsInTheSameAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		s := touch(t, line, join(t, line, 10))
		advance(t, line, rdb, time.Minute)
		_, err := line.Tick(t.Context())
		require.NoError(t, err)
		release(t, line, inside[0])
		require.Equal(t, queue.Ready, touch(t, line, s).State)
	})
}

// A pass that nobody takes up falls back to its place. Whoever comes back with the ticket
// that went out with it has heard of the pass, and the third such pass ends the stay;
// whoever never got the answer keeps the place. That ends, too, for a client may hide
// what it has heard.
func TestAnUnclaimedPassFallsBackToItsPlace(t *testing.T) {
	for name, test := range map[string]struct {
		passes int // so many, then the stay is over
		shows  func(before, ready queue.Standing) queue.Standing
	}{
		"told of each":      {3, func(_, ready queue.Standing) queue.Standing { return ready }},
		"never told of one": {9, func(before, _ queue.Standing) queue.Standing { return before }},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, rdb *redis.Client) {
				line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
				inside := enter(t, line, 1, 1)
				sleeper := touch(t, line, join(t, line, 10))
				other := touch(t, line, join(t, line, 11))
				place := sleeper.Place
				release(t, line, inside[0])

				admissions := map[string]bool{}
				for n := 1; ; n++ {
					ready := touch(t, line, sleeper)
					require.Equal(t, queue.Ready, ready.State)
					admissions[ready.Lease.Admission] = true
					advance(t, line, rdb, 91*time.Second)
					other = touch(t, line, other)
					require.Equal(t, queue.Ready, other.State, "the slot is given on at once")
					active := claim(t, line, other)
					require.Equal(t, queue.Active, active.State)
					require.NotEqual(t, queue.Active, claim(t, line, ready).State, "a slot given on is never revived")
					back := touch(t, line, test.shows(sleeper, ready))
					again := touch(t, line, test.shows(sleeper, ready))
					require.Equal(t, back.State, again.State, "the same sign twice")
					if n == test.passes {
						require.Equal(t, queue.Ended, back.State)
						require.Equal(t, queue.Expired, back.Why)
						break
					}
					require.Equal(t, queue.Waiting, back.State, "after %d passes", n)
					require.Equal(t, place, back.Place)
					if test.shows(sleeper, ready).State == queue.Ready {
						sleeper = back
					}
					release(t, line, active)
					other = touch(t, line, join(t, line, 11))
				}
				require.Len(t, admissions, test.passes, "each admission has a name of its own")
			})
		})
	}
}

// Whoever has heard of one pass and not of the next is not held to have heard of both,
// whatever ticket they come back with.
func TestOnlyThePassOfTheTicketCountsAsHeardOf(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
		active := enter(t, line, 1, 1)[0]
		sleeper := touch(t, line, join(t, line, 10))
		turn := func(shown queue.Standing) queue.Standing {
			require.Equal(t, queue.Waiting, touch(t, line, shown).State)
			release(t, line, active)
			ready := touch(t, line, shown)
			require.Equal(t, queue.Ready, ready.State)
			return ready
		}
		lapse := func(shown queue.Standing) queue.Standing {
			ready := turn(shown)
			other := touch(t, line, join(t, line, 11))
			advance(t, line, rdb, 91*time.Second)
			active = claim(t, line, touch(t, line, other))
			require.Equal(t, queue.Active, active.State)
			return ready
		}
		heard := lapse(sleeper) // weighs three of nine
		for range 5 {           // and each of these one
			lapse(heard)
		}
		require.Equal(t, queue.Active, claim(t, line, turn(heard)).State)
	})
}

func TestAnExpiredSlotNobodyWantsStaysItsHolders(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
		ready := join(t, line, 1)
		advance(t, line, rdb, 100*time.Second)
		active := claim(t, line, ready)
		require.Equal(t, queue.Active, active.State)
		advance(t, line, rdb, 6*time.Minute)
		renewed, err := line.Renew(t.Context(), holding(active))
		require.NoError(t, err)
		require.Equal(t, queue.Active, renewed.State)
		require.Greater(t, renewed.Lease.End, renewed.Room.Now)
	})
}

func TestARoomLeftAloneIsEmptyAgain(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		enter(t, line, 1, 2)
		for n := range 5 {
			touch(t, line, join(t, line, 10+n))
		}
		for range 12 {
			advance(t, line, rdb, 5*time.Minute)
			_, err := line.Tick(t.Context())
			require.NoError(t, err)
		}
		room, ok := line.Room()
		require.True(t, ok)
		require.Zero(t, room.Waiting)
		require.Zero(t, room.Holding)
		for _, key := range line.Keys()[1:10] {
			exists, err := rdb.Exists(t.Context(), key).Result()
			require.NoError(t, err)
			require.Zero(t, exists, key)
		}
	})
}

func TestRequestsThatOverlapDoNotKeepASlotForEver(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) {
			o.Limits.Slots, o.DisableRenewal, o.MaxRequest = 1, true, 2*time.Minute
			o.PresenceWindow = time.Hour
		})
		active := enter(t, line, 1, 1)[0]
		waiting := touch(t, line, join(t, line, 2))
		last := active.Lease.Started + (5+2)*60_000
		for now(t, line) < last-25_000 { // one request after the other, before the last is over
			h := holding(active)
			h.Flight = 30 * time.Second
			kept, err := line.Renew(t.Context(), h)
			require.NoError(t, err)
			require.Equal(t, queue.Active, kept.State, "in flight, and so kept")
			require.LessOrEqual(t, kept.Lease.End, last)
			advance(t, line, rdb, 20*time.Second)
			waiting = touch(t, line, waiting)
		}
		advance(t, line, rdb, 40*time.Second)
		require.Equal(t, queue.Ready, touch(t, line, waiting).State, "max_request after the session's end it is over")
	})
}

func TestASessionThatIsNotRenewedIsOverAtItsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.DisableRenewal = true })
		active := enter(t, line, 1, 1)[0]
		advance(t, line, rdb, 6*time.Minute)
		over := claim(t, line, active)
		require.Equal(t, queue.Ended, over.State, "nobody wants the slot, and still it is over")
		require.Equal(t, queue.Expired, over.Why)
	})
}

func TestASessionEndsAtItsMaximum(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.SessionMax = 12 * time.Minute })
		active := enter(t, line, 1, 1)[0]
		start := active.Lease.Started
		for range 2 {
			advance(t, line, rdb, 4*time.Minute)
			renewed, err := line.Renew(t.Context(), holding(active))
			require.NoError(t, err)
			require.LessOrEqual(t, renewed.Lease.End, start+12*60_000)
			require.GreaterOrEqual(t, renewed.Lease.End, active.Lease.End, "never backwards")
			active = renewed
		}
		require.Equal(t, start+12*60_000, active.Lease.End)
	})
}

func TestLeavingEndsAPlaceForGood(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		gates := []*queue.Line{newLine(t, rdb, nil), newLine(t, rdb, nil)}
		enter(t, gates[0], 1, 2)
		s := touch(t, gates[0], join(t, gates[0], 10))
		left, err := gates[0].Leave(t.Context(), queue.Holding{Visitor: s.Visitor, Place: s.Place})
		require.NoError(t, err)
		require.Equal(t, queue.Left, left.Why)
		require.Equal(t, queue.Ended, touch(t, gates[1], s).State, "the old ticket is void")
		_, err = gates[1].Tick(t.Context())
		require.NoError(t, err)
		why, over := gates[1].Ended(s.Visitor, s.Place)
		require.True(t, over, "the other gate hears of it")
		require.Equal(t, queue.Left, why)
		again := join(t, gates[1], 10)
		require.Greater(t, again.Place, s.Place, "joining again is at the end")
		_, over = gates[1].Ended(again.Visitor, again.Place)
		require.False(t, over, "the new place is not refuted by the old end")
	})
}

func TestReleasingAnEarlierAdmissionDoesNotTouchALaterOne(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		first := enter(t, line, 1, 1)[0]
		release(t, line, first)
		second := claim(t, line, join(t, line, 1))
		require.NotEqual(t, first.Lease.Admission, second.Lease.Admission)
		require.Equal(t, queue.Ended, release(t, line, first).State)
		require.Equal(t, queue.Active, claim(t, line, second).State)
	})
}

func TestTicketsOfUnknownPlacesAreRestoredInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		enter(t, line, 1, 2)
		var tickets []queue.Standing
		for n := range 5 {
			tickets = append(tickets, touch(t, line, join(t, line, 10+n)))
		}
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		require.NoError(t, line.Configure(t.Context()))
		newcomer := join(t, line, 99)
		for i := range tickets {
			tickets[len(tickets)-1-i] = touch(t, line, tickets[len(tickets)-1-i])
		}
		for i, s := range tickets {
			require.NotEqual(t, queue.Ended, s.State)
			require.Less(t, s.Place, newcomer.Place, "newcomers stand behind")
			if i > 0 {
				require.Greater(t, s.Place, tickets[i-1].Place)
			}
		}
	})
}

func TestOneShotClientsHoldAQuarterOfTheSlots(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 8 })
		ready := 0
		for n := range 50 {
			if join(t, line, 100+n).State == queue.Ready {
				ready++
			}
		}
		require.Equal(t, 2, ready)
		person := touch(t, line, join(t, line, 1))
		require.Equal(t, queue.Ready, person.State, "a person who comes back finds a slot")
	})
}

func TestAFullLineRefusesNewcomersButNotTheReturning(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.MaxWaiting = 2 })
		enter(t, line, 1, 2)
		first := touch(t, line, join(t, line, 10))
		touch(t, line, join(t, line, 11))
		refused := join(t, line, 12)
		require.Equal(t, queue.Full, refused.Refusal)
		require.Equal(t, queue.Unknown, refused.State)
		require.Zero(t, refused.Place)
		advance(t, line, rdb, time.Minute)
		_, err := line.Tick(t.Context())
		require.NoError(t, err)
		touch(t, line, join(t, line, 13))
		touch(t, line, join(t, line, 14))
		require.Equal(t, queue.Waiting, touch(t, line, first).State)
	})
}

func TestQueueAllAdmitsNobodyAndKeepsTheOrder(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		closed := newLine(t, rdb, func(o *queue.Options) { o.QueueAll = true })
		first := touch(t, closed, join(t, closed, 1))
		second := touch(t, closed, join(t, closed, 2))
		require.Equal(t, queue.Waiting, first.State)
		require.False(t, second.WaitKnown, "no number is invented")
		open := newLine(t, rdb, nil)
		require.Equal(t, queue.Ready, touch(t, open, first).State)
		require.Equal(t, queue.Ready, touch(t, open, second).State)
	})
}

func TestARoomWithoutLimitsAdmitsNobody(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line, err := queue.New(queue.Options{
			Redis: rdb, Room: "checkout", Timeout: queuetest.Timeout, Limits: queue.Limits{Slots: 1},
		})
		require.NoError(t, err)
		s := touch(t, line, join(t, line, 1))
		require.Equal(t, queue.Waiting, s.State)
		require.Equal(t, queue.Unconfigured, s.Room.State)
	})
}

func TestFourGatesAdmitOneRateTogether(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		limits := func(o *queue.Options) {
			o.Limits, o.PresenceWindow = queue.Limits{PerMinute: 3000, Burst: 50}, time.Hour
		}
		paused := newLine(t, rdb, func(o *queue.Options) {
			limits(o)
			o.QueueAll = true
		})
		for n := range 400 { // the line forms while nothing is saved up
			touch(t, paused, join(t, paused, n))
		}
		gates := []*queue.Line{newLine(t, rdb, limits), newLine(t, rdb, limits), newLine(t, rdb, limits), newLine(t, rdb, limits)}
		admitted := func() int64 {
			n, err := rdb.HGet(t.Context(), gates[0].Keys()[0], "admitted").Int64()
			if !errors.Is(err, redis.Nil) {
				require.NoError(t, err)
			}
			return n
		}
		_, err := gates[0].Tick(t.Context())
		require.NoError(t, err)
		before, began := admitted(), now(t, gates[0])
		for now(t, gates[0]) < began+5000 {
			advance(t, gates[0], rdb, 100*time.Millisecond)
			for _, gate := range gates {
				require.NoError(t, gate.StopClock(t.Context(), rdb)) // however slow the machine
				_, err := gate.Tick(t.Context())
				require.NoError(t, err)
			}
		}
		seconds := float64(now(t, gates[0])-began) / 1000
		rate := float64(3000-50+1) / 60
		require.InDelta(t, rate*seconds, float64(admitted()-before), 1.5+rate*0.2)
		require.LessOrEqual(t, float64(admitted()-before), 50+rate*seconds)
	})
}

// now is the room time of a line's last answer.
func now(t *testing.T, line *queue.Line) int64 {
	t.Helper()
	room, ok := line.Room()
	require.True(t, ok)
	return room.Now
}

// TestWhoAsksTwiceInOneCallIsOneNewcomer: each of them is told the same, among
// others and pages apart, whether it is a pass, a place or a refusal.
func TestWhoAsksTwiceInOneCallIsOneNewcomer(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.MaxWaiting = 70 })
		var asked []queue.Arrival
		for _, n := range []int{1, 2, 1, 3, 2, 4, 3, 4, 1} {
			asked = append(asked, queue.Arrival{Visitor: visitor(n)})
		}
		for n := range 80 {
			asked = append(asked, queue.Arrival{Visitor: visitor(10 + n)})
		}
		asked = append(asked, asked...)
		told, err := line.JoinAll(t.Context(), asked)
		require.NoError(t, err)
		require.Len(t, told, len(asked))
		first := map[string]queue.Standing{}
		count := map[queue.State]int{}
		places := map[int64]bool{}
		for i, s := range told {
			before, again := first[asked[i].Visitor]
			if again {
				require.Equal(t, before, s)
				continue
			}
			first[asked[i].Visitor] = s
			count[s.State]++
			places[s.Place] = true
		}
		require.Equal(t, map[queue.State]int{queue.Ready: 1, queue.Away: 70, queue.Unknown: 13}, count)
		require.Len(t, places, 1+70+1, "each place once, and none for the refused")
		room, ok := line.Room()
		require.True(t, ok)
		require.EqualValues(t, 70, room.Waiting)
		require.EqualValues(t, 1, room.Holding)
	})
}
