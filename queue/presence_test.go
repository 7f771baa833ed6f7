package queue_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// crowd runs f for n visitors, many at a time, as a fleet of gates would.
func crowd(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	const parallel = 400
	var group sync.WaitGroup
	failed := make(chan error, parallel)
	for worker := range parallel {
		group.Go(func() {
			for i := worker; i < n; i += parallel {
				if err := f(i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	select {
	case err := <-failed:
		require.NoError(t, err)
	default:
	}
}

func TestOneShotClientsInFrontDelayNobody(t *testing.T) {
	// So long that all of them count until the last has joined, however slow the machine.
	line := newLine(t, queuetest.Real(t), func(o *queue.Options) { o.Limits.Slots, o.PresenceWindow = 1, time.Hour })
	inside := enter(t, line, 1, 1)
	crowd(t, 20_000, func(i int) error {
		_, err := line.Join(context.Background(), queue.Arrival{Visitor: visitor(1000 + i)})
		return err
	})
	person := touch(t, line, join(t, line, 2))
	require.EqualValues(t, 20_000, person.Ahead, "they have just joined and count for a moment")
	release(t, line, inside[0])
	require.Equal(t, queue.Ready, touch(t, line, person).State, "the very next poll is the turn")
}

func TestPeopleWhoFallSilentDelayNobodyAndStopCounting(t *testing.T) {
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
	inside := enter(t, line, 1, 1)
	const silent = 20_000
	crowd(t, silent, func(i int) error {
		s, err := line.Join(context.Background(), queue.Arrival{Visitor: visitor(1000 + i)})
		if err == nil {
			_, err = line.Touch(context.Background(), sign(s))
		}
		return err
	})
	person := touch(t, line, join(t, line, 2))
	advance(t, line, rdb, 3*time.Minute)
	release(t, line, inside[0])
	calls, room := 0, queue.Room{}
	for again := true; again; calls++ {
		var err error
		again, err = line.Tick(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, calls, silent/64+10, "each call moves a page of them aside and says when more is left")
		room, _ = line.Room()
	}
	require.Zero(t, room.Waiting, "the absent are not counted")
	require.Equal(t, queue.Ready, touch(t, line, person).State)
}

func TestTwoTabsOfOneVisitorWhoseSessionIsOverAreBothToldSo(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
		inside := enter(t, line, 1, 1)
		touch(t, line, join(t, line, 2))
		advance(t, line, rdb, 6*time.Minute)
		tab := sign(inside[0])
		tab.Due = now(t, line)
		told, err := line.TouchAll(t.Context(), []queue.Sign{tab, tab})
		require.NoError(t, err)
		for _, s := range told {
			require.Equal(t, queue.Ended, s.State)
			require.Equal(t, queue.Expired, s.Why)
		}
	})
}

func TestAHiddenTabKeepsItsPlaceAndGetsIn(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		hidden := touch(t, line, join(t, line, 10))
		place := hidden.Place
		for range 5 { // a hidden tab polls once a minute
			for range 13 {
				advance(t, line, rdb, 5*time.Second)
				_, err := line.Tick(t.Context())
				require.NoError(t, err)
			}
			inside[0] = claimOrRenew(t, line, inside[0])
			inside[1] = claimOrRenew(t, line, inside[1])
			hidden = touch(t, line, hidden)
			require.Equal(t, queue.Waiting, hidden.State)
			require.Equal(t, place, hidden.Place)
		}
		advance(t, line, rdb, 30*time.Second)
		release(t, line, inside[0])
		advance(t, line, rdb, 35*time.Second)
		require.Equal(t, queue.Ready, touch(t, line, hidden).State)
	})
}

// Somebody far back is heard of seldom; that must not let those behind go first,
// nor make them absent.
func TestAFarFaithfulPollerIsNeverAbsentAndStaysAheadOfFresherPeople(t *testing.T) {
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, nil)
	enter(t, line, 1, 2)
	patient := newLine(t, rdb, func(o *queue.Options) { o.PresenceWindow = 24 * time.Hour })
	stay := func(from, n int) {
		crowd(t, n, func(i int) error {
			s, err := patient.Join(context.Background(), queue.Arrival{Visitor: visitor(from + i)})
			if err == nil {
				_, err = patient.Touch(context.Background(), sign(s))
			}
			return err
		})
	}
	stay(10_000, 3000)
	far := touch(t, line, join(t, line, 5))
	stay(20_000, 500)
	fresher := touch(t, line, join(t, line, 6))
	heard, asked := 0, 0
	for spent := time.Duration(0); spent < 10*time.Minute; {
		wait := time.Duration(float64(far.Poll) * 1.2) // as late as a poll may be
		spent += wait
		for left := wait; left > 0; left -= 900 * time.Millisecond {
			advance(t, line, rdb, min(left, 900*time.Millisecond))
		}
		tickThrough(t, line)
		ticket := sign(far)
		next, err := line.Touch(t.Context(), ticket)
		require.NoError(t, err)
		require.Equal(t, queue.Waiting, next.State)
		if asked++; next.Seen > 0 {
			heard++
		} else {
			next.Seen, next.Due = ticket.Seen, ticket.Due
		}
		require.Greater(t, next.Due, now(t, line), "in time until the next poll")
		away, err := rdb.ZScore(t.Context(), line.Keys()[4], far.Visitor).Result()
		require.ErrorIs(t, err, redis.Nil, "stood aside at %v", away)
		far = next
		fresher = touch(t, line, fresher)
		require.Less(t, far.Place, fresher.Place)
	}
	require.Less(t, heard, asked/2, "most polls of somebody far back cost Redis nothing (%d of %d heard)", heard, asked)
	t.Logf("%d polls, %d heard by Redis", asked, heard)
}

