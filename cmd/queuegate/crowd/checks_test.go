package crowd

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sec is a moment of a made-up run.
func sec(s float64) At { return At(s * float64(time.Second)) }

// honestRun is a room with one slot and two people in line: the first has the
// slot for room time 2000 to 8000, the second from 8000 on.
func honestRun() *Evidence {
	first, second := &History{Person: 1, Faithful: true, Outcome: "served"}, &History{Person: 2, Faithful: true, Outcome: "served"}
	waits := func(p *History, kind Kind, s float64, visitor string, place, ahead int64) {
		p.Heard = append(p.Heard, Heard{
			Kind: kind, Sent: sec(s), Got: sec(s + 0.01), Code: 200, Status: "waiting", Visitor: visitor, Place: place, Ahead: ahead,
		})
	}
	goesIn := func(p *History, s float64, visitor string, place, granted int64) {
		ready := Pass{Visitor: visitor, Admission: visitor + ".0", Place: place, End: granted + 5000, Stage: "ready"}
		active := ready
		active.End, active.Stage = granted+6000, "active"
		p.Heard = append(
			p.Heard,
			Heard{Kind: Poll, Sent: sec(s), Got: sec(s + 0.01), Code: 200, Status: "ready", Ahead: -1, Passes: []Pass{ready}},
			Heard{Kind: Use, Sent: sec(s + 1), Got: sec(s + 1.1), Code: 200, Ahead: -1, Inside: true, With: ready, Passes: []Pass{active}},
		)
	}
	waits(first, Join, 0, "A", 100, 0)
	waits(first, Poll, 1, "A", 100, 0)
	goesIn(first, 2, "A", 100, 2000)
	waits(second, Join, 0.1, "B", 200, 1)
	for s := 0.5; s < 8; s++ {
		waits(second, Poll, s, "B", 200, max(0, 1-int64(s/2)))
	}
	goesIn(second, 8.1, "B", 200, 8000)
	return &Evidence{
		Slots: 1, PerMinute: 60, Burst: 1, ClaimWindow: 5 * time.Second, Presence: 5 * time.Second,
		People: []*History{first, second},
		Log: []Visit{
			{Sent: sec(3), Begin: sec(3.01), End: sec(3.1), Method: "GET", Path: "/r/step", Person: 1, Visitor: "A", Admission: "A.0"},
			{Sent: sec(9.1), Begin: sec(9.11), End: sec(9.2), Method: "GET", Path: "/r/step", Person: 2, Visitor: "B", Admission: "B.0"},
		},
	}
}

// turn returns the answer that brought a person the turn.
func turn(p *History) *Heard {
	for i := range p.Heard {
		if p.Heard[i].Status == "ready" {
			return &p.Heard[i]
		}
	}
	return nil
}

// regrant moves the moment of a person's admission.
func regrant(p *History, to int64) {
	by := turn(p).Passes[0].End - 5000 - to
	for _, h := range p.Heard {
		for i := range h.Passes {
			h.Passes[i].End -= by
		}
	}
}

func TestAuditorFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	require.Empty(t, honestRun().Audit(), "an honest run has nothing to find")
	for name, tc := range map[string]struct {
		spoil   func(e *Evidence)
		promise string
	}{
		"a slot is given to the second before the first one's token has ended": {
			func(e *Evidence) { regrant(e.People[1], 7900) }, "capacity",
		},
		"the shop sees the first after the second": {
			func(e *Evidence) {
				late := e.Log[0]
				late.Sent, late.Begin = sec(9), sec(9.01)
				e.Log = append(e.Log, late)
			}, "capacity",
		},
		"two admissions come closer than the rate allows": {
			func(e *Evidence) { e.Slots = 0; regrant(e.People[1], 2900) }, "rate",
		},
		"two admissions come in one millisecond where one may": {
			func(e *Evidence) { e.Slots = 0; regrant(e.People[1], 2000) }, "rate",
		},
		"the second is admitted while the first polls and waits": {
			func(e *Evidence) {
				e.People[0].Heard[0].Place, e.People[0].Heard[1].Place = 300, 300
				turnPlace(e.People[0], 300)
			}, "order",
		},
		"the second is admitted while the first waits to the end": {
			func(e *Evidence) {
				p := e.People[1]
				p.Heard = p.Heard[:len(p.Heard)-2]
				e.Log = e.Log[:1]
				for i := range p.Heard {
					p.Heard[i].Place = 50
				}
			}, "order",
		},
		"a place changes without an end": {
			func(e *Evidence) { e.People[1].Heard[2].Place = 201 }, "one place",
		},
		"a person becomes somebody else": {
			func(e *Evidence) { e.People[1].Heard[2].Visitor = "C" }, "one visitor",
		},
		"two people are one visitor": {
			func(e *Evidence) { e.People[1].Heard[0].Visitor = "A" }, "one visitor",
		},
		"one admission has two holders": {
			func(e *Evidence) { e.Log[1].Visitor = "A" }, "one holder",
		},
		"one visitor holds two slots": {
			func(e *Evidence) {
				again := turn(e.People[0]).Passes[0]
				again.Admission, again.Place = "A.1", 400
				h := &e.People[0].Heard[len(e.People[0].Heard)-1]
				h.Passes = append(h.Passes, again)
			}, "one slot",
		},
		"the number ahead grows": {
			func(e *Evidence) { e.People[1].Heard[5].Ahead = 1 }, "ahead never grows",
		},
		"a request reaches the shop without an admission": {
			func(e *Evidence) { e.Log = append(e.Log, Visit{Sent: sec(5), Begin: sec(5), Person: 9}) }, "the gate",
		},
		"a pass is accepted past its end": {
			func(e *Evidence) {
				p := e.People[0]
				regrant(e.People[1], 8020)
				p.Heard = append(p.Heard, Heard{
					Kind: Use, Sent: sec(8.5), Got: sec(8.6), Code: 200, Ahead: -1, Inside: true, With: p.Heard[len(p.Heard)-1].Passes[0],
				})
			}, "the gate",
		},
		"a pass is accepted past the end that others' tickets tell": {
			func(e *Evidence) {
				p := e.People[0]
				e.People[1].Heard[7].RoomTime = 8020 // at 6.51 s
				p.Heard = append(p.Heard, Heard{
					Kind: Asset, Sent: sec(6.6), Got: sec(6.7), Code: 200, Ahead: -1, Inside: true, With: p.Heard[len(p.Heard)-1].Passes[0],
				})
			}, "the gate",
		},
		"somebody polls for ever": {
			func(e *Evidence) { e.People[1].Outcome = "" }, "nobody lost",
		},
		"somebody is told nonsense": {
			func(e *Evidence) { e.People[0].LostPlace = "answered 500" }, "nobody lost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := honestRun()
			tc.spoil(e)
			var broken []string
			for _, f := range e.Audit() {
				broken = append(broken, f.Promise)
				require.NotEmpty(t, f.Story)
			}
			require.Contains(t, broken, tc.promise)
		})
	}
}

