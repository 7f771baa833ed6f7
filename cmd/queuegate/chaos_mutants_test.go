//go:build chaos

package main_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
)

// TestChaosSeesFaults makes the short form with gates that are broken on purpose, one
// way at a time: the checker must say which promise that breaks.
func TestChaosSeesFaults(t *testing.T) {
	for patch, promise := range map[string]string{
		"slots_ignored.txt":       "capacity:",
		"new_place_on_return.txt": "one place:",
	} {
		t.Run(patch, func(t *testing.T) {
			_, stories := chaosRun{
				plan:  chaos.Plan{Seed: 4, Topology: chaos.Alone, Length: 7 * time.Second},
				gates: 2, crowd: 40, recovery: patience, program: brokenBinary(t, patch),
			}.stories(t)
			for _, story := range stories {
				t.Log(story)
			}
			require.Contains(t, strings.Join(stories, "\n"), promise, "the fault was not seen")
		})
	}
}
