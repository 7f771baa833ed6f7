package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the program of the tests be the peers as well, which the harness
// starts from its own program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "peer" {
		main()
		return
	}
	code := m.Run()
	if dir, err := programs(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// programs builds what the harness needs of this repository, once, and returns the
// folder.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "queuegate-bench-bin-")
	if err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"build", "-C", "../queuegate", "-buildvcs=false", "-o", filepath.Join(dir, "queuegate")},
		{"test", "-C", "../../queue", "-c", "-o", filepath.Join(dir, "line.test")},
	} {
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return dir, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return dir, nil
})

func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := programs()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}

// TestEverythingIsMeasured runs all of it in its smallest form, but for Caddy, which
// takes minutes to build. No figure decides anything here.
func TestEverythingIsMeasured(t *testing.T) {
	dir := t.TempDir()
	readme := filepath.Join(dir, "README.md")
	require.NoError(t, os.WriteFile(readme, []byte("before\n"+markBegin+"old"+markEnd+"\nafter\n"), 0o600))
	here, err := os.Getwd()
	require.NoError(t, err)
	line, err := filepath.Rel(here, program(t, "line.test")) // as make names it
	require.NoError(t, err)
	gate := program(t, "queuegate")
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"-tiny", "-gate", gate, "-line", line, "-out", dir, "-readme", readme}, &out, &log)
	require.Zero(t, code, "%s", log.String())

	table, err := os.ReadFile(filepath.Join(dir, "table.md"))
	require.NoError(t, err)
	require.Equal(t, string(table), out.String())
	for _, r := range rows() {
		cells := cellsOf(string(table), r.what)
		require.Len(t, cells, 6, r.what)
		require.Equal(t, r.id == passCaddy, cells[4] == "not measured", "%s: %s", r.what, log.String())
	}
	chart, err := os.ReadFile(filepath.Join(dir, "chart.svg"))
	require.NoError(t, err)
	for decoder := xml.NewDecoder(bytes.NewReader(chart)); !errors.Is(err, io.EOF); _, err = decoder.Token() {
		require.NoError(t, err)
	}
	require.Contains(t, string(chart), "<rect")
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	require.Equal(t, "before\n"+markBegin+"\n"+string(table)+markEnd+"\nafter\n", string(text))
}

// cellsOf are the cells of a row of a Markdown table, nil without that row.
func cellsOf(table, what string) []string {
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == what {
			return cells
		}
	}
	return nil
}

// The README's table is this program's, row by row and bar by bar. Its figures are
// those of some run.
func TestTheTableOfTheReadmeHasTheRowsAndBarsOfTheHarness(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), markBegin)
	require.True(t, found)
	text, _, found := strings.Cut(rest, markEnd)
	require.True(t, found)
	var shown, wanted []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*) \| [^|]* \| [^|]* \| ([^|]*) \|`).FindAllStringSubmatch(text, -1)[1:] {
		shown = append(shown, row[1]+" "+row[2])
	}
	for _, r := range rows() {
		wanted = append(wanted, r.what+" "+r.bar.String())
	}
	require.Equal(t, wanted, shown, "make bench ARGS='-readme README.md' writes the table")
	require.NotContains(t, text, "not measured")
	require.Contains(t, text, "\n"+fullSize().name+": ")
}

func TestAProgramThatIsMissingIsNamed(t *testing.T) {
	var out, log bytes.Buffer
	require.Equal(t, exitRuntime, run(t.Context(), []string{"-gate", "no/such/gate"}, &out, &log))
	require.Contains(t, log.String(), "no/such/gate")
	require.Contains(t, log.String(), "make bench")
}

func TestAWordThatIsNoFamilyIsRefused(t *testing.T) {
	var out, log bytes.Buffer
	require.Equal(t, exitUsage, run(t.Context(), []string{"-only", "pass,speed"}, &out, &log))
	require.Contains(t, log.String(), `no "speed"`)
}

// A measurement that did not come about leaves its row empty and makes the run fail;
// one that misses its bar does not.
func TestWhatCannotBeMeasuredFailsTheRun(t *testing.T) {
	var out, log bytes.Buffer
	dir := t.TempDir()
	truth, err := exec.LookPath("true")
	require.NoError(t, err)
	require.Equal(t, exitRuntime, run(t.Context(), []string{"-tiny", "-only", "delay", "-gate", truth, "-out", dir}, &out, &log))
	require.Contains(t, out.String(), "not measured")
	require.Contains(t, log.String(), "gate has ended")
}

func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		bar   bar
		value float64
		met   bool
		text  string
	}{
		{least(0.95), 0.95, true, "≥ 0.95"},
		{least(0.95), 0.94, false, "≥ 0.95"},
		{most(230, "bytes"), 230, true, "≤ 230 bytes"},
		{most(230, "bytes"), 231, false, "≤ 230 bytes"},
		{most(0, ""), 0, true, "≤ 0.00"},
		{most(0, ""), 0.01, false, "≤ 0.00"},
		{bar{}, 17, true, "–"},
	} {
		require.Equal(t, tc.met, tc.bar.met(exactly(tc.value)), "%s: %g", tc.text, tc.value)
		require.Equal(t, tc.text, tc.bar.String())
	}
}

// Each round is compared with itself: what slows the machine down for both sides
// says nothing.
func TestRatiosAreOfNeighbours(t *testing.T) {
	a := []shot{{rate: 90}, {rate: 45}, {rate: 9}, {rate: 27}}
	b := []shot{{rate: 100}, {rate: 50}, {rate: 10}, {rate: 27}}
	f := ratio(a, b, rate)
	require.InDelta(t, 0.9, f.median, 1e-9)
	require.InDelta(t, 0.9, f.least, 1e-9)
	require.InDelta(t, 1.0, f.most, 1e-9)
}

func TestARefusalIsNoAnswer(t *testing.T) {
	for said, want := range map[string]string{
		"noise\nwrk 1000 500000 2000 0 0 300000\n": "",
		"wrk 1000 500000 2000 3 0 300000\n":        "3 answers of 1000 are refusals",
		"wrk 1000 500000 2000 0 2 300000\n":        "2 requests of 1000 failed",
		"wrk 0 500000 0 0 0 0\n":                   "no answer",
		"unable to connect":                        "nothing of its requests",
	} {
		s, err := readShot(said, load{})
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, shot{requests: 1000, rate: 2000, p99: 0.002, bytes: 300}, s)
	}
	_, err := readShot("wrk 10 500000 2000 9 0 300000\n", load{refusals: true})
	require.ErrorContains(t, err, "9 answers of 10")
}