// Who was given a pass that an older copy of Redis does not know stands in line there, and
// is given another one. Without such a loss between the two, one visitor has one slot.
func TestASlotThatACopyForgotIsNotASecondOne(t *testing.T) {
	t.Parallel()
	for after, broken := range map[float64]bool{-1.5: true, 0.5: false, 98: true} {
		e := honestRun()
		h := turn(e.People[0])
		again := h.Passes[0]
		again.Admission = "A.1"
		later := *h
		later.Sent, later.Got, later.Passes = h.Sent+sec(1), h.Got+sec(1), []Pass{again}
		e.People[0].Heard = slices.Insert(e.People[0].Heard, slices.IndexFunc(e.People[0].Heard, func(x Heard) bool { return x.Got == h.Got })+1, later)
		lost := h.Got + sec(after)
		e.Forgot = func(from, to At) bool { return from <= lost && lost <= to }
		require.Equal(t, broken, slices.ContainsFunc(e.checkIdentity(e.admissions()), func(f Finding) bool { return f.Promise == OneSlot }), "a loss %.1f s after the first", after)
	}
}

func TestAGateThatIsAstrayIsForgivenThatMuch(t *testing.T) {
	t.Parallel()
	for astray, broken := range map[time.Duration]bool{0: true, 20 * time.Millisecond: true, time.Minute: false} {
		e := honestRun()
		p := e.People[0]
		e.People[1].Heard[7].RoomTime = 8120 // at 6.51 s
		p.Heard = append(p.Heard, Heard{
			Kind: Asset, Gate: 1, Sent: sec(6.6), Got: sec(6.7), Code: 200, Ahead: -1, Inside: true, With: p.Heard[len(p.Heard)-1].Passes[0],
		})
		e.Astray = func(gate int, at At) time.Duration {
			if gate == 1 && at == sec(6.6) {
				return astray
			}
			return 0
		}
		found := slices.ContainsFunc(e.Audit(), func(f Finding) bool { return f.Promise == TheGate })
		require.Equal(t, broken, found, "%s", astray)
	}
}

// What such a gate lets through says nothing about slots: the same slot was given on long
// before, as it had to be.
func TestWhatAGateLetsThroughThatIsAstrayTakesNoSlot(t *testing.T) {
	t.Parallel()
	for astray, broken := range map[time.Duration]bool{0: true, time.Minute: false} {
		e := honestRun()
		p := e.People[0]
		p.Heard = append(p.Heard, Heard{
			Kind: Asset, Gate: 1, Sent: sec(8.6), Got: sec(8.7), Code: 200, Ahead: -1, Inside: true, With: p.Heard[len(p.Heard)-1].Passes[0],
		})
		e.Log = append(e.Log, Visit{Sent: sec(8.6), Begin: sec(8.61), End: sec(8.7), Method: "GET", Path: "/r/step", Person: 1, Visitor: "A", Admission: "A.0"})
		e.Astray = func(gate int, _ At) time.Duration { return time.Duration(gate) * astray }
		found := slices.ContainsFunc(e.Audit(), func(f Finding) bool { return f.Promise == Capacity })
		require.Equal(t, broken, found, "%s", astray)
		require.Equal(t, broken, e.Tally().MostByUse > 1)
	}
}

// Somebody in line whose turn comes with an order that the shop takes is admitted, orders
// and is done in one request; the next stay is another one.
func TestAnOrderEndsAStayWithoutAPassThatIsSeen(t *testing.T) {
	t.Parallel()
	for kind, broken := range map[Kind][]string{Order: nil, Poll: {OneVisitor, OnePlace}} {
		e := honestRun()
		waits := e.People[1].Heard[0]
		h := waits
		h.Kind, h.Status, h.Visitor, h.Place, h.Inside = kind, "", "", 0, kind == Order
		after := waits
		after.Visitor, after.Place = "C", 300
		var found []string
		for _, f := range onePerson(&History{Heard: []Heard{waits, h, after}}, map[string]*History{}, map[string]string{}) {
			found = append(found, f.Promise)
		}
		require.Equal(t, broken, found, "%v", kind)
	}
}

// turnPlace moves the passes of a person to another place.
func turnPlace(p *History, place int64) {
	for _, h := range p.Heard {
		for i := range h.Passes {
			h.Passes[i].Place = place
		}
	}
}