// The faster a line, the oftener its people are heard of. When it becomes slow, who was
// heard of as in a fast one is awaited as early as before.
func TestAFarPollerIsHeardInTimeWhenTheLineBecomesSlow(t *testing.T) {
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, closedTo)
	const people, rank = 9000, 8000
	fillLine(t, rdb, line, people)
	flow := func(perSecond int64) {
		require.NoError(t, rdb.HSet(t.Context(), line.Keys()[0], "flow", perSecond*1_000_000).Err())
		advance(t, line, rdb, 900*time.Millisecond)
		tickThrough(t, line)
	}
	flow(200)
	room, _ := line.Room()
	ticket := queue.Sign{Visitor: lineName(rank), Place: linePlace(rank), Due: math.MaxInt32, Epoch: room.Epoch, Ahead: -1}
	slow := false
	for range 20 {
		s, err := line.Touch(t.Context(), ticket)
		require.NoError(t, err)
		require.Equal(t, queue.Waiting, s.State)
		if s.Seen > 0 {
			ticket.Seen, ticket.Due = s.Seen, s.Due
		}
		if !slow {
			flow(0)
			slow = true
		}
		for left := time.Duration(float64(s.Poll) * 1.2); left > 0; left -= 900 * time.Millisecond {
			advance(t, line, rdb, min(left, 900*time.Millisecond))
		}
		tickThrough(t, line)
		require.Greater(t, ticket.Due, now(t, line), "in time until the next poll")
	}
}

