package queue_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

func TestTheSilentCountForNobody(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 4 })
		inside := enter(t, line, 1, 4)
		var silent []queue.Standing
		for n := range 4 {
			silent = append(silent, touch(t, line, join(t, line, 10+n)))
		}
		for n := range 4 { // who joined and never polled
			join(t, line, 20+n)
		}
		advance(t, line, rdb, 30*time.Second)
		turn(t, line)
		room, _ := line.Room()
		require.Zero(t, room.Waiting)
		newcomer := join(t, line, 30)
		require.Zero(t, newcomer.Ahead)
		require.EqualValues(t, 1, newcomer.Waiting)

		// Nor do they hold up: the first four finish, and the one who is here goes in.
		for _, s := range inside {
			release(t, line, s)
		}
		require.Equal(t, queue.Ready, touch(t, line, newcomer).State)
		back := touch(t, line, silent[0])
		require.Equal(t, queue.Ready, back.State, "and who comes back late finds a slot as well")
	})
}

// With so many people waiting and so many slots free, one tick admits exactly as
// many as can be, the first ones, and their next poll says so.
func TestReadinessIsNotOneTurnLate(t *testing.T) {
	for _, test := range []struct {
		name          string
		waiting, free int
	}{
		{"the only one, and one slot", 1, 1},
		{"the only one, and two slots", 1, 2},
		{"two, and one slot", 2, 1},
		{"as many as slots", 3, 3},
		{"one more than slots", 4, 3},
		{"nothing is free", 3, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, rdb *redis.Client) {
				paused := newLine(t, rdb, func(o *queue.Options) { o.QueueAll = true })
				people := make([]queue.Standing, test.waiting)
				for n := range people {
					people[n] = touch(t, paused, join(t, paused, 10+n))
				}
				line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = int64(max(1, test.free)) })
				if test.free == 0 {
					require.NoError(t, paused.Configure(t.Context()))
				}
				_, err := line.Tick(t.Context())
				require.NoError(t, err)
				for n := range people {
					want := queue.Waiting
					if n < test.free {
						want = queue.Ready
					}
					s := touch(t, line, people[n])
					require.Equal(t, want, s.State, "number %d", n+1)
					if want == queue.Ready {
						require.Equal(t, queue.Active, claim(t, line, s).State, "ready means that the shop is open now")
					}
				}
			})
		})
	}
}

func TestGhostsInTheMiddleLetNobodyJump(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
		last := enter(t, line, 1, 1)[0]
		people := make([]queue.Standing, 6)
		for n := range people {
			people[n] = touch(t, line, join(t, line, 10+n))
		}
		here := []int{0, 2, 4, 5}
		poll := func() {
			for _, n := range here {
				people[n] = touch(t, line, people[n])
			}
		}
		for range 3 {
			advance(t, line, rdb, 8*time.Second)
			poll()
			turn(t, line)
		}
		poll()
		for rank, n := range here {
			require.EqualValues(t, rank, people[n].Ahead, "number %d after the sweep", n+1)
		}
		for len(here) > 0 {
			release(t, line, last)
			poll()
			for rank, n := range here {
				want := queue.Waiting
				if rank == 0 {
					want = queue.Ready
				}
				require.Equal(t, want, people[n].State, "number %d", n+1)
			}
			last = claim(t, line, people[here[0]])
			here = here[1:]
		}
	})
}

func TestRoomsShareNothing(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		first := newLine(t, rdb, func(o *queue.Options) { o.Room = "first" })
		second := newLine(t, rdb, func(o *queue.Options) { o.Room = "second" })
		enter(t, first, 1, 2)
		crowd(t, 500, func(i int) error {
			s, err := first.Join(context.Background(), queue.Arrival{Visitor: visitor(1000 + i)})
			if err == nil {
				_, err = first.Touch(context.Background(), sign(s))
			}
			return err
		})
		waiting := touch(t, first, join(t, first, 7))
		require.EqualValues(t, 500, waiting.Ahead)
		ready := join(t, second, 7) // the same browser
		require.Equal(t, queue.Ready, ready.State)
		require.Zero(t, ready.Waiting)
		active := claim(t, second, ready)
		require.Equal(t, queue.Active, active.State)

		other := touch(t, first, join(t, first, 8))
		require.Equal(t, queue.Active, claim(t, second, join(t, second, 8)).State)
		require.Equal(t, queue.Ended, leave(t, first, other).State)
		require.Equal(t, queue.Active, join(t, second, 8).State, "leaving one room leaves no other")
		require.Equal(t, waiting.Place, touch(t, first, waiting).Place)

		// What is wrong with one room is not wrong with the other.
		require.NoError(t, rdb.Del(t.Context(), first.Keys()[6]).Err())
		require.NoError(t, rdb.Set(t.Context(), first.Keys()[6], "wrong", 0).Err())
		_, err := first.Touch(t.Context(), sign(waiting))
		require.ErrorIs(t, err, queue.ErrUnavailable)
		require.Equal(t, queue.Active, claimOrRenew(t, second, active).State)
		require.Equal(t, queue.Ended, release(t, second, active).State)
	})
}

