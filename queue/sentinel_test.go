package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// eventual is how long a test waits for a failover to be over: so long that no
// busy machine decides a verdict, and less than a client that is pinned waits.
const eventual = 40 * time.Second

// guarded makes a master stop writing when it has lost its replicas.
func guarded() []string {
	return []string{"--min-replicas-to-write", "1", "--min-replicas-max-lag", "10"}
}

// viaSentinels is a gate's client of a master that Sentinels name.
func viaSentinels(t *testing.T, addrs ...string) redis.UniversalClient {
	t.Helper()
	return queuetest.NewClient(t, queue.ClientOptions{Addrs: addrs, MasterName: queuetest.MasterName, Timeout: 500 * time.Millisecond})
}

// brief keeps a call within half a second, as a gate does.
func brief(o *queue.Options) { o.Timeout = 500 * time.Millisecond }

// replicated waits until the replicas have all that the master has.
func replicated(t *testing.T, master *queuetest.Server) {
	t.Helper()
	require.EqualValues(t, 2, master.Client(t).Do(t.Context(), "WAIT", 2, 20_000).Val())
}

// awaitPlace polls until the line answers again, and wants the place unchanged.
func awaitPlace(t *testing.T, line *queue.Line, who queue.Standing) queue.Standing {
	t.Helper()
	var s queue.Standing
	met := map[string]bool{}
	require.Eventually(t, func() bool {
		var err error
		s, err = line.Touch(context.Background(), sign(who))
		met[queue.FaultOf(err).Name] = true
		return err == nil
	}, eventual, 20*time.Millisecond, "met %v", &met)
	require.Equal(t, who.Place, s.Place)
	return s
}

func TestAMasterThatSentinelsReplaceTakesNobodyAway(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(testing.TB, *queuetest.Server){
		"killed": func(_ testing.TB, s *queuetest.Server) { s.Kill() },
		"frozen": func(t testing.TB, s *queuetest.Server) { s.Freeze(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sentinel := queuetest.StartSentinel(t, guarded()...)
			gates := []*queue.Line{
				newLine(t, viaSentinels(t, sentinel.Addrs...), brief),
				newLine(t, viaSentinels(t, sentinel.Addrs...), brief),
			}
			inside := enter(t, gates[0], 1, 2)
			var waiting []queue.Standing
			for n := range 5 {
				waiting = append(waiting, touch(t, gates[n%2], join(t, gates[n%2], 10+n)))
			}
			old := sentinel.Master(t)
			replicated(t, old)
			end(t, old)
			began := time.Now()
			for i, s := range waiting {
				waiting[i] = awaitPlace(t, gates[i%2], s)
			}
			t.Logf("the line answers %s after the master's end", time.Since(began).Round(time.Millisecond))
			require.NotSame(t, old, sentinel.AwaitMaster(t, old))
			room, _ := gates[0].Room()
			require.Zero(t, room.Healing, "nothing was lost")
			require.EqualValues(t, 2, room.Holding)

			require.Equal(t, queue.Active, claim(t, gates[1], inside[0]).State, "the admitted stay admitted")
			require.Equal(t, queue.Ended, release(t, gates[1], inside[0]).State)
			require.Equal(t, queue.Ready, touch(t, gates[0], waiting[0]).State, "the first in line is the next")
			for _, s := range waiting[1:] {
				require.Equal(t, queue.Waiting, touch(t, gates[0], s).State)
			}
		})
	}
}

