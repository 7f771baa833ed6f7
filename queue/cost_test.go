package queue_test

import (
	"bufio"
	"context"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// watched lists the commands that scripts run, as MONITOR shows them.
type watched struct {
	t     testing.TB
	rdb   *redis.Client
	lines *bufio.Scanner
}

func watch(t testing.TB, rdb *redis.Client) *watched {
	t.Helper()
	conn, err := net.Dial("tcp", rdb.Options().Addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(queuetest.Timeout)))
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(t, err)
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	require.True(t, lines.Scan())
	require.Equal(t, "+OK", lines.Text())
	return &watched{t, rdb, lines}
}

var quoted = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`)

// commands are those of the scripts since it was last asked.
func (w *watched) commands() [][]string {
	w.t.Helper()
	require.NoError(w.t, w.rdb.Echo(context.Background(), "so far").Err())
	var list [][]string
	for w.lines.Scan() {
		line := w.lines.Text()
		if strings.Contains(line, `"echo" "so far"`) {
			return list
		}
		if !strings.Contains(line, " lua] ") {
			continue
		}
		var command []string
		for _, word := range quoted.FindAllStringSubmatch(line, -1) {
			command = append(command, word[1])
		}
		list = append(list, command)
	}
	require.NoError(w.t, w.lines.Err())
	return list
}

// readsAll tells whether a command reads as much as there is, or more members than
// a page of one call.
func readsAll(command []string) bool {
	switch strings.ToUpper(command[0]) {
	case "HGETALL":
		return !strings.HasSuffix(command[1], ":gates")
	case "KEYS", "SCAN", "SMEMBERS", "HKEYS", "HVALS", "HSCAN", "ZSCAN", "SSCAN", "SORT", "ZUNIONSTORE", "ZINTERSTORE", "ZRANGESTORE":
		return true
	case "ZRANGE", "ZREVRANGE":
		from, _ := strconv.Atoi(command[2])
		to, _ := strconv.Atoi(command[3])
		return to < 0 || to-from >= 100
	case "ZRANGEBYSCORE", "ZREVRANGEBYSCORE":
		limit := slices.Index(command, "LIMIT")
		if limit < 0 {
			return true
		}
		most, _ := strconv.Atoi(command[limit+2])
		return most > 200
	}
	return false
}

// What one call costs is what its visitors cost and a bounded rest, and the length
// of the line has no part in it. Commands are counted, no clock is asked.
func TestOneCallRunsABoundedNumberOfCommandsHoweverLongTheLine(t *testing.T) {
	for _, waiting := range []int64{1000, 20_000} {
		rdb := queuetest.Real(t)
		fillLine(t, rdb, newLine(t, rdb, closedTo), waiting)
		for _, s := range scenes() {
			t.Run(strconv.FormatInt(waiting, 10)+" waiting, "+s.name, func(t *testing.T) {
				r := newCrowdedRoom(t, rdb, s, waiting)
				seen := watch(t, rdb)
				for range 3 {
					if s.before != nil {
						s.before(r)
					}
					seen.commands()
					require.NoError(t, s.call(r))
					commands := seen.commands()
					require.NotEmpty(t, commands)
					require.LessOrEqual(t, len(commands), s.most)
					for _, command := range commands {
						require.False(t, readsAll(command), "%v", command)
						require.LessOrEqual(t, len(command), 2+2*200, "%.200v", command)
					}
				}
			})
		}
	}
}
