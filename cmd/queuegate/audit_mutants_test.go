//go:build chaos

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fault is a way to break the product of which the audit must find the promise
// that it breaks.
type fault struct {
	patch   string // a file of queue/testdata/mutants, or the text of one with names below the module's root
	promise string
}

var faults = map[string]fault{
	"nobody looks for a free slot":           {"slots_ignored.txt", "capacity: broken"},
	"the front of the line is taken by name": {"order_by_member.txt", "order: broken"},
	"each gate has a bucket of its own":      {"local_rate.txt", "rate: broken"},
	"the refill ignores the burst":           {"refill_ignores_burst.txt", "rate: broken"},
	"who comes back stands at the end":       {"new_place_on_return.txt", "one place: broken"},
	"the number goes up and down":            {"number_grows.txt", "ahead never grows: broken"},
	"slots are given on two seconds early": {
		`queue/lua/slots.lua
<<<<<<<
  return not healing() and over + n <= redis.call('ZCOUNT', SLOTS, '-inf', int(now)), over
=======
  return not healing() and over + n <= redis.call('ZCOUNT', SLOTS, '-inf', int(now + 2000)), over
>>>>>>>
queue/lua/slots.lua
<<<<<<<
  local expired = redis.call('ZRANGEBYSCORE', SLOTS, '-inf', int(now), 'LIMIT', 0, math.min(over + 1, PAGE))
=======
  local expired = redis.call('ZRANGEBYSCORE', SLOTS, '-inf', int(now + 2000), 'LIMIT', 0, math.min(over + 1, PAGE))
>>>>>>>
`, "capacity: broken",
	},
	"a pass is good past its end": {
		`proxy/pass.go
<<<<<<<
		over = p.End <= now
=======
		over = p.End <= now-60_000
>>>>>>>
`, "the gate: broken",
	},
	"gates do not hear of ends": {
		`proxy/pass.go
<<<<<<<
	if _, ended := rm.Line.Ended(p.Visitor, p.Place); ended {
=======
	if _, ended := rm.Line.Ended(p.Visitor, p.Place); ended && p.Place == 0 {
>>>>>>>
`, "refuses the pass",
	},
}

// breakFiles applies a patch: for each change a file's name, <<<<<<<, the old
// text, =======, the new text, >>>>>>>. It returns the changed files by path.
func breakFiles(t *testing.T, dir, patch string) map[string]string {
	t.Helper()
	changed := map[string]string{}
	for _, part := range strings.Split(patch, ">>>>>>>\n") {
		head, body, found := strings.Cut(part, "\n<<<<<<<\n")
		if !found {
			continue
		}
		lines := strings.Split(strings.TrimSpace(head), "\n")
		name := filepath.Join(dir, lines[len(lines)-1])
		before, after, found := strings.Cut(body, "=======\n")
		require.True(t, found, "no ======= in the change of %s", name)
		if _, known := changed[name]; !known {
			source, err := os.ReadFile(name)
			require.NoError(t, err)
			changed[name] = string(source)
		}
		require.Equal(t, 1, strings.Count(changed[name], before), "the fault does not fit %s any more: %s", name, before)
		changed[name] = strings.Replace(changed[name], before, after, 1)
	}
	require.NotEmpty(t, changed, "the fault changes nothing")
	return changed
}

// overlayOf writes the file for the -overlay flag.
func overlayOf(t *testing.T, changed map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range changed {
		twin := filepath.Join(dir, filepath.Base(name))
		require.NoError(t, os.WriteFile(twin, []byte(text), 0o600))
		replace[name] = twin
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, raw, 0o600))
	return list
}

// TestAuditSeesFaults runs the audit against gates that are broken on purpose,
// one way at a time. It takes the better part of a minute for each.
func TestAuditSeesFaults(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			dir, patch := root, f.patch
			if strings.HasSuffix(patch, ".txt") {
				dir = filepath.Join(root, "queue")
				text, err := os.ReadFile(filepath.Join(dir, "testdata", "mutants", patch))
				require.NoError(t, err)
				patch = string(text)
			}
			list := overlayOf(t, breakFiles(t, dir, patch))
			// The flag in the environment also reaches the build of the gates.
			cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-run", "^TestAuditOfFourGates$", ".")
			cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+list, "QG_AUDIT_SECONDS=10")
			raw, err := cmd.CombinedOutput()
			output := string(raw)
			for line := range strings.Lines(output) {
				if strings.Contains(line, "broken ") && strings.Contains(line, "audit") {
					t.Log(strings.TrimSpace(line))
				}
			}
			require.Error(t, err, "the fault was not seen")
			require.Contains(t, output, f.promise)
		})
	}
}
