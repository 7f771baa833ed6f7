package queue_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// BenchmarkLine measures what Redis itself spends on the line, with many people
// waiting: microseconds of script for each visitor, and for the longest and the
// mean call. Run it with -benchtime of a fixed count, such as 20000x.
func BenchmarkLine(b *testing.B) {
	for _, waiting := range []int64{10_000, 2_000_000} {
		rdb := queuetest.Real(b)
		held := newLine(b, rdb, func(o *queue.Options) { o.QueueAll, o.Limits.Slots = true, 1_000_000_000 })
		before := number(b, rdb, "memory", "used_memory:")
		fillLine(b, rdb, held, waiting)
		bytes := float64(number(b, rdb, "memory", "used_memory:")-before) / float64(waiting)
		run := func(name string, op func(b *testing.B)) {
			b.Run(fmt.Sprintf("%d waiting/%s", waiting, name), func(b *testing.B) {
				measure(b, rdb, op)
				b.ReportMetric(bytes, "bytes/waiter")
			})
		}
		joined := 0
		run("join", func(b *testing.B) {
			from := joined
			joined += b.N
			crowd(b, b.N, func(i int) error {
				_, err := held.Join(context.Background(), queue.Arrival{Visitor: visitor(from + i)})
				return err
			})
		})
		run("touch", func(b *testing.B) {
			crowd(b, b.N, func(i int) error {
				rank := int64(i) * 7919 % waiting
				_, err := held.Touch(context.Background(), queue.Sign{
					Visitor: lineName(rank), Place: linePlace(rank), Due: 1 << 41, Ahead: rank,
				})
				return err
			})
		})
		run("tick", func(b *testing.B) {
			for range b.N {
				require.NoError(b, held.Advance(b.Context(), rdb, 500_000_000))
				_, err := held.Tick(b.Context())
				require.NoError(b, err)
			}
		})
		run("admit a thousand", func(b *testing.B) {
			open := newLine(b, rdb, func(o *queue.Options) { o.Limits.Slots = 1_000_000_000 })
			for range b.N {
				_, err := open.Tick(b.Context())
				require.NoError(b, err)
			}
		})
	}
	rdb := queuetest.Real(b)
	free := newLine(b, rdb, func(o *queue.Options) { o.Limits.Slots = 1_000_000_000 })
	b.Run("claim", func(b *testing.B) {
		passes := make([]queue.Standing, b.N)
		crowd(b, b.N, func(i int) (err error) {
			passes[i], err = free.Join(context.Background(), queue.Arrival{Visitor: visitor(i)})
			return err
		})
		measure(b, rdb, func(b *testing.B) {
			crowd(b, b.N, func(i int) error {
				_, err := free.Claim(context.Background(), holding(passes[i]))
				return err
			})
		})
	})
}

// measure reports what Redis's own clocks say of the scripts of one operation.
func measure(b *testing.B, rdb *redis.Client, op func(b *testing.B)) {
	b.Helper()
	// The slow log also takes down what scripts call: only the slow, or it decides
	// the figures.
	require.NoError(b, rdb.ConfigSet(b.Context(), "slowlog-log-slower-than", "1000").Err())
	require.NoError(b, rdb.ConfigResetStat(b.Context()).Err())
	require.NoError(b, rdb.Do(b.Context(), "SLOWLOG", "RESET").Err())
	b.ResetTimer()
	op(b)
	b.StopTimer()
	longest := int64(0)
	logs, err := rdb.SlowLogGet(b.Context(), -1).Result()
	require.NoError(b, err)
	for _, entry := range logs {
		longest = max(longest, entry.Duration.Microseconds())
	}
	calls := number(b, rdb, "commandstats", `cmdstat_evalsha:calls=`)
	spent := float64(number(b, rdb, "commandstats", `cmdstat_evalsha:calls=\d+,usec=`))
	b.ReportMetric(spent/float64(b.N), "µs/op")
	b.ReportMetric(spent/float64(calls), "µs/call")
	b.ReportMetric(float64(longest), "µs/longest-call")
	b.ReportMetric(float64(b.N)/float64(calls), "ops/call")
}

// number is one figure of INFO.
func number(b *testing.B, rdb *redis.Client, section, field string) int64 {
	b.Helper()
	info, err := rdb.Info(b.Context(), section).Result()
	require.NoError(b, err)
	match := regexp.MustCompile(`(?m)^` + field + `(\d+)`).FindStringSubmatch(info)
	require.Len(b, match, 2, "no %s in INFO %s", field, section)
	n, err := strconv.ParseInt(match[1], 10, 64)
	require.NoError(b, err)
	return n
}
