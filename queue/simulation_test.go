package queue_test

import (
	"context"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// A sale, simulated in fake time against the real package and the embedded
// Redis: people arrive, poll as told, give up silently, shop slowly, and the
// limits change in the middle. What is judged is the wait that their answers
// carried.
type sale struct {
	arriveEvery time.Duration // mean of an exponential
	giveUp      float64       // share of visitors who vanish before a minute of waiting is over
	shop        time.Duration // mean time in the shop, exponential; 0: the pass is given back at once
	limits      []stage
	length      time.Duration
}

// stage are the limits from a moment on.
type stage struct {
	from   time.Duration
	limits queue.Limits
}

// told is one answer: when, and which wait it carried.
type told struct {
	at    time.Duration
	wait  time.Duration
	known bool
}

// life is what one visitor was told until the admission.
type life struct {
	answers  []told
	admitted time.Duration // 0: never
}

// run plays the sale and returns the lives of everybody who was admitted.
func (s sale) run(t *testing.T, seed uint64) []life {
	var mu sync.Mutex
	var lives []life
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		defer m.Close()
		rdb, err := queue.NewClient(queue.ClientOptions{
			Timeout: queuetest.Timeout,
			Dial:    func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		})
		require.NoError(t, err)
		defer func() { _ = rdb.Close() }()
		open := func(l queue.Limits) *queue.Line {
			line, err := queue.New(queue.Options{Redis: rdb, Room: "sale", Timeout: queuetest.Timeout, Limits: l, Gate: "gate"})
			require.NoError(t, err)
			return line
		}
		line := open(s.limits[0].limits)
		ctx, cancel := context.WithTimeout(t.Context(), s.length)
		defer cancel()
		start := time.Now()
		var group sync.WaitGroup
		group.Go(func() { _ = line.Run(ctx) })
		for _, next := range s.limits[1:] {
			group.Go(func() {
				if sleep(ctx, next.from) {
					_ = open(next.limits).Configure(ctx)
				}
			})
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		for n := 0; sleep(ctx, time.Duration(rng.ExpFloat64()*float64(s.arriveEvery))); n++ {
			own := rand.New(rand.NewPCG(seed, uint64(n+2)))
			group.Go(func() {
				if l, ok := s.visit(ctx, line, n, own, start); ok {
					mu.Lock()
					lives = append(lives, l)
					mu.Unlock()
				}
			})
		}
		group.Wait()
	})
	return lives
}

// visit is one visitor's stay.
func (s sale) visit(ctx context.Context, line *queue.Line, n int, rng *rand.Rand, start time.Time) (life, bool) {
	standing, err := line.Join(ctx, queue.Arrival{Visitor: visitor(n)})
	if err != nil {
		return life{}, false
	}
	patience := time.Duration(math.MaxInt64)
	if rng.Float64() < s.giveUp {
		patience = time.Duration(rng.Float64() * float64(time.Minute))
	}
	began := time.Now()
	var l life
	seen, due := int64(0), standing.Due
	for standing.State == queue.Away || standing.State == queue.Waiting {
		l.answers = append(l.answers, told{time.Since(start), standing.Wait, standing.WaitKnown})
		jitter := 0.8 + 0.4*rng.Float64()
		if !sleep(ctx, time.Duration(float64(standing.Poll)*jitter)) || time.Since(began) > patience {
			return life{}, false
		}
		ticket := sign(standing)
		ticket.Seen, ticket.Due = seen, due
		if standing, err = line.Touch(ctx, ticket); err != nil {
			return life{}, false
		}
		if standing.Seen > 0 {
			seen, due = standing.Seen, standing.Due
		}
	}
	l.admitted = time.Since(start)
	if standing, err = line.Claim(ctx, holding(standing)); err != nil || standing.State != queue.Active {
		return l, err == nil
	}
	if s.shop == 0 || sleep(ctx, time.Duration(rng.ExpFloat64()*float64(s.shop))) {
		_, _ = line.Release(ctx, holding(standing))
	}
	return l, true
}

// sleep waits in fake time; false when the sale is over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// off lists, for the answers given in a span of the sale, the told wait as a
// share of the true one. Waits under ten seconds are left out (a poll apart they
// are all alike), and so are waits into which a change of limits fell: nobody
// could know of it.
func (s sale) off(lives []life, from, to time.Duration) (shares []float64, unknown int) {
	for _, l := range lives {
		for _, a := range l.answers {
			true := l.admitted - a.at
			if a.at < from || a.at > to || true < 10*time.Second || s.changes(a.at, l.admitted) {
				continue
			}
			if !a.known {
				unknown++
				continue
			}
			shares = append(shares, float64(a.wait)/float64(true))
		}
	}
	return shares, unknown
}

func (s sale) changes(from, to time.Duration) bool {
	return slices.ContainsFunc(s.limits, func(l stage) bool { return from < l.from && l.from < to })
}

// quantile of how far shares are from 1.
func quantile(shares []float64, q float64) float64 {
	far := make([]float64, len(shares))
	for i, share := range shares {
		far[i] = math.Abs(share - 1)
	}
	slices.Sort(far)
	return far[int(float64(len(far)-1)*q)]
}

func TestTheWaitToldIsTheWaitThatComes(t *testing.T) {
	sales := map[string]sale{
		"a rate that is halved and doubled, and one in five gives up": {
			arriveEvery: 900 * time.Millisecond, giveUp: 0.2, length: 6 * time.Minute,
			limits: []stage{
				{0, queue.Limits{PerMinute: 60}}, {150 * time.Second, queue.Limits{PerMinute: 30}},
				{240 * time.Second, queue.Limits{PerMinute: 60}},
			},
		},
		"slots, and slow shoppers": {
			arriveEvery: 800 * time.Millisecond, shop: 15 * time.Second, length: 6 * time.Minute,
			limits: []stage{{0, queue.Limits{Slots: 12}}},
		},
	}
	for name, s := range sales {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lives := s.run(t, 7)
			all, unknown := s.off(lives, time.Minute, s.length)
			require.Greater(t, len(all), 1000)
			t.Logf("%d admitted, %d answers, %d without a number; error of the wait: median %.1f %%, 90th percentile %.1f %%",
				len(lives), len(all), unknown, 100*quantile(all, 0.5), 100*quantile(all, 0.9))
			require.LessOrEqual(t, quantile(all, 0.5), 0.15, "median error")
			require.Zero(t, unknown, "a minute of data is ground for a number")
			for _, change := range s.limits[1:] {
				after, _ := s.off(lives, change.from+time.Minute, change.from+90*time.Second)
				require.NotEmpty(t, after)
				require.LessOrEqual(t, slices.Max(after), 2.0, "a minute after the change at %s", change.from)
				require.GreaterOrEqual(t, slices.Min(after), 0.5, "a minute after the change at %s", change.from)
			}
		})
	}
}
