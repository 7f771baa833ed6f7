package crowd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lapsed is somebody who took the place 100 at 3 s, was told of a pass at 5 s, took it
// up too late and was in line again, and was told of another one at 15 s.
func lapsed() *History {
	h := &History{Person: 1, Manner: string(Slow), Faithful: true, Outcome: "looked around"}
	waits := func(s float64) {
		h.Heard = append(h.Heard, Heard{Kind: Poll, Sent: sec(s), Got: sec(s + 0.01), Code: 200, Status: "waiting", Next: time.Second})
	}
	ready := func(s float64, granted int64, name string) {
		h.Heard = append(h.Heard, Heard{
			Kind: Poll, Sent: sec(s), Got: sec(s + 0.01), Code: 200, Status: "ready", Ahead: -1,
			Passes: []Pass{{Visitor: "v1", Admission: name, Place: 100, End: granted + 5000, Stage: "ready"}},
		})
	}
	waits(3)
	waits(4)
	ready(5, 4_900, "100.4900")
	waits(13)
	waits(14)
	ready(15, 14_900, "100.14900")
	return h
}

// TestWhoIsLetInASecondTimeOvertakesNobodyWhoCameLater: the pass of the first place
// lapsed, and its turn came again, before somebody who had asked for a place long after
// and was told no number of it.
func TestWhoIsLetInASecondTimeOvertakesNobodyWhoCameLater(t *testing.T) {
	t.Parallel()
	later := shopper{n: 2, asked: 7, until: 20, firstAhead: 1}.history()
	e := &Evidence{People: []*History{lapsed(), later}}
	found, _, _ := e.checkOrder(e.admissions())
	require.Empty(t, found)
}

// TestWhoIsLetInASecondTimeOvertakesWhoCameBefore: the same, with somebody who had a
// place before the other one asked.
func TestWhoIsLetInASecondTimeOvertakesWhoCameBefore(t *testing.T) {
	t.Parallel()
	earlier := shopper{n: 2, asked: 1, until: 20, firstAhead: 1}.history()
	e := &Evidence{People: []*History{lapsed(), earlier}}
	found, _, _ := e.checkOrder(e.admissions())
	require.Len(t, found, 2)
	require.Contains(t, found[1].Story, "admission 100.14900")
}

// TestATurnThatWasLostBeforeItWasToldOvertakesNobody: between two polls of the earlier one
// the history was lost, and with it, it may be, the pass that they had been given as well.
// A loss at any other time is no excuse.
func TestATurnThatWasLostBeforeItWasToldOvertakesNobody(t *testing.T) {
	t.Parallel()
	for at, broken := range map[float64]int{0: 2, 9: 2, 14.5: 1, 18: 2} {
		earlier := &History{Person: 2, Manner: string(Patient)}
		for s := 1.1; s < 20; s++ {
			earlier.Heard = append(earlier.Heard, Heard{Kind: Poll, Sent: sec(s), Got: sec(s + 0.01), Code: 200, Status: "waiting", Next: time.Second})
		}
		e := &Evidence{People: []*History{lapsed(), earlier}, Forgot: func(from, to At) bool { return from <= sec(at) && sec(at) <= to }}
		found, _, _ := e.checkOrder(e.admissions())
		require.Len(t, found, broken, "a loss at %.1f s", at)
	}
}
