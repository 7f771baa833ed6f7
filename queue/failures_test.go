package queue_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// digest stands for everything a server holds.
func digest(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	text, err := rdb.Do(t.Context(), "DEBUG", "DIGEST").Text()
	require.NoError(t, err)
	return text
}

func TestAKeyOfAWrongTypeLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, nil)
	inside := enter(t, line, 1, 2)
	waiting := touch(t, line, join(t, line, 10))
	turn(t, line)
	for _, key := range line.Keys() {
		t.Run(key, func(t *testing.T) {
			kind, err := rdb.Type(t.Context(), key).Result()
			require.NoError(t, err)
			if kind != "none" {
				require.NoError(t, rdb.Rename(t.Context(), key, "kept").Err())
			}
			if kind == "string" {
				require.NoError(t, rdb.RPush(t.Context(), key, "wrong").Err())
			} else {
				require.NoError(t, rdb.Set(t.Context(), key, "wrong", 0).Err())
			}
			before := digest(t, rdb)
			_, joined := line.Join(t.Context(), queue.Arrival{Visitor: visitor(11)})
			_, touched := line.Touch(t.Context(), sign(waiting))
			_, claimed := line.Claim(t.Context(), holding(inside[0]))
			_, left := line.Leave(t.Context(), holding(inside[0]))
			_, ticked := line.Tick(t.Context())
			healed := line.Heal(t.Context())
			for _, err := range []error{joined, touched, claimed, left, ticked, healed} {
				require.ErrorIs(t, err, queue.ErrUnavailable)
				require.ErrorContains(t, err, "WRONGTYPE")
			}
			require.Equal(t, before, digest(t, rdb))
			require.NoError(t, rdb.Del(t.Context(), key).Err())
			if kind != "none" {
				require.NoError(t, rdb.Rename(t.Context(), "kept", key).Err())
			}
			require.Equal(t, waiting.Place, touch(t, line, waiting).Place)
		})
	}
}

func TestTheScriptsTouchTheirKeysAndNoOthers(t *testing.T) {
	t.Parallel()
	server := queuetest.Start(t)
	root := server.Client(t)
	user := []any{"ACL", "SETUSER", "gate", "on", ">secret", "+@all", "-@dangerous", "-keys"}
	for _, key := range newLine(t, root, nil).Keys() {
		user = append(user, "~"+key)
	}
	require.NoError(t, root.Do(t.Context(), user...).Err())
	require.NoError(t, root.FlushAll(t.Context()).Err())
	rdb, err := queue.NewClient(queue.ClientOptions{
		URL: server.URL, Username: "gate", Password: "secret", Timeout: queuetest.Timeout,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	require.ErrorContains(t, rdb.Get(t.Context(), "qg:{checkout}:other").Err(), "NOPERM")

	line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{Slots: 2, PerMinute: 600} })
	inside := enter(t, line, 1, 2)
	waiting := touch(t, line, join(t, line, 10))
	_, err = line.Renew(t.Context(), holding(inside[0]))
	require.NoError(t, err)
	turn(t, line)
	advance(t, line, rdb, time.Minute)
	turn(t, line)
	waiting = touch(t, line, waiting)
	require.Equal(t, queue.Ended, release(t, line, inside[0]).State)
	advance(t, line, rdb, 10*time.Minute)
	turn(t, line)
	require.Equal(t, queue.Ended, leave(t, line, touch(t, line, waiting)).State)
	require.NoError(t, line.Heal(t.Context()))
}

func TestAForgottenScriptIsInvisible(t *testing.T) {
	t.Parallel()
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, nil)
	inside := enter(t, line, 1, 2)
	flush := func() { require.NoError(t, rdb.ScriptFlush(t.Context()).Err()) }
	flush()
	s := join(t, line, 10)
	flush()
	s = touch(t, line, s)
	flush()
	require.Equal(t, queue.Active, claim(t, line, inside[0]).State)
	flush()
	release(t, line, inside[0])
	flush()
	turn(t, line)
	require.Equal(t, queue.Ready, touch(t, line, s).State)
}

func TestGateAndScriptsAgreeOnTheIntervals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		flow   float64
		change func(*queue.Options)
	}{
		{"no flow measured", 0, nil},
		{"a slow line", 2, nil},
		{"a fast line", 90, nil},
		{"short windows", 2, func(o *queue.Options) { o.ClaimWindow, o.WaitingTimeout = 4*time.Second, 31*time.Second }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rdb := queuetest.Real(t)
			line := newLine(t, rdb, func(o *queue.Options) {
				o.QueueAll = true
				if test.change != nil {
					test.change(o)
				}
			})
			require.NoError(t, rdb.HSet(t.Context(), line.Keys()[0], "flow", int64(test.flow*1e6)).Err())
			const people = 2500
			fillLine(t, rdb, line, people)
			room, _ := line.Room()
			for _, rank := range []int64{0, 1, 998, 999, 1000, 1001, 1007, 1500, 1799, 1800, 1801, 2499} {
				s, err := line.Touch(t.Context(), queue.Sign{
					Visitor: lineName(rank), Place: linePlace(rank), Due: math.MaxInt32, Epoch: room.Epoch, Ahead: -1,
				})
				require.NoError(t, err)
				require.Equal(t, rank, s.Ahead)
				require.Equal(t, line.PollFor(rank), s.Poll, "poll at rank %d", rank)
				require.InDelta(t, test.flow, s.Room.Flow, 1e-6)
				presence := 10 * time.Second
				longest := line.SignFor(rank, s.Room.Flow) + time.Duration(math.Ceil(s.Poll.Seconds()*1200))*time.Millisecond
				require.Equal(t, longest+presence, time.Duration(s.Due-s.Seen)*time.Millisecond, "due at rank %d", rank)
			}
		})
	}
}

