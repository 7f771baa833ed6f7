package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// A slot that is given back, left and run out in the same moment, by two gates, is
// one slot.
func TestAReleaseThatRacesWithItsOwnEndFreesOneSlot(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		const rounds, slots = 100, 2
		options := func(o *queue.Options) { o.Limits.Slots = slots }
		gates := []*queue.Line{newLine(t, rdb, options), newLine(t, rdb, options)}
		inside := enter(t, gates[0], 1, slots)
		for n := range rounds {
			next := touch(t, gates[0], join(t, gates[1], 100+n))
			over := inside[0]
			advance(t, gates[0], rdb, 3*time.Minute)
			inside[1] = claimOrRenew(t, gates[1], inside[1])
			require.NoError(t, rdb.ZAdd(t.Context(), gates[0].Keys()[6], redis.Z{Score: float64(now(t, gates[1])), Member: over.Visitor}).Err())
			next = touch(t, gates[n%2], next) // due again
			ctx := context.Background()
			var group sync.WaitGroup
			group.Go(func() { _, _ = gates[0].Release(ctx, holding(over)) })
			group.Go(func() { _, _ = gates[1].Release(ctx, holding(over)) })
			group.Go(func() { _, _ = gates[1].Leave(ctx, queue.Holding{Visitor: over.Visitor, Place: over.Lease.Place}) })
			group.Go(func() { _, _ = gates[0].Tick(ctx) })
			group.Wait()
			next = touch(t, gates[0], next)
			require.Equal(t, queue.Ready, next.State, "round %d", n)
			require.EqualValues(t, slots, next.Room.Holding)
			require.EqualValues(t, slots, rdb.ZCard(ctx, gates[0].Keys()[6]).Val())
			require.Equal(t, queue.Away, join(t, gates[1], 10_000+n).State, "and no slot more")
			leave(t, gates[1], queue.Standing{Visitor: visitor(10_000 + n)})
			inside[0] = claim(t, gates[1], next)
		}
	})
}

func TestFiftyThousandDeadInFrontDelayNobody(t *testing.T) {
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
	inside := enter(t, line, 1, 1)
	const dead = 50_000
	fillLine(t, rdb, line, dead)
	gone := make([]any, 0, 2*dead)
	for rank := range int64(dead) {
		gone = append(gone, lineName(rank), now(t, line)-60_000)
	}
	for page := range slices.Chunk(gone, 10_000) {
		require.NoError(t, rdb.HSet(t.Context(), line.Keys()[3], page...).Err())
	}
	require.NoError(t, line.StopClock(t.Context(), rdb))
	person := touch(t, line, join(t, line, 2))
	release(t, line, inside[0])
	for calls := 1; ; calls++ {
		waiting := rdb.ZCard(t.Context(), line.Keys()[1]).Val()
		again, err := line.Tick(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, waiting-rdb.ZCard(t.Context(), line.Keys()[1]).Val(), int64(1000), "in one call")
		if !again {
			break
		}
		require.Less(t, calls, dead/60, "and when more is left, the next call follows at once")
	}
	person.Seen = 0 // an answer from the snapshot may be a second old
	require.Equal(t, queue.Ready, touch(t, line, person).State)
}

