//go:build chaos

package main_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The runs that show the faults of the line, each of its own kind.
func slotsRun() loadRun {
	return loadRun{
		room: "total_active_users: 6, claim_window: 5s, presence_window: 1s",
		args: []string{"--visitors", "60", "--duration", "22s", "--arrive", "6s", "--session", "2s"},
	}
}

func rateRun() loadRun {
	return loadRun{
		room: "total_active_users: 0, new_users_per_minute: 150, burst: 20, presence_window: 1s",
		args: []string{"--visitors", "120", "--duration", "22s", "--arrive", "8s", "--session", "2s"},
	}
}

func returnsRun() loadRun {
	l := rateRun()
	l.room = "total_active_users: 0, new_users_per_minute: 150, burst: 4, presence_window: 500ms"
	l.args = append(l.args, "--people", "return=50,reload=10")
	return l
}

// TestLoadSeesTheFaultsThatShowOutside builds the gates with one fault of the line at a
// time: these eight of the thirty show to people who only visit. The others need an
// outage, a reset, an operator or two orders of one pass at once, or cost no more than a
// slot given on late or one newcomer before another who is not heard from yet, which
// nobody outside can tell from what is allowed.
func TestLoadSeesTheFaultsThatShowOutside(t *testing.T) {
	for fault, c := range map[string]struct {
		run  func() loadRun
		want string
	}{
		"slots_ignored.txt":                  {slotsRun, "over capacity"},
		"local_rate.txt":                     {rateRun, "over rate"},
		"refill_ignores_burst.txt":           {rateRun, "over rate"},
		"order_by_member.txt":                {rateRun, "order inversions"},
		"popped_and_not_granted.txt":         {rateRun, "order inversions"},
		"stepping_aside_loses_the_place.txt": {returnsRun, "place grew"},
		"new_place_on_return.txt":            {returnsRun, "order inversions"},
		"number_grows.txt":                   {returnsRun, "place grew"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			l := c.run()
			l.program = brokenBinary(t, fault)
			report, code := l.load(t, l.start(t))
			require.True(t, slices.Contains(report.broken(), c.want), "%s was not seen, but %v\n%s", c.want, report.broken(), report.stories())
			require.Equal(t, 1, code)
		})
	}
}