// fillLine fills a room with people who are here, past the scripts.
func fillLine(t testing.TB, rdb *redis.Client, line *queue.Line, people int64) {
	t.Helper()
	const page = 5000
	for from := int64(0); from < people; from += page {
		var waiting []redis.Z
		var dues []any
		for rank := from; rank < min(people, from+page); rank++ {
			waiting = append(waiting, redis.Z{Score: float64(linePlace(rank)), Member: lineName(rank)})
			dues = append(dues, lineName(rank), int64(1)<<41)
		}
		require.NoError(t, rdb.ZAdd(t.Context(), line.Keys()[1], waiting...).Err())
		require.NoError(t, rdb.HSet(t.Context(), line.Keys()[3], dues...).Err())
	}
}

func lineName(rank int64) string {
	return fmt.Sprintf("FILL_%021d", rank*7919%1_000_003+rank*1_000_003)
}
func linePlace(rank int64) int64 { return 1_700_000_000_000_000 + rank*10 }

func TestAFrozenRedisHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	server := queuetest.Start(t)
	rdb := server.Client(t)
	const timeout = 200 * time.Millisecond
	line := newLine(t, rdb, func(o *queue.Options) { o.Timeout = timeout })
	inside := enter(t, line, 1, 2)
	waiting := touch(t, line, join(t, line, 10))
	server.Freeze(t)
	calls := map[string]func(context.Context) error{
		"join": func(ctx context.Context) error {
			_, err := line.Join(ctx, queue.Arrival{Visitor: visitor(11)})
			return err
		},
		"touch":   func(ctx context.Context) error { _, err := line.Touch(ctx, sign(waiting)); return err },
		"claim":   func(ctx context.Context) error { _, err := line.Claim(ctx, holding(inside[0])); return err },
		"renew":   func(ctx context.Context) error { _, err := line.Renew(ctx, holding(inside[0])); return err },
		"release": func(ctx context.Context) error { _, err := line.Release(ctx, holding(inside[1])); return err },
	}
	var group sync.WaitGroup
	for name, call := range calls {
		for range 20 {
			group.Go(func() {
				began := time.Now()
				if err := call(context.Background()); !assertUnavailable(err) {
					t.Errorf("%s of a frozen Redis: %v", name, err)
				}
				// A busy machine is late by itself; without the bound it is as late as
				// the client allows.
				if took := time.Since(began); took > queuetest.Timeout/2 {
					t.Errorf("%s of a frozen Redis took %s", name, took)
				}
			})
		}
	}
	group.Wait()
	// The calls themselves began a moment after those who asked, and fail as much later.
	require.Eventually(t, func() bool { return !line.Up() }, time.Minute, time.Millisecond)
	server.Thaw(t)

	// What the callers gave up may have run late; repeated it is the same.
	require.Eventually(t, func() bool {
		_, err := line.Touch(context.Background(), sign(waiting))
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	patient := newLine(t, rdb, nil)
	first, again := join(t, patient, 11), join(t, patient, 11)
	require.Equal(t, first.Place, again.Place, "one visitor, one place")
	require.Equal(t, queue.Active, claim(t, patient, inside[0]).State)
	require.Equal(t, queue.Ended, release(t, patient, inside[1]).State)
	require.LessOrEqual(t, release(t, patient, inside[1]).Room.Holding, int64(2))
}

func assertUnavailable(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), queue.ErrUnavailable.Error())
}

func TestAHalfMinuteOfFrozenRedisMakesNobodyAbsent(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		var people []queue.Standing
		for n := range 20 {
			people = append(people, touch(t, line, join(t, line, 10+n)))
		}
		// The next script finds that TIME moved by half a minute since the last.
		require.NoError(t, rdb.HIncrBy(t.Context(), line.Keys()[0], "clock", -30_000).Err())
		turn(t, line)
		room, _ := line.Room()
		require.EqualValues(t, 20, room.Waiting)
		require.Equal(t, queue.Ended, release(t, line, inside[0]).State)
		require.Equal(t, queue.Ready, touch(t, line, people[0]).State)
	})
}

