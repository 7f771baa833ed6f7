package queue_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// BenchmarkLine prints what each kind of script call, at its most expensive, costs
// Redis with 10,000 and with 2,000,000 waiting: the time its main thread was on a
// processor, so that neighbours who make it wait do not count. They do count in so
// far as they share the processor's caches: the reference, six hundred simple
// commands in one script, tells how fast the machine was. It needs Linux.
func BenchmarkLine(b *testing.B) {
	const few, many, calls = 10_000, 2_000_000, 300
	small, large := figures(b, few, calls), figures(b, many, calls)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(table, "µs of Redis a call\tmean at %d\tp99\tmax\tmean at %d\tp99\tmax\tratio\t\n", few, many)
	for i, s := range small {
		l := large[i]
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.2f\t\n", s.name, s.mean.Microseconds(), s.p99.Microseconds(),
			s.longest.Microseconds(), l.mean.Microseconds(), l.p99.Microseconds(), l.longest.Microseconds(),
			float64(l.mean)/float64(s.mean))
	}
	require.NoError(b, table.Flush())
}

// figure is what the calls of one scene cost.
type figure struct {
	name               string
	mean, p99, longest time.Duration
}

func figureOf(name string, costs []time.Duration) figure {
	slices.Sort(costs)
	total := time.Duration(0)
	for _, cost := range costs {
		total += cost
	}
	return figure{name, total / time.Duration(len(costs)), costs[len(costs)*99/100], costs[len(costs)-1]}
}

const reference = `for i = 1, 300 do
  redis.call('HSET', KEYS[1], i % 100, i)
  redis.call('ZADD', KEYS[2], i % 7, i % 100)
end
return 1`

// figures measures all scenes in one line.
func figures(b *testing.B, waiting int64, calls int) []figure {
	rdb := queuetest.Real(b)
	line := newLine(b, rdb, closedTo)
	before := number(b, rdb, "memory", "used_memory:")
	fillLine(b, rdb, line, waiting)
	fmt.Printf("%d waiting: %d bytes each\n", waiting, (number(b, rdb, "memory", "used_memory:")-before)/waiting)
	script := redis.NewScript(reference)
	all := []figure{figureOf("the reference", costs(b, rdb, calls, func() {}, func() error {
		return script.Run(context.Background(), rdb, []string{"{reference}:hash", "{reference}:set"}).Err()
	}))}
	for _, s := range scenes() {
		r := newCrowdedRoom(b, rdb, s, waiting)
		prepare := func() {
			if s.before != nil {
				s.before(r)
			}
		}
		all = append(all, figureOf(s.name, costs(b, rdb, calls, prepare, func() error { return s.call(r) })))
	}
	return all
}

// costs is what each of some calls costs the main thread of a Redis that does
// nothing else.
func costs(b *testing.B, rdb *redis.Client, calls int, prepare func(), call func() error) []time.Duration {
	b.Helper()
	pid := number(b, rdb, "server", "process_id:")
	list := make([]time.Duration, calls)
	for i := range list {
		prepare()
		start := spent(b, pid)
		require.NoError(b, call())
		list[i] = spent(b, pid) - start
	}
	return list
}

// spent is how long a process's main thread has been on a processor, once it rests.
func spent(b *testing.B, pid int64) time.Duration {
	b.Helper()
	task := fmt.Sprintf("/proc/%d/task/%d/", pid, pid)
	read := func(name string) string {
		raw, err := os.ReadFile(task + name)
		require.NoError(b, err)
		return string(raw)
	}
	for resting := false; !resting; {
		stat := read("stat") // 17 (redis-server) S …
		resting = strings.HasPrefix(stat[strings.LastIndexByte(stat, ')')+1:], " S")
	}
	ns, err := strconv.ParseInt(strings.Fields(read("schedstat"))[0], 10, 64)
	require.NoError(b, err)
	return time.Duration(ns)
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
