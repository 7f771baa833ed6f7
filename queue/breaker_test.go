package queue_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
)

// troubled is a Redis that does not do what it is asked.
type troubled struct {
	redis.Scripter
	calls atomic.Int64
	fail  func(ctx context.Context) error // how a call ends; nil: not at all before ctx does
}

func (s *troubled) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	s.calls.Add(1)
	cmd := redis.NewCmd(ctx)
	if s.fail != nil {
		cmd.SetErr(s.fail(ctx))
		return cmd
	}
	<-ctx.Done()
	cmd.SetErr(ctx.Err())
	return cmd
}

// redisSays is an error that Redis itself tells.
type redisSays string

func (e redisSays) Error() string { return string(e) }
func (redisSays) RedisError()     {}

func TestASilentRedisCostsAWaitOnceAndNotForEveryRequest(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"frozen":  nil,
		"refused": func(context.Context) error { return &net.OpError{Op: "dial", Err: errors.New("connection refused")} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &troubled{fail: fail}
				line, err := queue.New(queue.Options{
					Redis: store, Room: "checkout", Timeout: 100 * time.Millisecond, Limits: queue.Limits{Slots: 2},
				})
				require.NoError(t, err)
				began := time.Now()
				var waited atomic.Int64 // in milliseconds, of all requests
				var group sync.WaitGroup
				for range 1000 { // a hundred a second
					group.Go(func() {
						asked := time.Now()
						_, err := line.Join(t.Context(), queue.Arrival{Visitor: visitor(1)})
						if !errors.Is(err, queue.ErrUnavailable) {
							t.Error(err)
						}
						took := time.Since(asked)
						if took > 100*time.Millisecond {
							t.Errorf("a request waited %s", took)
						}
						waited.Add(took.Milliseconds())
					})
					time.Sleep(10 * time.Millisecond)
				}
				group.Wait()
				outage := time.Since(began)
				// The first tenth of a second, and then a quarter of a second after each
				// that waited for another one.
				require.LessOrEqual(t, store.calls.Load(), int64(20+outage/(350*time.Millisecond)))
				require.GreaterOrEqual(t, store.calls.Load(), int64(outage/(400*time.Millisecond)), "it goes on trying")
				require.LessOrEqual(t, waited.Load(), int64(100*(20+outage/(350*time.Millisecond))))

				store.fail = func(context.Context) error { return redisSays("OOM command not allowed") }
				time.Sleep(350 * time.Millisecond)
				before := store.calls.Load()
				for range 10 {
					_, err := line.Join(t.Context(), queue.Arrival{Visitor: visitor(1)})
					require.ErrorIs(t, err, queue.ErrUnavailable)
					require.ErrorContains(t, err, "OOM")
				}
				require.EqualValues(t, 10, store.calls.Load()-before, "a word of Redis, be it a refusal, is asked for every time")
			})
		})
	}
}
