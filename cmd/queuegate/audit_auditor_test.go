package main_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sec is a moment of a made-up run.
func sec(s float64) at { return at(s * float64(time.Second)) }

// honestRun is a room with one slot and two people in line: the first has the
// slot for room time 2000 to 8000, the second from 8000 on.
func honestRun() *evidence {
	first, second := &history{person: 1, faithful: true, outcome: "served"}, &history{person: 2, faithful: true, outcome: "served"}
	waits := func(p *history, kind string, s float64, visitor string, place, ahead int64) {
		p.heard = append(p.heard, heard{
			kind: kind, sent: sec(s), got: sec(s + 0.01), code: 200, status: "waiting", visitor: visitor, place: place, ahead: ahead,
		})
	}
	goesIn := func(p *history, s float64, visitor string, place, granted int64) {
		ready := shownPass{Visitor: visitor, Admission: visitor + ".0", Place: place, End: granted + 5000, Stage: "ready"}
		active := ready
		active.End, active.Stage = granted+6000, "active"
		p.heard = append(
			p.heard,
			heard{kind: asksPoll, sent: sec(s), got: sec(s + 0.01), code: 200, status: "ready", ahead: -1, passes: []shownPass{ready}},
			heard{kind: asksUse, sent: sec(s + 1), got: sec(s + 1.1), code: 200, ahead: -1, inside: true, with: ready, passes: []shownPass{active}},
		)
	}
	waits(first, asksJoin, 0, "A", 100, 0)
	waits(first, asksPoll, 1, "A", 100, 0)
	goesIn(first, 2, "A", 100, 2000)
	waits(second, asksJoin, 0.1, "B", 200, 1)
	for s := 0.5; s < 8; s++ {
		waits(second, asksPoll, s, "B", 200, max(0, 1-int64(s/2)))
	}
	goesIn(second, 8.1, "B", 200, 8000)
	return &evidence{
		slots: 1, perMinute: 60, burst: 1, claimWindow: 5 * time.Second, presence: 5 * time.Second,
		people: []*history{first, second},
		log: []visit{
			{sent: sec(3), begin: sec(3.01), end: sec(3.1), method: "GET", path: "/r/step", person: 1, visitor: "A", admission: "A.0"},
			{sent: sec(9.1), begin: sec(9.11), end: sec(9.2), method: "GET", path: "/r/step", person: 2, visitor: "B", admission: "B.0"},
		},
	}
}

// turn returns the answer that brought a person the turn.
func turn(p *history) *heard {
	for i := range p.heard {
		if p.heard[i].status == "ready" {
			return &p.heard[i]
		}
	}
	return nil
}

// regrant moves the moment of a person's admission.
func regrant(p *history, to int64) {
	by := turn(p).passes[0].End - 5000 - to
	for _, h := range p.heard {
		for i := range h.passes {
			h.passes[i].End -= by
		}
	}
}

func TestAuditorFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	require.Empty(t, honestRun().audit(), "an honest run has nothing to find")
	for name, tc := range map[string]struct {
		spoil   func(e *evidence)
		promise string
	}{
		"a slot is given to the second before the first one's token has ended": {
			func(e *evidence) { regrant(e.people[1], 7900) }, "capacity",
		},
		"the shop sees the first after the second": {
			func(e *evidence) {
				late := e.log[0]
				late.sent, late.begin = sec(9), sec(9.01)
				e.log = append(e.log, late)
			}, "capacity",
		},
		"two admissions come closer than the rate allows": {
			func(e *evidence) { e.slots = 0; regrant(e.people[1], 2900) }, "rate",
		},
		"two admissions come in one millisecond where one may": {
			func(e *evidence) { e.slots = 0; regrant(e.people[1], 2000) }, "rate",
		},
		"the second is admitted while the first polls and waits": {
			func(e *evidence) {
				e.people[0].heard[0].place, e.people[0].heard[1].place = 300, 300
				turnPlace(e.people[0], 300)
			}, "order",
		},
		"the second is admitted while the first waits to the end": {
			func(e *evidence) {
				p := e.people[1]
				p.heard = p.heard[:len(p.heard)-2]
				e.log = e.log[:1]
				for i := range p.heard {
					p.heard[i].place = 50
				}
			}, "order",
		},
		"a place changes without an end": {
			func(e *evidence) { e.people[1].heard[2].place = 201 }, "one place",
		},
		"a person becomes somebody else": {
			func(e *evidence) { e.people[1].heard[2].visitor = "C" }, "one visitor",
		},
		"two people are one visitor": {
			func(e *evidence) { e.people[1].heard[0].visitor = "A" }, "one visitor",
		},
		"one admission has two holders": {
			func(e *evidence) { e.log[1].visitor = "A" }, "one holder",
		},
		"one visitor holds two slots": {
			func(e *evidence) {
				again := turn(e.people[0]).passes[0]
				again.Admission, again.Place = "A.1", 400
				h := &e.people[0].heard[len(e.people[0].heard)-1]
				h.passes = append(h.passes, again)
			}, "one slot",
		},
		"the number ahead grows": {
			func(e *evidence) { e.people[1].heard[5].ahead = 1 }, "ahead never grows",
		},
		"a request reaches the shop without an admission": {
			func(e *evidence) { e.log = append(e.log, visit{sent: sec(5), begin: sec(5), person: 9}) }, "the gate",
		},
		"a pass is accepted past its end": {
			func(e *evidence) {
				p := e.people[0]
				regrant(e.people[1], 8020)
				p.heard = append(p.heard, heard{
					kind: asksUse, sent: sec(8.5), got: sec(8.6), code: 200, ahead: -1, inside: true, with: p.heard[len(p.heard)-1].passes[0],
				})
			}, "the gate",
		},
		"a pass is accepted past the end that others' tickets tell": {
			func(e *evidence) {
				p := e.people[0]
				e.people[1].heard[7].roomTime = 8020 // at 6.51 s
				p.heard = append(p.heard, heard{
					kind: asksAsset, sent: sec(6.6), got: sec(6.7), code: 200, ahead: -1, inside: true, with: p.heard[len(p.heard)-1].passes[0],
				})
			}, "the gate",
		},
		"somebody polls for ever": {
			func(e *evidence) { e.people[1].outcome = "" }, "nobody lost",
		},
		"somebody is told nonsense": {
			func(e *evidence) { e.people[0].lostPlace = "answered 500" }, "nobody lost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := honestRun()
			tc.spoil(e)
			var broken []string
			for _, f := range e.audit() {
				broken = append(broken, f.promise)
				require.NotEmpty(t, f.story)
			}
			require.Contains(t, broken, tc.promise)
		})
	}
}

// turnPlace moves the passes of a person to another place.
func turnPlace(p *history, place int64) {
	for _, h := range p.heard {
		for i := range h.passes {
			h.passes[i].Place = place
		}
	}
}