func TestARefusingRedisChangesNothing(t *testing.T) {
	t.Parallel()
	server := queuetest.Start(t)
	rdb := server.Client(t)
	line := newLine(t, rdb, nil)
	inside := enter(t, line, 1, 2)
	waiting := touch(t, line, join(t, line, 10))
	set := func(key, value string) { require.NoError(t, rdb.ConfigSet(t.Context(), key, value).Err()) }
	refusals := []struct {
		name, text, fault string
		begin, stop       func(t *testing.T)
	}{
		{"read-only after a failover", "READONLY", "read_only", func(t *testing.T) {
			require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
		}, func(t *testing.T) {
			require.NoError(t, rdb.ReplicaOf(t.Context(), "NO", "ONE").Err())
		}},
		{"out of memory", "OOM", "out_of_memory", func(*testing.T) {
			set("maxmemory-policy", "noeviction")
			set("maxmemory", "1mb")
		}, func(*testing.T) { set("maxmemory", "0") }},
		{"too few replicas", "NOREPLICAS", "too_few_replicas", func(*testing.T) { set("min-replicas-to-write", "1") },
			func(*testing.T) { set("min-replicas-to-write", "0") }},
	}
	for _, refusal := range refusals {
		t.Run(refusal.name, func(t *testing.T) {
			before := digest(t, rdb)
			refusal.begin(t)
			_, joined := line.Join(t.Context(), queue.Arrival{Visitor: visitor(11)})
			_, touched := line.Touch(t.Context(), sign(waiting))
			_, claimed := line.Claim(t.Context(), holding(inside[0]))
			for _, err := range []error{joined, touched, claimed} {
				require.ErrorIs(t, err, queue.ErrUnavailable)
				require.ErrorContains(t, err, refusal.text)
			}
			require.False(t, line.Up())
			require.Equal(t, refusal.fault, line.Problem().Name)
			refusal.stop(t)
			require.Equal(t, before, digest(t, rdb))
			require.Equal(t, waiting.Place, touch(t, line, waiting).Place, "as if nothing had happened")
			require.True(t, line.Up())
		})
	}
}

func TestLeavingWorksInARedisOutOfMemory(t *testing.T) {
	t.Parallel()
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, nil)
	inside := enter(t, line, 1, 2)
	front, second := touch(t, line, join(t, line, 10)), touch(t, line, join(t, line, 11))
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1mb").Err())
	_, err := line.Join(t.Context(), queue.Arrival{Visitor: visitor(12)})
	require.ErrorContains(t, err, "OOM")
	require.Equal(t, queue.Ended, leave(t, line, second).State)
	require.Equal(t, queue.Ended, release(t, line, inside[0]).State)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.Equal(t, queue.Ready, touch(t, line, front).State, "the next person got the slot")
	require.Equal(t, queue.Ended, touch(t, line, second).State)
}

func TestABusyRedisIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	server := queuetest.Start(t)
	rdb := server.Client(t)
	line := newLine(t, rdb, nil)
	waiting := join(t, line, 1)
	require.NoError(t, rdb.ConfigSet(t.Context(), "lua-time-limit", "5").Err())
	stuck := make(chan error, 1)
	other := server.Client(t)
	go func() { stuck <- other.Eval(context.Background(), "while true do end", nil).Err() }()
	require.Eventually(t, func() bool {
		_, err := line.Join(context.Background(), queue.Arrival{Visitor: visitor(1)})
		return err != nil && strings.Contains(err.Error(), "BUSY")
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, rdb.ScriptKill(t.Context()).Err())
	require.Error(t, <-stuck)
	require.Equal(t, waiting.Lease.Admission, join(t, line, 1).Lease.Admission)
}

func TestARedisThatIsLoadingIsAnErrorAndThenKnowsEverybody(t *testing.T) {
	t.Parallel()
	server := queuetest.Start(t, "--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024")
	rdb := server.Client(t)
	line := newLine(t, rdb, nil)
	enter(t, line, 1, 2)
	waiting := touch(t, line, join(t, line, 10))
	for n := range 150 { // something to load for a second or two
		require.NoError(t, rdb.Set(t.Context(), visitor(n), rand.Text()+strings.Repeat(rand.Text(), 50), 0).Err())
	}
	dump := server.Save(t)
	server.RestoreNow(t, dump)
	require.Eventually(t, func() bool {
		_, err := line.Touch(context.Background(), sign(waiting))
		return err != nil && strings.Contains(err.Error(), "LOADING")
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		s, err := line.Touch(context.Background(), sign(waiting))
		return err == nil && s.Place == waiting.Place && s.Room.Healing == 0
	}, time.Minute, 10*time.Millisecond)
}

func TestManyAdmissionsAreSpreadOverSeveralCalls(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 550 })
		fillLine(t, rdb, line, 600)
		held, calls := int64(0), 0
		for again := true; again; calls++ {
			var err error
			again, err = line.Tick(t.Context())
			require.NoError(t, err)
			room, _ := line.Room()
			require.LessOrEqual(t, room.Holding-held, int64(150), "in one call")
			held = room.Holding
		}
		require.EqualValues(t, 550, held, "a call that stops early says so")
		require.Greater(t, calls, 3)
	})
}