// Every number in Redis is in the unit its key says, near the moment it was
// written, and nothing lives by a TTL that could lapse while nobody looks.
func TestEveryNumberInRedisIsInItsUnit(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) {
			o.Session, o.ClaimWindow, o.PresenceWindow, o.WaitingTimeout, o.SessionMax = 2*time.Second, 2*time.Second, 2*time.Second, 2*time.Second, 2*time.Second
			o.Limits = queue.Limits{Slots: 3, PerMinute: 600, Burst: 10}
		})
		inside := enter(t, line, 1, 2)
		release(t, line, inside[0])
		join(t, line, 3)
		join(t, line, 4)
		touch(t, line, join(t, line, 5))
		silent := touch(t, line, join(t, line, 6))
		join(t, line, 7)
		advance(t, line, rdb, 1500*time.Millisecond)
		turn(t, line)
		_ = silent
		at := now(t, line)
		milli := func(what string, n int64) {
			require.InDelta(t, at, n, 3_600_000, "%s in milliseconds", what)
		}
		micro := func(what string, n int64) {
			require.InDelta(t, at*1000, n, 3_600_000_000, "%s in microseconds", what)
		}
		whole := func(text string) int64 {
			n, err := strconv.ParseInt(text, 10, 64)
			require.NoError(t, err, "all numbers are whole")
			return n
		}
		keys := line.Keys()
		seen := map[string]int{}
		scores := func(key string, check func(string, int64)) {
			for _, z := range rdb.ZRangeWithScores(t.Context(), key, 0, -1).Val() {
				check(key, int64(z.Score))
				seen[key]++
			}
		}
		values := func(key string, check func(string)) {
			for _, text := range rdb.HGetAll(t.Context(), key).Val() {
				check(text)
				seen[key]++
			}
		}
		scores(keys[1], micro)
		scores(keys[2], micro)
		values(keys[3], func(text string) { milli(keys[3], whole(text)) })
		scores(keys[6], milli)
		values(keys[7], func(text string) {
			words := strings.Fields(text)
			micro("place of a lease", whole(words[2]))
			milli("start of a lease", whole(words[3]))
		})
		scores(keys[10], micro)
		values(keys[11], func(text string) { micro("place of an end", whole(strings.Fields(text)[0])) })
		values(keys[12], func(text string) { milli("last call of a gate", whole(text)) })
		for _, field := range []string{"now", "clock", "filled", "measured", "made"} {
			milli(field, whole(rdb.HGet(t.Context(), keys[0], field).Val()))
		}
		micro("last", whole(rdb.HGet(t.Context(), keys[0], "last").Val()))
		for _, n := range []int{1, 2, 3, 6, 7, 10, 11, 12} {
			require.NotZero(t, seen[keys[n]], "nothing to see in %s", keys[n])
		}

		all := rdb.Keys(t.Context(), "*").Val()
		records := []string{"qg:{checkout}:history", "qg:{checkout}:versions"} // bounded by themselves
		for _, key := range all {
			require.Contains(t, append(records, keys...), key)
			require.Equal(t, time.Duration(-1), rdb.TTL(t.Context(), key).Val(), key)
		}
		for range 8 { // twice the longest life: waiting_timeout after the longest due
			advance(t, line, rdb, 2*time.Second)
			turn(t, line)
		}
		for _, key := range keys[1:10] {
			require.Zero(t, rdb.Exists(t.Context(), key).Val(), "%s outlives its people", key)
		}
	})
}

// Joins of one moment get places of their own, in the order in which Redis took
// them, and no part of the order comes from a name.
func TestJoinsOfOneMomentHavePlacesOfTheirOwn(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		gates := []*queue.Line{newLine(t, rdb, nil), newLine(t, rdb, nil)}
		enter(t, gates[0], 1, 2)
		require.NoError(t, gates[0].StopClock(t.Context(), rdb))
		var last int64
		for n := range 200 { // names fall while places rise
			s := join(t, gates[n%2], 1000-n)
			require.Greater(t, s.Place, last)
			require.EqualValues(t, n, s.Ahead)
			last = s.Place
		}
		room, _ := gates[1].Room()
		require.Less(t, last, int64(1)<<53)
		require.Equal(t, strconv.FormatInt(last, 10), rdb.HGet(t.Context(), gates[0].Keys()[0], "last").Val(), "to the last digit")
		require.EqualValues(t, 200, room.Waiting)
	})
}

// Redis's TIME set an hour forward or back ends no lease, freezes no slot and earns
// no admission.
func TestAClockStepOfAnHourTakesNothingAndEarnsNothing(t *testing.T) {
	for name, step := range map[string]int64{"forward": -3_600_000, "back": 3_600_000} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, rdb *redis.Client) {
				line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{Slots: 8, PerMinute: 60, Burst: 2} })
				inside := enter(t, line, 1, 2)
				var people []queue.Standing
				for n := range 10 {
					people = append(people, touch(t, line, join(t, line, 10+n)))
				}
				poll := func() (admitted int) {
					for i := range people {
						if people[i].State != queue.Ready {
							if people[i] = touch(t, line, people[i]); people[i].State == queue.Ready {
								admitted++
							}
							require.NotEqual(t, queue.Ended, people[i].State)
						}
					}
					return admitted
				}
				poll()
				before := now(t, line)
				require.NoError(t, rdb.HIncrBy(t.Context(), line.Keys()[0], "clock", step).Err())
				inside[0], inside[1] = claimOrRenew(t, line, inside[0]), claimOrRenew(t, line, inside[1])
				admitted := poll()
				require.LessOrEqual(t, admitted, 3, "a second earns one, and the bucket holds two")
				passed := now(t, line) - before
				require.LessOrEqual(t, passed, int64(60_000), "room time has not followed")

				// The room goes on at once.
				advance(t, line, rdb, 5*time.Second)
				require.Positive(t, poll())
				advance(t, line, rdb, 6*time.Minute)
				for i := range people {
					if people[i].State == queue.Waiting {
						people[i] = touch(t, line, people[i])
					}
				}
				room, _ := line.Room()
				require.Less(t, room.Holding, int64(8), "leases run out in their time")
			})
		})
	}
}

