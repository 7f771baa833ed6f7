package main_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/metrics"
)

// The table is the list of the program itself: go test ./cmd/queuegate -run
// TestTheREADMEListsEachMetric -update writes it anew.
func TestTheREADMEListsEachMetric(t *testing.T) {
	t.Parallel()
	m, err := metrics.New(metrics.Options{})
	require.NoError(t, err)
	var table strings.Builder
	table.WriteString("| metric | type | labels | what |\n|---|---|---|---|\n")
	for _, d := range m.List() {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, strings.Join(d.Labels, ", "), strings.TrimSuffix(d.Help, "."))
	}
	raw, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	printed := regexp.MustCompile(`(?m)^\| metric \|.*\n(?:\|.*\n)+`)
	require.Len(t, printed.FindAllString(string(raw), -1), 1)
	if *update {
		text := printed.ReplaceAllLiteralString(string(raw), table.String())
		require.NoError(t, os.WriteFile("../../README.md", []byte(text), 0o644))
		return
	}
	require.Equal(t, table.String(), printed.FindString(string(raw)))
}

// numbers are the metrics of a gate, by name and labels as they are printed.
func (g *gate) numbers(t *testing.T) map[string]float64 {
	t.Helper()
	resp, err := newApp(t).send(request{method: "GET", url: g.admin + "/metrics"})
	require.NoError(t, err)
	require.Equal(t, 200, resp.code, string(resp.body))
	found := map[string]float64{}
	for line := range strings.Lines(string(resp.body)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if n, err := strconv.ParseFloat(strings.Fields(value)[0], 64); err == nil {
			found[name] = n
		}
	}
	return found
}

func TestTwoGatesTellOneRoomAndEachItsOwnRequests(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1"), timeout: "2s"})
	one, two := f.gates[0], f.gates[1]
	holder := newApp(t)
	holder.enter(t, one)
	joined(t, one)
	joined(t, two)
	for _, g := range f.gates {
		eventually(t, "both gates tell the two who wait", func() bool { return g.numbers(t)[`queuegate_queue_waiting{room="checkout"}`] == 2 })
		got := g.numbers(t)
		for name, want := range map[string]float64{
			`queuegate_queue_active{room="checkout"}`:                                     1,
			`queuegate_queue_active_limit{room="checkout"}`:                               1,
			`queuegate_queue_joined_total{room="checkout"}`:                               3,
			`queuegate_queue_admitted_total{room="checkout"}`:                             1,
			`queuegate_queue_claimed_total{room="checkout"}`:                              1,
			`queuegate_queue_state{room="checkout",state="open"}`:                         1,
			`queuegate_gates{room="checkout"}`:                                            2,
			`queuegate_redis_up{room="checkout"}`:                                         1,
			`queuegate_build_info{go_version="` + runtime.Version() + `",version="test"}`: 1,
		} {
			require.Contains(t, got, name)
			require.InDelta(t, want, got[name], 0, name)
		}
	}
	claimed := `queuegate_requests_total{decision="proxied",reason="claimed",room="checkout"}`
	require.InDelta(t, 1, one.numbers(t)[claimed], 0)
	require.NotContains(t, two.numbers(t), claimed, "the request was the other gate's")
	require.InDelta(t, 1, one.numbers(t)[`queuegate_queue_wait_seconds_count{room="checkout"}`], 0)

	f.redis.Kill()
	eventually(t, "a gate says that Redis is away, and no old number", func() bool {
		got := one.numbers(t)
		_, old := got[`queuegate_queue_waiting{room="checkout"}`]
		return got[`queuegate_redis_up{room="checkout"}`] == 0 && !old && got[`queuegate_redis_errors_total{kind="refused",script="tally"}`] > 0
	})
}
