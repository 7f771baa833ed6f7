package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// relay stands between a gate and Redis and has each reply in its hands before the
// gate does.
type relay struct{ *queuetest.Relay }

// newRelay starts a relay and returns a client that knows Redis by it alone.
func newRelay(t *testing.T, redisAddr string, options queue.ClientOptions) (relay, redis.UniversalClient) {
	t.Helper()
	r := relay{queuetest.NewRelay(t, redisAddr)}
	options.URL = "redis://" + r.Addr
	return r, queuetest.NewClient(t, options)
}

// do hands each reply to f from now on. Not ok breaks the connection; nil is to leave
// replies as they are.
func (r relay) do(f queuetest.Hand) {
	_ = r.Set(queuetest.Weather{Replies: f}) // it listens already
}

// eat lets the next reply vanish together with its connection, and tells whether
// it has.
func (r relay) eat() (eaten func() bool) {
	var full atomic.Bool
	r.do(func(reply []byte) ([]byte, bool) { return reply, !full.CompareAndSwap(false, true) })
	return full.Load
}

// Two answers that change places are about other people: a place, or a pass, must
// not be told to whom it does not belong.
func TestAnAnswerToAnotherCallIsNotTold(t *testing.T) {
	server := queuetest.Start(t)
	between, rdb := newRelay(t, server.Addr, queue.ClientOptions{Timeout: queuetest.Timeout})
	gates := []*queue.Line{newLine(t, rdb, nil), newLine(t, rdb, nil)}
	enter(t, gates[0], 1, 2)
	people := []queue.Standing{touch(t, gates[0], join(t, gates[0], 10)), touch(t, gates[1], join(t, gates[1], 11))}

	// Both connections stand before answers change places.
	between.do(func(reply []byte) ([]byte, bool) {
		for end := time.Now().Add(time.Minute); between.Dialled() < 2 && time.Now().Before(end); {
			<-time.After(time.Millisecond)
		}
		return reply, true
	})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { _ = rdb.Ping(context.Background()).Err() })
	}
	group.Wait()
	require.GreaterOrEqual(t, between.Dialled(), int64(2))

	// Of two replies that are on their way each goes to the other's caller.
	var mu sync.Mutex
	var held chan []byte
	var before []byte
	between.do(func(reply []byte) ([]byte, bool) {
		mu.Lock()
		if held == nil {
			held, before = make(chan []byte, 1), reply
			wait := held
			mu.Unlock()
			select {
			case other := <-wait:
				return other, true
			case <-t.Context().Done():
				return reply, true
			}
		}
		held <- reply
		reply, held = before, nil
		mu.Unlock()
		return reply, true
	})
	errs := make([]error, 2)
	for i := range people {
		group.Go(func() { _, errs[i] = gates[i].Touch(context.Background(), sign(people[i])) })
	}
	group.Wait()
	between.do(nil)
	for i := range people {
		require.ErrorIs(t, errs[i], queue.ErrUnavailable, "unknown, and to be asked again")
		require.ErrorIs(t, errs[i], queue.ErrReply)
		require.Equal(t, people[i].Place, touch(t, gates[i], people[i]).Place)
	}
}

// Answers that come late, to callers who have given up, are not taken for the
// answers to what was asked next.
func TestLateAnswersAreNobodyElses(t *testing.T) {
	server := queuetest.Start(t)
	const timeout = 100 * time.Millisecond
	between, rdb := newRelay(t, server.Addr, queue.ClientOptions{Timeout: timeout})
	patient := newLine(t, server.Client(t), func(o *queue.Options) { o.PresenceWindow = time.Hour })
	enter(t, patient, 1, 2)
	const crowd = 1000
	people := make([]queue.Standing, crowd)
	var group sync.WaitGroup
	for i := range people {
		group.Go(func() { people[i], _ = patient.Join(context.Background(), queue.Arrival{Visitor: visitor(100 + i)}) })
	}
	group.Wait()

	hasty, err := queue.New(queue.Options{
		Redis: rdb, Room: "checkout", Timeout: timeout, Limits: queue.Limits{Slots: 2}, PresenceWindow: time.Hour,
	})
	require.NoError(t, err)
	between.do(func(reply []byte) ([]byte, bool) {
		if rand.N(4) == 0 { //nolint:gosec // which one is late, not a secret
			<-time.After(timeout + timeout/2)
		}
		return reply, true
	})
	var told, refused atomic.Int64
	wrong := make(chan string, crowd)
	for i := range people {
		group.Go(func() {
			for range 5 {
				s, err := hasty.Touch(context.Background(), sign(people[i]))
				switch {
				case errors.Is(err, queue.ErrUnavailable):
					refused.Add(1)
				case err != nil || s.Visitor != people[i].Visitor || s.Place != people[i].Place:
					wrong <- fmt.Sprintf("%s at %d was told %s at %d, %v", people[i].Visitor, people[i].Place, s.Visitor, s.Place, err)
					return
				default:
					told.Add(1)
				}
			}
		})
	}
	group.Wait()
	close(wrong)
	for what := range wrong {
		t.Error(what)
	}
	require.Positive(t, refused.Load(), "nothing was late")
	t.Logf("%d answers in time, %d late, %d connections", told.Load(), refused.Load(), between.Dialled())
	between.do(nil)
	require.Eventually(t, func() bool {
		s, err := hasty.Touch(context.Background(), sign(people[7]))
		return err == nil && s.Place == people[7].Place
	}, time.Minute, time.Millisecond, "the line answers again")
}