// Replies get lost at random while people come and go; in the end nobody holds
// anything.
func TestRandomlyLostRepliesLeakNoSlot(t *testing.T) {
	server := queuetest.Start(t)
	between, rdb := newRelay(t, server.Addr, queue.ClientOptions{Timeout: queuetest.Timeout})
	line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 5 })
	var lost atomic.Int64
	between.do(func(reply []byte) ([]byte, bool) {
		if rand.N(6) > 0 { //nolint:gosec // which one is lost, not a secret
			return reply, true
		}
		lost.Add(1)
		return nil, false
	})
	until := func(ask func() (queue.Standing, error)) (s queue.Standing) {
		for {
			var err error
			if s, err = ask(); err == nil {
				return s
			}
		}
	}
	ctx := context.Background()
	crowd(t, 200, func(i int) error {
		s := until(func() (queue.Standing, error) { return line.Join(ctx, queue.Arrival{Visitor: visitor(i)}) })
		for s.State == queue.Away || s.State == queue.Waiting {
			ticket := sign(s)
			s = until(func() (queue.Standing, error) { return line.Touch(ctx, ticket) })
			if s.Room.Holding > 5 {
				return fmt.Errorf("%d slots are taken", s.Room.Holding)
			}
		}
		pass := holding(s)
		active := until(func() (queue.Standing, error) { return line.Claim(ctx, pass) })
		if active.State != queue.Active || active.Lease.Admission != pass.Admission {
			return fmt.Errorf("%s: claimed and %s", s.Visitor, active.State)
		}
		over := until(func() (queue.Standing, error) { return line.Release(ctx, holding(active)) })
		if over.State != queue.Ended {
			return fmt.Errorf("%s: released and %s", s.Visitor, over.State)
		}
		return nil
	})
	between.do(nil)
	require.Positive(t, lost.Load())
	turn(t, line)
	room, _ := line.Room()
	require.Zero(t, room.Holding)
	require.Zero(t, room.Waiting)
	t.Logf("%d replies lost", lost.Load())
}

// Visitors who hang up break no connection and cost no slot: what they asked for is
// done, and found when they come back.
func TestCallsThatAreGivenUpBreakNoConnection(t *testing.T) {
	server := queuetest.Start(t)
	between, rdb := newRelay(t, server.Addr, queue.ClientOptions{Timeout: queuetest.Timeout})
	line := newLine(t, rdb, nil)
	inside := enter(t, line, 1, 2)
	front := touch(t, line, join(t, line, 10))
	require.Equal(t, queue.Ended, release(t, line, inside[0]).State)
	ready := touch(t, line, front)
	require.Equal(t, queue.Ready, ready.State)
	behind := touch(t, line, join(t, line, 11))
	stood := between.Dialled()
	for range 300 {
		gone, hangUp := context.WithCancel(context.Background())
		hangUp()
		_, err := line.Claim(gone, holding(ready))
		require.ErrorIs(t, err, context.Canceled)
		_, err = line.Touch(gone, sign(behind))
		require.ErrorIs(t, err, context.Canceled)
	}
	active := claim(t, line, ready)
	require.Equal(t, queue.Active, active.State)
	require.EqualValues(t, 2, active.Room.Holding)
	require.Equal(t, queue.Waiting, touch(t, line, behind).State)
	require.LessOrEqual(t, between.Dialled()-stood, int64(4), "connections for 600 calls: two flights of each kind")
	require.Equal(t, queue.Ended, release(t, line, active).State)
	require.Equal(t, queue.Ready, touch(t, line, behind).State)
}

// The answer that said "your turn" is lost again and again: the next one says the
// same of the same admission.
func TestALostTurnIsToldAgain(t *testing.T) {
	server := queuetest.Start(t)
	between, rdb := newRelay(t, server.Addr, queue.ClientOptions{Timeout: queuetest.Timeout})
	line := newLine(t, rdb, nil)
	inside := enter(t, line, 1, 2)
	s := touch(t, line, join(t, line, 10))
	release(t, line, inside[0])
	for range 3 {
		eaten := between.eat()
		_, err := line.Touch(context.Background(), sign(s))
		require.ErrorIs(t, err, queue.ErrUnavailable)
		require.True(t, eaten())
	}
	ready := touch(t, line, s)
	require.Equal(t, queue.Ready, ready.State)
	require.Equal(t, ready.Lease, touch(t, line, s).Lease)
	require.EqualValues(t, 2, ready.Room.Holding)
}

