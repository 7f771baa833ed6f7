package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// loadRun is one run of `queuegate load` against two gates.
type loadRun struct {
	program string   // the build of the gates, "" for the usual
	room    string   // its limits
	args    []string // of the command, beside the addresses
}

// loadReport is what the tests look at of a report.
type loadReport struct {
	Interrupted bool
	Verdicts    []struct{ Name, Judgement, Seen, Story string }
	People      struct {
		Came    int
		LetIn   int `json:"let_in"`
		Ordered int
	}
	Requests struct{ All, Failed int }
	Tool     struct {
		LateP99 float64 `json:"late_p99_ms"`
	}
}

// of is the judgement of one promise.
func (r loadReport) of(name string) string {
	for _, v := range r.Verdicts {
		if v.Name == name {
			return v.Judgement
		}
	}
	return ""
}

// broken lists the promises that were.
func (r loadReport) broken() (names []string) {
	for _, v := range r.Verdicts {
		if v.Judgement == "FAILED" {
			names = append(names, v.Name)
		}
	}
	return names
}

// stories are for the log of a test.
func (r loadReport) stories() string {
	var text strings.Builder
	for _, v := range r.Verdicts {
		fmt.Fprintf(&text, "%s: %s: %s\n%s\n", v.Name, v.Judgement, v.Seen, v.Story)
	}
	return text.String()
}

// load runs the command to its end.
func (l loadRun) load(t testing.TB, f *fleet) (report loadReport, code int) {
	t.Helper()
	args := []string{"load"}
	for _, g := range f.gates {
		args = append(args, g.url, "--admin", g.admin)
	}
	p := run(t, nil, append(append(args, "-o", "json", "--path", "/sale", "--order", "/orders"), l.args...)...)
	code = p.exit(t)
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &report), "%s%s", p.stdout, p.stderr)
	return report, code
}

// start starts two gates in front of a shop.
func (l loadRun) start(t testing.TB) *fleet {
	t.Helper()
	return startFleet(t, plan{gates: 2, program: l.program, rooms: "  - {name: sale, protect: [{paths: [/sale, /orders]}], " + l.room + "}\n"})
}

// saleRun is a run that shows whether limits and order hold: more people than slots, and
// stays so short that the rate is what holds them back.
func saleRun(length string) loadRun {
	return loadRun{
		room: "total_active_users: 6, new_users_per_minute: 300, burst: 10, claim_window: 5s",
		args: []string{"--visitors", "90", "--duration", length, "--arrive", "8s", "--session", "2s", "--curve", "steady"},
	}
}

// TestLoadSaysYesToGatesThatKeepTheirPromises runs people against two honest gates.
func TestLoadSaysYesToGatesThatKeepTheirPromises(t *testing.T) {
	t.Parallel()
	l := saleRun("20s")
	report, code := l.load(t, l.start(t))
	require.Empty(t, report.broken(), report.stories())
	require.Zero(t, code)
	require.NotZero(t, report.People.LetIn)
	for _, name := range []string{"over capacity", "over rate", "order inversions", "one place each", "lost visitors", "place grew"} {
		require.Equal(t, "ok", report.of(name), report.stories())
	}
}

// TestLoadSaysNoToGatesThatBreakThem runs them against gates that look for no slot,
// have a bucket each, and take the front of the line by name, all at once.
func TestLoadSaysNoToGatesThatBreakThem(t *testing.T) {
	t.Parallel()
	l := saleRun("20s")
	l.room = "total_active_users: 6, new_users_per_minute: 150, burst: 8, claim_window: 5s, presence_window: 1s"
	l.args = append(l.args, "--arrive", "4s")
	l.program = brokenBinary(t, "slots_ignored.txt", "order_by_member.txt", "local_rate.txt")
	report, code := l.load(t, l.start(t))
	require.Equal(t, 1, code)
	for _, name := range []string{"over capacity", "over rate", "order inversions"} {
		require.True(t, slices.Contains(report.broken(), name), "%s was not seen\n%s", name, report.stories())
	}
}

// TestLoadJudgesTheDemoAndEndsCleanlyWhenInterrupted sends people to a running
// `queuegate demo` and interrupts the run when some have been let in.
func TestLoadJudgesTheDemoAndEndsCleanlyWhenInterrupted(t *testing.T) {
	t.Parallel()
	demo := run(t, nil, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--slots", "5", "--rate", "600")
	address := regexp.MustCompile(`(?m)^  (?:open|admin) +(http://[^/]+)/`)
	var found [][]string
	eventually(t, "the demo says what to open", func() bool {
		found = address.FindAllStringSubmatch(demo.stdout.String(), -1)
		return len(found) == 2
	})
	load := run(t, nil, "load", found[0][1], "--admin", found[1][1], "-o", "json", "--order", "/orders",
		"--visitors", "40", "--duration", "5m", "--arrive", "2s", "--session", "2s", "--people", "bot=5,tabs=20,slow=10")
	client := newClient(t)
	claimed := regexp.MustCompile(`(?m)^queuegate_queue_claimed_total\{[^}]*\} ([0-9]+)`)
	eventually(t, "ten have taken their pass up", func() bool {
		got, err := send(client, request{method: "GET", url: found[1][1] + "/metrics"})
		if err != nil {
			return false
		}
		n := 0
		if m := claimed.FindSubmatch(got.body); m != nil {
			n, _ = strconv.Atoi(string(m[1]))
		}
		return n >= 10
	})
	require.NoError(t, load.cmd.Process.Signal(os.Interrupt))
	require.Zero(t, load.exit(t), "%s", load.stderr)
	var report loadReport
	require.NoError(t, json.Unmarshal([]byte(load.stdout.String()), &report), "%s", load.stdout)
	require.True(t, report.Interrupted)
	require.Empty(t, report.broken(), report.stories())
	require.Equal(t, "ok", report.of("over capacity"), report.stories())
	require.GreaterOrEqual(t, report.People.LetIn, 5)
}

// TestLoadAsksNobodyElse: a shop behind no gate, and one that sends people elsewhere,
// are not asked a second time, and what it redirects to is not asked at all.
func TestLoadAsksNobodyElse(t *testing.T) {
	t.Parallel()
	elsewhere, there := 0, httptest.NewServer(nil)
	t.Cleanup(there.Close)
	there.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ })
	here := httptest.NewServer(http.RedirectHandler(there.URL, http.StatusFound))
	t.Cleanup(here.Close)
	p := run(t, nil, "load", here.URL)
	require.Equal(t, 1, p.exit(t))
	require.Contains(t, p.stderr.String(), "not as a gate whose room protects it")

	named := run(t, nil, "load", here.URL, "--room", "checkout", "--visitors", "3", "--arrive", "0s", "--duration", "2s", "--session", "0s")
	require.Equal(t, 1, named.exit(t), "nothing could be judged")
	require.Contains(t, named.stderr.String(), "nothing could be judged")
	require.Contains(t, named.stdout.String(), "not judged")
	require.Zero(t, elsewhere)
}
