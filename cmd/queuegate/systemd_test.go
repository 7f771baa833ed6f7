package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exposure is the most that the unit may be exposed, in tenths of a point of ten:
// systemd 252 finds 14.
const exposure = "15"

// analyze runs systemd-analyze on the unit, changed from old to new, with the program
// where the test has it.
func analyze(t *testing.T, old, now string, args ...string) error {
	t.Helper()
	text, err := os.ReadFile("../../examples/systemd/queuegate.service")
	require.NoError(t, err)
	require.Contains(t, string(text), old)
	if old != "" {
		text = []byte(strings.Replace(string(text), old, now, 1))
	}
	unit := strings.NewReplacer("/usr/local/bin/queuegate", binary(t)).Replace(string(text))
	file := filepath.Join(t.TempDir(), "queuegate.service")
	require.NoError(t, os.WriteFile(file, []byte(unit), 0o600))
	out, err := exec.Command("systemd-analyze", append(args, file)...).CombinedOutput()
	if err != nil {
		t.Logf("%s", out)
	}
	return err
}

func TestTheUnitIsRightAndLocksTheGateUp(t *testing.T) {
	t.Parallel()
	verify := []string{"verify", "--man=no"}
	security := []string{"security", "--offline=true", "--no-pager", "--threshold=" + exposure}
	require.NoError(t, analyze(t, "", "", verify...))
	require.NoError(t, analyze(t, "", "", security...))
	// Both see what is wrong.
	require.Error(t, analyze(t, "ExecStart=/usr/local/bin/queuegate", "ExecStart=/usr/local/bin/nobody", verify...))
	require.Error(t, analyze(t, "CapabilityBoundingSet=\n", "", security...))
}