// A hidden tab polls once a minute, and people who are here go first meanwhile. It
// gets in all the same while others take turns, once it polls with a slot free.
func TestAHiddenTabGetsInAmongPeopleWhoAreHere(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{PerMinute: 10, Burst: 1} })
		enter(t, line, 1, 1)
		hidden := touch(t, line, join(t, line, 5))
		place := hidden.Place
		people := make([]queue.Standing, 30)
		for n := range people {
			people[n] = touch(t, line, join(t, line, 10+n))
		}
		admitted, polls := 0, 0
		for second := 0; hidden.State != queue.Ready; second++ {
			require.Less(t, second, 5*65, "five polls are enough")
			advance(t, line, rdb, time.Second)
			if second%65 == 64 {
				hidden = touch(t, line, hidden)
				require.Equal(t, place, hidden.Place)
				require.NotEqual(t, queue.Ended, hidden.State)
				polls++
			}
			for n, s := range people {
				if s.State == queue.Ready || second%5 != n%5 {
					continue
				}
				if people[n] = touch(t, line, s); people[n].State == queue.Ready {
					admitted++
				}
			}
			turn(t, line)
		}
		t.Logf("in after %d polls and %d other people", polls, admitted)
	})
}

// The bound for passes that nobody takes up: each costs a slot one claim window, and
// each client at most three of them, or nine if it hides that it was told. So N clients
// that poll like people and never come in hold up who stands behind them all, with S
// slots, by at most 3*N*W/S, or three times that; then their stay ends, and who joins
// again stands behind.
func TestFaithfulPollersWhoNeverComeInHoldUpByAFewClaimWindowsEachAtMost(t *testing.T) {
	const slots, window = 200, 90 * time.Second
	t.Run("and show what they were told", func(t *testing.T) { holdUp(t, 1000, slots, 3, window, true) })
	t.Run("and hide what they were told", func(t *testing.T) { holdUp(t, 400, slots, 9, window, false) })
}

// holdUp lets clients poll without coming in, and judges when somebody behind them does.
func holdUp(t *testing.T, clients, slots, most int, window time.Duration, shown bool) {
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, func(o *queue.Options) {
		o.Limits.Slots, o.ClaimWindow, o.PresenceWindow = int64(slots), window, 2*window
	})
	inside := enter(t, line, 1, slots)
	people := make([]queue.Standing, clients)
	passes := make([]map[string]bool, clients)
	var mu sync.Mutex
	each := func(ask func(i int) (queue.Standing, error)) {
		crowd(t, clients, func(i int) error {
			if people[i].State == queue.Ended {
				return nil
			}
			s, err := ask(i)
			mu.Lock()
			defer mu.Unlock()
			if s.State == queue.Ready {
				passes[i][s.Lease.Admission] = true
			}
			if s.Place != 0 && s.State != queue.Ended {
				s.Lease.Place = s.Place
			}
			people[i] = s
			return err
		})
	}
	each(func(i int) (queue.Standing, error) {
		passes[i] = map[string]bool{}
		return line.Join(context.Background(), queue.Arrival{Visitor: visitor(1000 + i)})
	})
	poll := func(i int) (queue.Standing, error) {
		ticket := sign(people[i])
		if people[i].State != queue.Ready || !shown {
			ticket.Due = people[i].Room.Now
		}
		return line.Touch(context.Background(), ticket)
	}
	each(poll)
	honest := touch(t, line, join(t, line, 500_000))
	require.EqualValues(t, clients, honest.Ahead)
	for _, s := range inside {
		release(t, line, s)
	}
	began := now(t, line)
	for honest.State != queue.Ready {
		each(poll)
		for again := true; again; {
			var err error
			again, err = line.Tick(t.Context())
			require.NoError(t, err)
		}
		each(poll) // polls are a third of the window apart: whoever was let in by a tick hears of it
		honest = touch(t, line, honest)
		require.LessOrEqual(t, honest.Room.Holding, int64(slots))
		require.LessOrEqual(t, now(t, line)-began, int64(most*clients/slots)*(window.Milliseconds()+2000), "held up for longer than the bound")
		advance(t, line, rdb, window+time.Second)
	}
	t.Logf("%s of %s", time.Duration(now(t, line)-began)*time.Millisecond, time.Duration(most*clients/slots)*window)
	for i := range passes {
		require.LessOrEqual(t, len(passes[i]), most, "passes of one client")
	}
}