// What a gate answers by itself, from an index of the line, is at most two per
// cent of the rank off.
func TestThePlaceOfSomebodyFarBackIsAtMostTwoPerCentOff(t *testing.T) {
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.PresenceWindow = time.Hour })
	enter(t, line, 1, 2)
	const people = 12_000
	standings := make([]queue.Standing, people)
	crowd(t, people, func(i int) (err error) {
		if standings[i], err = line.Join(context.Background(), queue.Arrival{Visitor: visitor(1000 + i)}); err == nil {
			standings[i], err = line.Touch(context.Background(), sign(standings[i]))
		}
		return err
	})
	for again := true; again; {
		var err error
		again, err = line.Tick(t.Context())
		require.NoError(t, err)
	}
	advance(t, line, rdb, time.Second)
	tickThrough(t, line)
	alone, worst := 0, 0.0
	for i := 0; i < people; i += 37 {
		exact, err := rdb.ZRank(t.Context(), line.Keys()[1], standings[i].Visitor).Result()
		require.NoError(t, err)
		ticket := sign(standings[i])
		ticket.Ahead = -1
		s, err := line.Touch(t.Context(), ticket)
		require.NoError(t, err)
		off := float64(max(s.Ahead-exact, exact-s.Ahead))
		if s.Seen > 0 {
			require.Zero(t, off, "Redis is exact, at %d", exact)
			continue
		}
		require.GreaterOrEqual(t, exact, int64(900), "the front is never estimated")
		alone++
		worst = max(worst, off/float64(exact))
	}
	require.Greater(t, alone, 200)
	require.LessOrEqual(t, worst, 0.02)
	t.Logf("%d answered without Redis, at most %.2f %% off", alone, 100*worst)
}

// Somebody far back has the longest time until the next sign; an end must be
// remembered as long as the ticket of that sign could bring the place back.
func TestAnEndIsRememberedAsLongAsItsTicketCouldBeShown(t *testing.T) {
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.WaitingTimeout = 10 * time.Minute })
	enter(t, line, 1, 2)
	patient := newLine(t, rdb, func(o *queue.Options) { o.PresenceWindow = 24 * time.Hour })
	crowd(t, 25_000, func(i int) error {
		s, err := patient.Join(context.Background(), queue.Arrival{Visitor: visitor(1000 + i)})
		if err == nil {
			_, err = patient.Touch(context.Background(), sign(s))
		}
		return err
	})
	far := touch(t, line, join(t, line, 5))
	require.Greater(t, far.Due-far.Room.Now, int64(130_000), "the longest there is")
	_, err := line.Leave(t.Context(), queue.Holding{Visitor: far.Visitor, Place: far.Place})
	require.NoError(t, err)
	last := far.Due + (10 * time.Minute).Milliseconds() // until then an unknown ticket is believed
	advance(t, line, rdb, time.Duration(last-now(t, line)-2000)*time.Millisecond)
	for again := true; again; {
		require.NoError(t, line.StopClock(t.Context(), rdb)) // however slow the machine
		again, err = line.Tick(t.Context())
		require.NoError(t, err)
	}
	require.Less(t, now(t, line), last)
	require.NoError(t, line.StopClock(t.Context(), rdb))
	back := touch(t, line, far)
	require.Equal(t, queue.Ended, back.State)
	require.Equal(t, queue.Left, back.Why)
}

// A ticket kept from an earlier stay is worth nothing, whatever its holder did
// since: died of age and joined again under the same id, or used the stay up.
func TestAnOldTicketBringsNobodyToTheFront(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		hoarded := touch(t, line, join(t, line, 10))
		advance(t, line, rdb, 45*time.Minute)
		for again := true; again; {
			var err error
			again, err = line.Tick(t.Context())
			require.NoError(t, err)
		}
		inside[0], inside[1] = touchActive(t, line, inside[0]), touchActive(t, line, inside[1])
		honest := touch(t, line, join(t, line, 20))
		rejoined := touch(t, line, join(t, line, 10))
		require.Greater(t, rejoined.Place, honest.Place)
		old := touch(t, line, hoarded)
		require.Equal(t, queue.Ended, old.State)
		require.Equal(t, rejoined.Place, touch(t, line, rejoined).Place, "the stay of now is not touched")
		require.EqualValues(t, 0, touch(t, line, honest).Ahead)
		require.Equal(t, queue.Unknown, move(t, line, hoarded, 77).State, "nor can it be moved to a person")
	})
}