// Scripts vanish all the time while a crowd is served; nobody sees it.
func TestScriptsThatVanishUnderACrowdAreInvisible(t *testing.T) {
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, nil)
	enter(t, line, 1, 2)
	done := make(chan struct{})
	flushed := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-done:
				flushed <- n
				return
			case <-t.Context().Done():
				return
			default:
				_ = rdb.ScriptFlush(context.Background()).Err()
				n++
			}
		}
	}()
	crowd(t, 1000, func(i int) error {
		s, err := line.Join(context.Background(), queue.Arrival{Visitor: visitor(100 + i)})
		for range 3 {
			if err == nil {
				s, err = line.Touch(context.Background(), sign(s))
			}
		}
		if err == nil && s.State != queue.Waiting {
			err = fmt.Errorf("%s is %s", s.Visitor, s.State)
		}
		return err
	})
	close(done)
	require.Positive(t, <-flushed)
	require.EqualValues(t, 1000, rdb.ZCard(t.Context(), line.Keys()[1]).Val())
}

// A room that is full says so to clients without number and remembers nothing of
// them; the people in it keep their order.
func TestAFullLineRemembersNothingOfWhoItRefuses(t *testing.T) {
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.MaxWaiting, o.PresenceWindow = 1000, time.Hour })
	enter(t, line, 1, 2)
	people := make([]queue.Standing, 1000)
	for n := range people {
		people[n] = join(t, line, 10+n)
	}
	crowd(t, len(people), func(i int) (err error) {
		people[i], err = line.Touch(context.Background(), sign(people[i]))
		return err
	})
	turn(t, line)
	sizes := func() (n int64) {
		for _, key := range line.Keys() {
			n += rdb.MemoryUsage(t.Context(), key, 0).Val()
		}
		return n
	}
	before := sizes()
	crowd(t, 50_000, func(i int) error {
		s, err := line.Join(context.Background(), queue.Arrival{Visitor: visitor(100_000 + i)})
		if err == nil && s.Refusal != queue.Full {
			err = fmt.Errorf("got a place: %+v", s)
		}
		return err
	})
	require.InDelta(t, before, sizes(), 1000, "bytes in Redis")
	for n := range people {
		ticket := sign(people[n])
		ticket.Ahead = -1
		s, err := line.Touch(t.Context(), ticket)
		require.NoError(t, err)
		require.EqualValues(t, n, s.Ahead)
	}
}

// Ten thousand leave while as many join and slots are given on.
func TestAStormOfLeavesEndsWithWhoStays(t *testing.T) {
	rdb := queuetest.Real(t)
	gates := []*queue.Line{newLine(t, rdb, nil), newLine(t, rdb, nil)}
	inside := enter(t, gates[0], 1, 2)
	const storm = 5000
	leaving := make([]queue.Standing, storm)
	crowd(t, storm, func(i int) (err error) {
		leaving[i], err = gates[i%2].Join(context.Background(), queue.Arrival{Visitor: visitor(1000 + i)})
		return err
	})
	staying := make([]queue.Standing, storm)
	crowd(t, 2*storm, func(i int) error {
		ctx, gate := context.Background(), gates[i%2]
		if i >= storm {
			s, err := gate.Join(ctx, queue.Arrival{Visitor: visitor(100_000 + i)})
			staying[i-storm] = s
			return err
		}
		s, err := gate.Leave(ctx, queue.Holding{Visitor: leaving[i].Visitor, Place: leaving[i].Place, Epoch: leaving[i].Room.Epoch})
		if err == nil && s.State != queue.Ended {
			err = fmt.Errorf("%s left and is %s", s.Visitor, s.State)
		}
		return err
	})
	room, _ := gates[0].Room()
	require.LessOrEqual(t, room.Holding, int64(2))
	slices.SortFunc(staying, func(a, b queue.Standing) int { return int(a.Place - b.Place) })
	first := touch(t, gates[1], staying[0])
	require.EqualValues(t, storm, first.Waiting)
	require.Zero(t, first.Ahead)
	release(t, gates[0], inside[0])
	require.Equal(t, queue.Ready, touch(t, gates[1], staying[0]).State)
	require.Equal(t, queue.Ended, touch(t, gates[0], leaving[7]).State)
}

// A Redis that takes no more connections is an error at once, opens nothing, and is
// used again as soon as it takes some.
func TestARedisWithoutConnectionsLeftIsAnErrorAndThenUsed(t *testing.T) {
	server := queuetest.Start(t)
	root := server.Client(t)
	enter(t, newLine(t, root, nil), 1, 1)
	line, err := queue.New(queue.Options{Redis: server.Client(t), Room: "checkout", Timeout: queuetest.Timeout, Limits: queue.Limits{Slots: 2}})
	require.NoError(t, err)
	require.NoError(t, root.ConfigSet(t.Context(), "maxclients", "1").Err())
	for range 3 {
		_, err := line.Join(t.Context(), queue.Arrival{Visitor: visitor(5)})
		require.ErrorIs(t, err, queue.ErrUnavailable)
		require.False(t, line.Up())
	}
	require.NoError(t, root.ConfigSet(t.Context(), "maxclients", "100").Err())
	require.Equal(t, queue.Ready, join(t, line, 5).State)
	require.True(t, line.Up())
}
