package queue_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// hinted follows the hints of a line and returns how often a visitor was named.
func hinted(t *testing.T, line *queue.Line, name string) *atomic.Int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	named, over := new(atomic.Int64), make(chan error, 1)
	go func() {
		over <- line.Hints(ctx, func(visitors []string) {
			for _, v := range visitors {
				if v == name {
					named.Add(1)
				}
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-over, context.Canceled)
	})
	return named
}

// subscribed waits until somebody listens.
func subscribed(t *testing.T, rdb *redis.Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		n, err := rdb.PubSubNumSub(t.Context(), "qg:{checkout}:room").Result()
		return err == nil && n["qg:{checkout}:room"] > 0
	}, time.Minute, 5*time.Millisecond)
}

func TestHintsNameWhoseStayTookATurn(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Hints, o.Limits = rdb, queue.Limits{Slots: 1} })
		inside := enter(t, line, 0, 1)[0]
		waits := touch(t, line, join(t, line, 1))
		require.Equal(t, queue.Waiting, waits.State)
		named := hinted(t, line, visitor(1))
		subscribed(t, rdb)
		release(t, line, inside)
		require.Eventually(t, func() bool { return named.Load() > 0 }, time.Minute, time.Millisecond, "admitted, and not named")
		look, err := line.Look(t.Context(), sign(waits))
		require.NoError(t, err)
		require.Equal(t, queue.Ready, look.State)
	})
}

func TestBrokenHintsCostPromptnessAlone(t *testing.T) {
	t.Parallel()
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.Hints, o.Limits = rdb, queue.Limits{Slots: 1} })
	inside := enter(t, line, 0, 1)[0]
	waits := touch(t, line, join(t, line, 1))
	named := hinted(t, line, visitor(1))
	for range 50 {
		require.NoError(t, rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
		waits = touch(t, line, waits)
		require.Equal(t, queue.Waiting, waits.State)
	}
	subscribed(t, rdb) // once more, by itself
	release(t, line, inside)
	require.Eventually(t, func() bool { return named.Load() > 0 }, time.Minute, time.Millisecond)
	require.Equal(t, queue.Ready, touch(t, line, waits).State)
}

func TestALookIsNoSignOfLife(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) {
			o.Limits, o.PresenceWindow = queue.Limits{Slots: 1}, time.Second
		})
		enter(t, line, 0, 1)
		waits := touch(t, line, join(t, line, 1))
		for range 5 {
			advance(t, line, rdb, time.Second)
			look, err := line.Look(t.Context(), sign(waits))
			require.NoError(t, err)
			require.Zero(t, look.Seen)
			line.Glance(sign(waits))
			_, err = line.Tick(t.Context())
			require.NoError(t, err)
		}
		look, err := line.Look(t.Context(), sign(waits))
		require.NoError(t, err)
		require.Equal(t, queue.Away, look.State)
	})
}

func TestAGlanceSeesWhatThePollOfSomebodyFarBackIsTold(t *testing.T) {
	t.Parallel()
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{Slots: 1} })
	enter(t, line, 0, 1)
	var near, far queue.Standing
	for i := 1; i <= 1500; i++ {
		s := touch(t, line, join(t, line, i))
		if i == 10 {
			near = s
		}
		far = s
	}
	advance(t, line, rdb, time.Second)
	tickThrough(t, line)
	glance, known := line.Glance(sign(far))
	require.True(t, known)
	poll := touch(t, line, far)
	require.Zero(t, poll.Seen, "answered without Redis")
	require.Equal(t, poll.Ahead, glance.Ahead)
	_, known = line.Glance(sign(near))
	require.False(t, known, "the number of the first is Redis's to tell")
	_, err := line.Leave(t.Context(), queue.Holding{Visitor: far.Visitor, Place: far.Place})
	require.NoError(t, err)
	glance, known = line.Glance(sign(far))
	require.True(t, known)
	require.Equal(t, queue.Ended, glance.State)
	require.Equal(t, queue.Left, glance.Why)
}

// Run asks for changed values as soon as it is told of them, and who holds streams is
// told when this gate has them: the test changes them at another gate and does not tick.
func TestChangedValuesAreToldToEverybodyAtOnce(t *testing.T) {
	t.Parallel()
	rdb := queuetest.Real(t)
	change := func(o *queue.Options) { o.Hints = rdb }
	line, other := newLine(t, rdb, change), newLine(t, rdb, change)
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan string, 100)
	var all sync.WaitGroup
	all.Go(func() { _ = line.Run(ctx) })
	all.Go(func() {
		_ = line.Hints(ctx, func(visitors []string) {
			if len(visitors) == 0 {
				select {
				case told <- line.Settings().Message:
				case <-ctx.Done():
				}
			}
		})
	})
	t.Cleanup(func() { cancel(); all.Wait() })
	published := rdb.Subscribe(t.Context(), "qg:{checkout}:room")
	defer published.Close()
	_, err := published.Receive(t.Context()) // subscribed
	require.NoError(t, err)
	for _, words := range []string{"Doors at nine.", "Doors at ten."} {
		_, err := other.Control(t.Context(), queue.Change{By: "test", Set: map[queue.Setting]string{queue.SettingMessage: words}})
		require.NoError(t, err)
		for payload := ""; payload != "*"; {
			message, err := published.ReceiveTimeout(t.Context(), time.Minute)
			require.NoError(t, err)
			if m, ok := message.(*redis.Message); ok {
				payload = m.Payload
			}
		}
		for heard := ""; heard != words; {
			select {
			case heard = <-told:
			case <-time.After(time.Minute):
				require.FailNow(t, "nobody was told")
			}
		}
	}
}