// Nobody remembers how an earlier stay ended, and its visitor is inside again, or in
// line: who shows only what was given then is told nothing of the place or the pass.
func TestNothingOfALaterStayIsToldToAnEarlierOne(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		first := enter(t, line, 1, 1)[0]
		release(t, line, first)
		advance(t, line, rdb, time.Hour)
		tickThrough(t, line)
		_, known := line.Ended(first.Visitor, first.Place)
		require.False(t, known, "the end is forgotten")
		second := enter(t, line, 1, 1)[0]
		require.NotEqual(t, first.Lease.Admission, second.Lease.Admission)

		old, ticket := holding(first), sign(first)
		ready, flight, order := old, old, old
		ready.Active, flight.Flight, order.Order = false, time.Minute, "request"
		asked := map[string]func() (queue.Standing, error){
			"touch": func() (queue.Standing, error) { return line.Touch(t.Context(), ticket) },
			"look":  func() (queue.Standing, error) { return line.Look(t.Context(), ticket) },
		}
		for name, h := range map[string]queue.Holding{"active": old, "ready": ready, "in flight": flight, "an order": order} {
			asked["claim, "+name] = func() (queue.Standing, error) { return line.Claim(t.Context(), h) }
			asked["renew, "+name] = func() (queue.Standing, error) { return line.Renew(t.Context(), h) }
		}
		ask := func() {
			for name, ask := range asked {
				told, err := ask()
				require.NoError(t, err)
				require.Contains(t, []queue.State{queue.Ended, queue.Unknown}, told.State, name)
				require.Empty(t, told.Lease, name)
			}
		}
		ask()
		own := touch(t, line, second)
		require.Equal(t, queue.Active, own.State)
		require.Equal(t, second.Lease.Admission, own.Lease.Admission)
		require.Equal(t, second.Lease.End, own.Lease.End, "nor is it prolonged")
		require.Empty(t, own.Lease.Order)

		release(t, line, second)
		advance(t, line, rdb, time.Hour)
		tickThrough(t, line)
		enter(t, line, 10, 2) // the room is full
		waits := touch(t, line, join(t, line, 1))
		require.Equal(t, queue.Waiting, waits.State)
		told, err := line.Look(t.Context(), ticket)
		require.NoError(t, err)
		require.Equal(t, queue.Unknown, told.State)
		told, err = line.Look(t.Context(), sign(waits))
		require.NoError(t, err)
		require.Equal(t, waits.Place, told.Place)
	})
}

// touchActive brings back somebody whose session is over while nobody waited.
func touchActive(t *testing.T, line *queue.Line, s queue.Standing) queue.Standing {
	t.Helper()
	fresh, err := line.Join(t.Context(), queue.Arrival{Visitor: s.Visitor})
	require.NoError(t, err)
	require.Equal(t, queue.Ready, fresh.State)
	return claim(t, line, fresh)
}

func TestAPassPastItsEndIsNeverToldAsGood(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		ready := join(t, line, 1)
		advance(t, line, rdb, 100*time.Second)
		again := join(t, line, 1)
		require.Equal(t, queue.Ready, again.State, "nobody wants the slot")
		require.Greater(t, again.Lease.End, again.Room.Now)
		require.Equal(t, ready.Lease.Admission, again.Lease.Admission)
		active := claim(t, line, again)
		advance(t, line, rdb, 6*time.Minute)
		ticket := sign(active)
		ticket.Place, ticket.Due = active.Lease.Place, active.Room.Now
		back, err := line.Touch(t.Context(), ticket)
		require.NoError(t, err)
		require.Equal(t, queue.Active, back.State)
		require.Greater(t, back.Lease.End, back.Room.Now)

		// With somebody waiting it is given on, at the very sign of its holder.
		enter(t, line, 2, 1)
		waiting := touch(t, line, join(t, line, 3))
		require.Equal(t, queue.Waiting, waiting.State)
		advance(t, line, rdb, 6*time.Minute)
		waiting = touch(t, line, waiting)
		require.Equal(t, queue.Ready, waiting.State)
	})
}
