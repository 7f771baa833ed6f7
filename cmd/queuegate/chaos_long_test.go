//go:build chaos

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
)

// TestChaosAtLength is the long form: three gates, whose clocks are a minute ahead, a
// minute behind and right, all faults there are, and a crowd for as long as it lasts.
// QG_CHAOS_SEED, QG_CHAOS_FOR, QG_CHAOS_TOPOLOGY and QG_CHAOS_ONLY, which names faults
// divided by semicolons, say what is made.
func TestChaosAtLength(t *testing.T) {
	length := time.Minute
	if text := os.Getenv("QG_CHAOS_FOR"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		require.NoError(t, err, "QG_CHAOS_FOR is how long, such as 10m")
	}
	topologies := chaos.Topologies()
	if text := os.Getenv("QG_CHAOS_TOPOLOGY"); text != "" {
		require.Contains(t, topologies, chaos.Topology(text), "QG_CHAOS_TOPOLOGY")
		topologies = []chaos.Topology{chaos.Topology(text)}
	}
	var only []chaos.Kind
	for kind := range strings.SplitSeq(os.Getenv("QG_CHAOS_ONLY"), ";") {
		if kind != "" {
			require.Contains(t, chaos.Kinds(), chaos.Kind(kind), "QG_CHAOS_ONLY")
			only = append(only, chaos.Kind(kind))
		}
	}
	program := skewedBinary(t)
	for _, topology := range topologies {
		t.Run(string(topology), func(t *testing.T) {
			chaosRun{
				plan: chaos.Plan{
					Seed: setting(t, "QG_CHAOS_SEED", 1), Topology: topology, Length: length, Only: only,
				},
				gates: 3, crowd: max(12, int(length.Seconds()/2)), program: program, grows: true, recovery: 5 * time.Second,
				clocks: []time.Duration{time.Minute, -time.Minute, 0},
			}.start(t)
		})
	}
}

func TestReloadsAtLength(t *testing.T) { reloads{first: 100, then: 900}.leaveNothing(t) }

func TestRandomPathsAndHostsAtLength(t *testing.T) {
	nameless{first: 200_000, then: 800_000}.leaveNothing(t)
}

// skewedBinary builds the program so that its wall clock is off by as many seconds as
// GATE_CLOCK says. A library loaded before it would not do: Go asks the kernel itself.
func skewedBinary(t *testing.T) string {
	t.Helper()
	file := filepath.Join(runtime.GOROOT(), "src", "time", "time.go")
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	const begin = "\tsec, nsec, mono := runtimeNow()\n"
	require.Equal(t, 1, strings.Count(string(source), begin), "Go reads the clock in another way now")
	text := strings.Replace(string(source), begin, begin+"\tsec += skew()\n", 1) + `
var skew = sync.OnceValue(func() (n int64) {
	text, _ := syscall.Getenv("GATE_CLOCK")
	text, behind := trimSign(text)
	for _, digit := range text {
		n = 10*n + int64(digit-'0')
	}
	if behind {
		n = -n
	}
	return n
})

func trimSign(text string) (string, bool) {
	if text != "" && text[0] == '-' {
		return text[1:], true
	}
	return text, false
}
`
	text = strings.Replace(text, "import (\n", "import (\n\t\"sync\"\n\t\"syscall\"\n", 1)
	name := filepath.Join(t.TempDir(), "queuegate")
	list := overlayOf(t, map[string]string{file: text})
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-overlay", list, "-o", name, ".")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return name
}