// A number that is told is a number: never below zero, never beyond a week, and none
// at all where there is no ground for one.
func TestTheWaitIsANumberOrNothing(t *testing.T) {
	t.Parallel()
	open := queue.Room{State: queue.Open, Flow: 2, Limits: queue.Limits{Slots: 10}}
	change := func(f func(*queue.Room)) queue.Room {
		room := open
		f(&room)
		return room
	}
	for _, test := range []struct {
		name  string
		ahead int64
		room  queue.Room
		known bool
		wait  time.Duration
	}{
		{"nobody ahead", 0, open, true, 500 * time.Millisecond},
		{"a hundred ahead", 99, open, true, 50 * time.Second},
		{"paused", 99, change(func(r *queue.Room) { r.State = queue.QueueAll }), false, 0},
		{"history was lost", 99, change(func(r *queue.Room) { r.Healing = time.Second }), false, 0},
		{"nothing measured, and slots decide", 99, change(func(r *queue.Room) { r.Flow = 0 }), false, 0},
		{"nothing measured, and the rate decides", 99, change(func(r *queue.Room) { r.Flow, r.Limits = 0, queue.Limits{PerMinute: 60} }), true, 100 * time.Second},
		{"a line that stands", 1_000_000, change(func(r *queue.Room) { r.Flow = 1e-6 }), false, 0},
		{"a flow below zero", 99, change(func(r *queue.Room) { r.Flow = -1 }), false, 0},
	} {
		wait, known := queue.WaitFor(test.ahead, test.room)
		require.Equal(t, test.known, known, test.name)
		require.Equal(t, test.wait, wait, test.name)
	}
	for _, thinning := range []float64{0, 1e-9, 1e-3, 0.5, 1, 1000} {
		for _, flow := range []float64{1e-6, 0.01, 1, 1e6} {
			last := time.Duration(0)
			for ahead := int64(0); ahead < 2_000_000; ahead = 2*ahead + 1 {
				wait, known := queue.WaitFor(ahead, change(func(r *queue.Room) { r.Flow, r.Thinning = flow, thinning }))
				require.GreaterOrEqual(t, wait, time.Duration(0))
				require.LessOrEqual(t, wait, 7*24*time.Hour)
				if known {
					require.GreaterOrEqual(t, wait, last, "who stands farther back waits no less")
					last = wait
				}
			}
		}
	}
}

// Ten thousand people who came within ten seconds poll as told: farther back less
// often, and never all in one second.
func TestTheCrowdsPollsAreSpread(t *testing.T) {
	t.Parallel()
	nobody := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = nobody.Close() })
	line, err := queue.New(queue.Options{Redis: nobody, Room: "checkout", Limits: queue.Limits{Slots: 1}})
	require.NoError(t, err)
	const crowd, seconds = 10_000, 180
	perSecond := make([]int, seconds)
	polls := make([]int, crowd)
	chance := rand.New(rand.NewPCG(3, 3)) //nolint:gosec // the same every time
	for rank := range crowd {
		at := time.Duration(rank) * time.Millisecond
		for at < seconds*time.Second {
			poll := line.PollFor(int64(rank))
			at += time.Duration(float64(poll) * (0.8 + 0.4*chance.Float64()))
			if second := int(at / time.Second); second < seconds {
				perSecond[second]++
				polls[rank]++
			}
		}
	}
	sum := 0
	for _, n := range perSecond {
		sum += n
	}
	mean := float64(sum) / seconds
	for second, n := range perSecond {
		require.Less(t, float64(n), 3*mean, "in second %d", second)
	}
	require.Greater(t, polls[100], 5*polls[9_900], "the front asks often, the back seldom")
	t.Logf("%.0f polls a second, at most %d", mean, slices.Max(perSecond))
}
