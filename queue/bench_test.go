package queue_test

import (
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

// lineEnv names another long line, how many calls of each kind, and which kinds, as a
// pattern.
const lineEnv = "QUEUEGATE_TEST_LINE"

// BenchmarkLine prints what each kind of script call, at its most expensive, costs
// Redis with 10,000 and with 2,000,000 waiting: the time its main thread was on a
// processor, so that neighbours who make it wait do not count. They do count in so
// far as they share the processor's caches: the reference, six hundred simple
// commands in one script, tells how fast the machine was, and the two lines take
// turns. It needs Linux.
func BenchmarkLine(b *testing.B) {
	calls, waiting, wanted := 300, []int64{10_000, 2_000_000}, regexp.MustCompile("")
	if words := strings.SplitN(os.Getenv(lineEnv), " ", 3); len(words) == 3 {
		var err error
		waiting[1], err = strconv.ParseInt(words[0], 10, 64)
		require.NoError(b, err)
		waiting[0] = min(waiting[0], waiting[1])
		calls, err = strconv.Atoi(words[1])
		require.NoError(b, err)
		wanted = regexp.MustCompile(words[2])
	}
	lines := make([]*redis.Client, len(waiting))
	for i, people := range waiting {
		lines[i] = queuetest.Real(b)
		line := newLine(b, lines[i], closedTo)
		before := number(b, lines[i], "memory", "used_memory:")
		fillLine(b, lines[i], line, people)
		fmt.Printf("%d waiting: %d bytes each\n", people, (number(b, lines[i], "memory", "used_memory:")-before)/people)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(table, "µs of Redis a call\tmean at %d\tp99\tmax\tmean at %d\tp99\tmax\tratio\t\n", waiting[0], waiting[1])
	show := func(name string, costs [][]time.Duration) {
		few, many := figureOf(costs[0]), figureOf(costs[1])
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%.2f\t\n", name, few, many, float64(many.mean)/float64(few.mean))
	}
	show("the reference", costs(b, lines, calls, func(i int) (func(), func() error) {
		return func() {}, func() error {
			return redis.NewScript(reference).Run(b.Context(), lines[i], []string{"{reference}:hash", "{reference}:set"}).Err()
		}
	}))
	for _, s := range scenes() {
		if !wanted.MatchString(s.name) {
			continue
		}
		show(s.name, costs(b, lines, calls, func(i int) (func(), func() error) {
			r := newCrowdedRoom(b, lines[i], s, waiting[i])
			prepare := func() {
				if s.before != nil {
					s.before(r)
				}
			}
			return prepare, func() error { return s.call(r) }
		}))
	}
	require.NoError(b, table.Flush())
}

// figure is what the calls of one scene cost.
type figure struct {
	mean, p99, longest time.Duration
}

func figureOf(costs []time.Duration) figure {
	slices.Sort(costs)
	total := time.Duration(0)
	for _, cost := range costs {
		total += cost
	}
	return figure{total / time.Duration(len(costs)), costs[len(costs)*99/100], costs[len(costs)-1]}
}

func (f figure) String() string {
	return fmt.Sprintf("%d\t%d\t%d", f.mean.Microseconds(), f.p99.Microseconds(), f.longest.Microseconds())
}

const reference = `for i = 1, 300 do
  redis.call('HSET', KEYS[1], i % 100, i)
  redis.call('ZADD', KEYS[2], i % 7, i % 100)
end
return 1`

// costs is what each of some calls costs the main threads of servers that do nothing
// else, turn by turn.
func costs(b *testing.B, servers []*redis.Client, calls int, scene func(i int) (prepare func(), call func() error)) [][]time.Duration {
	b.Helper()
	list := make([][]time.Duration, len(servers))
	pids := make([]int64, len(servers))
	prepare, call := make([]func(), len(servers)), make([]func() error, len(servers))
	for i, rdb := range servers {
		pids[i] = number(b, rdb, "server", "process_id:")
		prepare[i], call[i] = scene(i)
	}
	for range calls {
		for i := range servers {
			prepare[i]()
			start := spent(b, pids[i])
			require.NoError(b, call[i]())
			list[i] = append(list[i], spent(b, pids[i])-start)
		}
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
