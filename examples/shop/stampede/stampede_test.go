package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// build builds a command of the module into dir.
func build(t *testing.T, dir, pkg string) string {
	t.Helper()
	binary := filepath.Join(dir, filepath.Base(pkg))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/queuegate/queuegate/"+pkg).CombinedOutput()
	require.NoError(t, err, string(out))
	return binary
}

// lines are the lines of a log, read in no way that the program has.
func lines(t *testing.T, name string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var all []map[string]any
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var line map[string]any
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, line)
	}
}

// mostAtOnce counts overlaps of the requests whose route is one of those named.
func mostAtOnce(t *testing.T, log []map[string]any, routes ...string) int {
	t.Helper()
	type edge struct {
		at   time.Time
		step int
	}
	var edges []edge
	for _, line := range log {
		if route, _ := line["route"].(string); line["msg"] == "request" && slices.Contains(routes, route) {
			began, err := time.Parse(time.RFC3339Nano, line["began"].(string))
			require.NoError(t, err)
			took := time.Duration(line["duration_s"].(float64) * float64(time.Second))
			edges = append(edges, edge{began, 1}, edge{began.Add(took), -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.step - b.step
	})
	now, most := 0, 0
	for _, e := range edges {
		now += e.step
		most = max(most, now)
	}
	return most
}

func TestAStampedeSellsExactlyTheStockOnlyWhereItIsAtomic(t *testing.T) {
	const visitors, stock = 200, 20
	dir := t.TempDir()
	o := options{
		visitors: visitors, stock: stock, out: filepath.Join(dir, "out"), payment: 50 * time.Millisecond,
		gate: build(t, dir, "cmd/queuegate"), shop: build(t, dir, "examples/shop"), conf: "../queuegate.yaml",
		redis: "redis-server",
	}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), o, &out))
	table := out.String()

	sold, people := map[string]int{}, map[string]map[string]int{}
	for _, way := range ways() {
		people[way] = map[string]int{}
		for _, line := range lines(t, filepath.Join(o.out, way+".shop.log")) {
			if line["msg"] == "order decided" && line["status"] == "confirmed" {
				sold[way]++
			}
		}
		for _, line := range lines(t, filepath.Join(o.out, way+".people.log")) {
			people[way][line["outcome"].(string)]++
		}
	}
	require.Greater(t, sold[wayNaive], stock, "the naive shop did not oversell")
	require.Equal(t, stock, sold[wayAtomic])
	require.Equal(t, stock, sold[wayGate])
	require.Contains(t, table, fmt.Sprintf("| orders sold | %d | %d | %d |\n", sold[wayNaive], stock, stock))
	for _, outcome := range []string{bought, soldOut, soldOutLine, gaveUp} {
		require.Contains(t, table, fmt.Sprintf("| people: %s | %d | %d | %d |\n", outcome,
			people[wayNaive][outcome], people[wayAtomic][outcome], people[wayGate][outcome]))
	}
	require.Positive(t, people[wayGate][soldOutLine], "nobody was told in line")
	protected := mostAtOnce(t, lines(t, filepath.Join(o.out, "gate.shop.log")), "GET /checkout", "POST /orders")
	require.LessOrEqual(t, protected, 30, "more at the shop than max_in_flight")
}

// writeLogs writes the logs of a way whose figures can be told without counting.
func writeLogs(t *testing.T, dir, way string) {
	t.Helper()
	shop := `{"time":"2026-01-01T10:00:00.1Z","msg":"write"}
{"time":"2026-01-01T10:00:00.9Z","msg":"write"}
{"time":"2026-01-01T10:00:01.1Z","msg":"write"}
{"time":"2026-01-01T10:00:01Z","msg":"request","route":"GET /checkout","status":200,"duration_s":0.010,"at_once":1}
{"time":"2026-01-01T10:00:01Z","msg":"request","route":"POST /orders","status":503,"duration_s":0.250,"at_once":7}
{"time":"2026-01-01T10:00:01Z","msg":"request","route":"GET /healthz","status":204,"duration_s":9,"at_once":99}
{"time":"2026-01-01T10:00:02Z","msg":"order decided","visitor":"ann","status":"confirmed"}
{"time":"2026-01-01T10:00:02Z","msg":"order decided","visitor":"ann","status":"confirmed"}
{"time":"2026-01-01T10:00:02Z","msg":"order decided","visitor":"ben","status":"failed"}
`
	people := `{"visitor":"ann","outcome":"bought","seconds":3,"errors":1}
{"visitor":"ben","outcome":"gave up after errors","seconds":5,"errors":2}
{"visitor":"cleo","outcome":"bought","seconds":1,"errors":0}
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, way+".shop.log"), []byte(shop), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, way+".people.log"), []byte(people), 0o600))
}

func TestFiguresAreThoseOfTheLogs(t *testing.T) {
	dir := t.TempDir()
	writeLogs(t, dir, wayGate)
	got, err := readFigures(dir, wayGate)
	require.NoError(t, err)
	require.Equal(t, figures{
		Sold: 2, Twice: 1, Requests: 2, Peak: 7, Errors: 1, P99: 250 * time.Millisecond, Writes: 2,
		People: map[string]int{bought: 2, gaveUp: 1}, Failed: 3, Median: 3 * time.Second,
	}, got)
}

func TestALogThatCannotBeReadIsNamedWithItsLine(t *testing.T) {
	dir := t.TempDir()
	writeLogs(t, dir, wayGate)
	require.NoError(t, os.WriteFile(filepath.Join(dir, wayGate+".shop.log"), []byte("{}\nno JSON\n"), 0o600))
	_, err := readFigures(dir, wayGate)
	require.ErrorContains(t, err, "gate.shop.log:2:")
}

func TestTheChartIsWellFormedAndShowsEachWayInEachPanel(t *testing.T) {
	var b bytes.Buffer
	all := map[string]figures{wayNaive: {Sold: 250}, wayAtomic: {Sold: 100}, wayGate: {Sold: 100}}
	require.NoError(t, writeChart(&b, 2000, 100, all))
	decoder := xml.NewDecoder(strings.NewReader(b.String()))
	bars := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "rect" {
			bars++
		}
	}
	require.Equal(t, 1+3*4, bars, "the ground and three bars in each of four panels")
	require.Contains(t, b.String(), ">250<")
	require.Contains(t, b.String(), "there were 100")
}
