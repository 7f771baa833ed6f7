//go:build chaos

package main_test

import (
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

// TestAuditSeesFaults runs the audit against gates that are broken on purpose,
// one way at a time. It takes the better part of a minute for each.
func TestAuditSeesFaults(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			list := overlayOf(t, breakFiles(t, root, f.patch))
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
