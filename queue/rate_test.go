package queue_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
)

// token is one admission in the unit of the bucket.
const token = 60_000

// bucket is the rule of lua/room.lua's fill and take said once more.
type bucket struct {
	rate, burst    int64
	tokens, filled int64
}

func fullBucket(rate, burst int64) bucket {
	return bucket{rate: rate, burst: burst, tokens: burst * token}
}

func (b *bucket) fill(now int64) {
	b.tokens = min(b.burst*token, b.tokens+max(0, now-b.filled)*(b.rate-b.burst+1))
	b.filled = max(b.filled, now)
}

// take pays for one admission, if it can.
func (b *bucket) take(now int64) bool {
	if b.tokens < token {
		return false
	}
	if b.tokens == b.burst*token {
		b.filled = now + 1
	}
	b.tokens -= token
	return true
}

// next is the first moment at which one more admission can be paid for.
func (b *bucket) next(now int64) int64 {
	if b.tokens >= token {
		return now
	}
	gain := b.rate - b.burst + 1
	return b.filled + (token-b.tokens+gain-1)/gain
}

// greedy lists the moments of the admissions of a line that never runs empty.
func greedy(rate, burst, until int64) []int64 {
	b, now := fullBucket(rate, burst), int64(0)
	var admitted []int64
	for now <= until {
		for b.fill(now); b.take(now); {
			admitted = append(admitted, now)
		}
		now = b.next(now)
	}
	return admitted
}

// overRate tells which promise about the rate these moments, in order, break:
// at most rate in any 60,000 ms, both ends counted, and in any window of t
// seconds fewer than burst + r*t with r = (rate - burst + 1)/60.
func overRate(admitted []int64, rate, burst int64) string {
	gain := rate - burst + 1
	first := 0
	// lowest is the least of i*token - gain*t over the admissions before the
	// moment looked at; with it no pair need be looked at twice.
	lowest, passed := int64(0), 0
	for j, t := range admitted {
		for t-admitted[first] > 60_000 {
			first++
		}
		if n := int64(j - first + 1); n > rate {
			return fmt.Sprintf("%d admissions in the minute to %d", n, t)
		}
		for ; admitted[passed] < t; passed++ {
			if low := int64(passed)*token - gain*admitted[passed]; passed == 0 || low < lowest {
				lowest = low
			}
		}
		if passed > 0 && (int64(j)+1-burst)*token-gain*t >= lowest {
			return fmt.Sprintf("burst + r*t reached at %d", t)
		}
		if n := int64(j - passed + 1); n > burst {
			return fmt.Sprintf("%d admissions at %d", n, t)
		}
	}
	return ""
}

func TestTheRateIsNeverExceededInAnyWindow(t *testing.T) {
	for rate := int64(1); rate <= 3000; rate++ {
		bursts := []int64{max(1, rate/60)}
		if rate%10 == 0 || rate < 30 {
			bursts = append(bursts, 1, (rate+1)/2, rate)
		}
		for i, burst := range bursts {
			admitted := greedy(rate, burst, 125_000)
			if broken := overRate(admitted, rate, burst); broken != "" {
				t.Fatalf("%d a minute, burst %d: %s", rate, burst, broken)
			}
			// A bucket of few tokens wastes what comes while it is full.
			if n := int64(len(admitted)); i == 0 && n < burst+2*(rate-burst+1) {
				t.Fatalf("%d a minute, burst %d: only %d admissions in 125 s", rate, burst, n)
			}
		}
	}
}

func TestTheRateHoldsWhenPeopleComeAtTheWorstMoments(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		rate := 1 + random.Int64N(3000)
		burst := 1 + random.Int64N(rate)
		b, now := fullBucket(rate, burst), int64(0)
		var admitted []int64
		for now < 400_000 {
			b.fill(now)
			for n := 1 + random.Int64N(burst); n > 0 && b.take(now); n-- {
				admitted = append(admitted, now)
			}
			if random.IntN(20) == 0 {
				now += random.Int64N(61_000)
			}
			now = max(now+1, b.next(now)+random.Int64N(3))
		}
		require.Empty(t, overRate(admitted, rate, burst), "seed %d: %d a minute, burst %d", seed, rate, burst)
	}
}

// The broken buckets must be seen by the same check.
func TestTheCheckOfTheRateSeesABrokenBucket(t *testing.T) {
	late := greedy(60, 5, 125_000)
	late[len(late)-1] = late[len(late)-2]
	late[len(late)-2] = late[len(late)-3]
	require.NotEmpty(t, overRate(late, 60, 5), "two came a little early")
	var full []int64
	for second := range int64(125) {
		full = append(full, second*1000)
	}
	require.NotEmpty(t, overRate(append([]int64{0, 0, 0, 0}, full...), 60, 5), "refilled by the whole rate")
}

func TestTheScriptsAdmitExactlyAsTheBucketSays(t *testing.T) {
	for _, limits := range []queue.Limits{
		{PerMinute: 1, Burst: 1}, {PerMinute: 7, Burst: 3}, {PerMinute: 60, Burst: 1}, {PerMinute: 61, Burst: 61},
		{PerMinute: 3000, Burst: 5},
	} {
		t.Run(fmt.Sprintf("%d a minute, burst %d", limits.PerMinute, limits.Burst), func(t *testing.T) {
			onEach(t, func(t *testing.T, rdb *redis.Client) {
				wanted := greedy(limits.PerMinute, limits.Burst, 200_000)
				wanted = wanted[:min(len(wanted), int(limits.Burst)+12)]
				queueAll := func(o *queue.Options) {
					o.Limits, o.QueueAll = limits, true
					o.PresenceWindow, o.ClaimWindow = time.Hour, time.Hour
				}
				line := newLine(t, rdb, queueAll)
				for n := range len(wanted) + 1 {
					touch(t, line, join(t, line, n))
				}
				line = newLine(t, rdb, func(o *queue.Options) { queueAll(o); o.QueueAll = false })
				start := now(t, line)
				// As after a quiet time: a pause saves nothing up.
				require.NoError(t, rdb.HSet(t.Context(), line.Keys()[0],
					"tokens", limits.Burst*60_000, "filled", start, "now", start).Err())
				admittedAt := func(at int64) (admitted int64) {
					require.NoError(t, rdb.HSet(t.Context(), line.Keys()[0], "now", start+at).Err())
					for again := true; again; {
						require.NoError(t, line.StopClock(t.Context(), rdb))
						var err error
						again, err = line.Tick(t.Context())
						require.NoError(t, err)
					}
					require.Equal(t, start+at, now(t, line))
					admitted, err := rdb.HGet(t.Context(), line.Keys()[0], "admitted").Int64()
					require.NoError(t, err)
					return admitted
				}
				for i, at := range wanted {
					if i > 0 && wanted[i-1] < at-1 {
						require.EqualValues(t, i, admittedAt(at-1), "a millisecond early, at %d", at-1)
					}
					if i+1 == len(wanted) || wanted[i+1] > at {
						require.EqualValues(t, i+1, admittedAt(at), "at %d", at)
					}
				}
			})
		})
	}
}