// A master that was frozen comes back and does not know that it was replaced.
func TestAMasterThatComesBackIsNotObeyed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		args []string
	}{
		{"it has lost its replicas and writes nothing", guarded()},
		{"it goes on writing, and what it gives away dies", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sentinel := queuetest.StartSentinel(t, test.args...)
			line := newLine(t, viaSentinels(t, sentinel.Addrs...), brief)
			inside := enter(t, line, 1, 2)
			front := touch(t, line, join(t, line, 10))
			old := sentinel.Master(t)
			cutOff := newLine(t, old.Client(t), func(o *queue.Options) { o.Gate = "cut off" })
			replicated(t, old)
			old.Freeze(t)
			before := front
			front = awaitPlace(t, line, front)
			next := sentinel.AwaitMaster(t, old)

			// Nobody tells it, and nobody of ours talks to it any more.
			for _, s := range sentinel.Sentinels {
				s.Freeze(t)
			}
			old.Thaw(t)
			requireStill(t, old, func() {
				held := digest(t, next.Client(t))
				for range 20 {
					front = touch(t, line, front)
				}
				require.NotEqual(t, held, digest(t, next.Client(t)), "the gate works with the new master")
			})

			if test.args != nil {
				_, err := cutOff.Join(t.Context(), queue.Arrival{Visitor: visitor(99)})
				require.ErrorIs(t, err, queue.ErrUnavailable)
				require.Equal(t, "too_few_replicas", cutOff.Problem().Name)
				return
			}
			require.Equal(t, queue.Ended, release(t, cutOff, inside[1]).State)
			given := touch(t, cutOff, before)
			require.Equal(t, queue.Ready, given.State, "the old master admits as well")
			require.NotEqual(t, queue.Active, claim(t, line, given).State, "the pass counts nowhere else")
			room, _ := line.Room()
			require.EqualValues(t, 2, room.Holding)
			front = touch(t, line, front)
			require.Equal(t, before.Place, front.Place, "its holder waits as before")
			advance(t, line, next.Client(t), 10*time.Second)
			front = touch(t, line, front)
			require.Positive(t, touch(t, cutOff, front).Room.Healing, "a ticket of the new master stops the old one")

			for _, s := range sentinel.Sentinels {
				s.Thaw(t)
			}
			require.Eventually(t, func() bool {
				_, err := cutOff.Join(context.Background(), queue.Arrival{Visitor: visitor(98)})
				return err != nil && cutOff.Problem().Name == "read_only"
			}, eventual, 50*time.Millisecond, "the old master becomes a replica")
		})
	}
}

// requireStill wants a server to hold the same after something is done as before.
// What had been sent to it before it froze may still arrive when it wakes.
func requireStill(t *testing.T, server *queuetest.Server, done func()) {
	t.Helper()
	client := server.Client(t)
	before := ""
	require.Eventually(t, func() bool {
		now := digest(t, client)
		settled := now == before
		before = now
		return settled
	}, eventual, 200*time.Millisecond)
	done()
	require.Equal(t, before, digest(t, client), "a gate still talks to the old master")
}

// The master's machine dies with the Sentinel on it that this gate asks.
func TestAFrozenSentinelIsLeft(t *testing.T) {
	t.Parallel()
	sentinel := queuetest.StartSentinel(t)
	line := newLine(t, viaSentinels(t, sentinel.Addrs[0]), brief) // the others it learns of
	enter(t, line, 1, 2)
	waiting := touch(t, line, join(t, line, 10))
	old := sentinel.Master(t)
	replicated(t, old)
	sentinel.Sentinels[0].Freeze(t)
	old.Freeze(t)
	began := time.Now()
	awaitPlace(t, line, waiting)
	t.Logf("the line answers %s after both froze", time.Since(began).Round(time.Millisecond))
}

func TestSentinelsThatDoNotKnowTheMasterAreAFaultOfTheSettings(t *testing.T) {
	t.Parallel()
	sentinel := queuetest.StartSentinel(t)
	line, err := queue.New(queue.Options{
		Redis: queuetest.NewClient(t, queue.ClientOptions{Addrs: sentinel.Addrs, MasterName: "nobody", Timeout: time.Second}),
		Room:  "checkout", Limits: queue.Limits{Slots: 1}, Timeout: queuetest.Timeout,
	})
	require.NoError(t, err)
	require.ErrorIs(t, line.Configure(t.Context()), queue.ErrUnavailable)
	require.Equal(t, "unknown_master", line.Problem().Name)
	require.True(t, line.Problem().Lasting)
	for _, s := range sentinel.Sentinels {
		s.Kill()
	}
	require.ErrorIs(t, line.Configure(t.Context()), queue.ErrUnavailable)
	require.Equal(t, "no_sentinel", line.Problem().Name)
	require.False(t, line.Problem().Lasting)
}
