package crowd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Evidence is what is known of one room. Limits that are 0 are not judged.
type Evidence struct {
	Slots, PerMinute, Burst int64
	// ClaimWindow and Presence are the room's, where they are known. Without them the
	// name of an admission tells when it was given, and nobody counts as here who came
	// later than told.
	ClaimWindow, Presence time.Duration
	// Honoured is for how long a pass that was ended behind its holder's back, by the
	// shop, may still be good: 0 where the shop ends none.
	Honoured time.Duration
	// Astray is by how much a gate may take the time of the room to be earlier than it
	// is; nil: not at all.
	Astray func(gate int, at At) time.Duration
	// Forgot tells whether Redis may have lost history between two moments: a pass that
	// was given in it, and that nobody had been told of yet, may be gone with it. nil: no.
	Forgot func(from, to At) bool
	// Lottery is set where places are not given in the order of arrival.
	Lottery bool
	People  []*History
	Log     []Visit // of the shop; nil: what the people know of themselves
}

// Finding is one broken promise and its story.
type Finding struct {
	Promise string
	Story   string
}

// The promises that a Finding may name.
const (
	Capacity   = "capacity"
	Rate       = "rate"
	InOrder    = "order"
	OnePlace   = "one place"
	OneVisitor = "one visitor"
	OneHolder  = "one holder"
	OneSlot    = "one slot"
	Numbers    = "ahead never grows"
	TheGate    = "the gate"
	NobodyLost = "nobody lost"
	Quarter    = "a quarter"
)

// admission is one pass, by its jti.
type admission struct {
	id, visitor string
	place       int64
	epoch       int64
	person      *History // nil: nobody got the answer
	granted     int64    // room time in milliseconds; 0: not known
	end         int64    // the last end that a token of it tells
	atJoin      bool     // it came in answer to the first request of a stay
	// It was granted after `after` and before `known`.
	after, known At
	first, last  At // first seen by the shop; sending of the last request that reached it
	used         bool
	givenBack    At // 0: never
}

func (a *admission) String() string {
	text := fmt.Sprintf("admission %s of visitor %s, place %d", a.id, a.visitor, a.place)
	if a.person != nil {
		text += fmt.Sprintf(" (person %d, %s)", a.person.Person, a.person.Manner)
	}
	if a.granted > 0 {
		text += fmt.Sprintf(": granted at room time %d, tokens until %d", a.granted, a.end)
	}
	text += fmt.Sprintf("; known at %s", seconds(a.known))
	if a.used {
		text += fmt.Sprintf(", at the shop at %s, last sent at %s", seconds(a.first), seconds(a.last))
	}
	if a.givenBack > 0 {
		text += ", given back at " + seconds(a.givenBack)
	}
	return text
}

// granted is the room time in milliseconds at which a pass was given.
func (e *Evidence) granted(p Pass) int64 {
	switch {
	case p.Stage != "ready":
		return 0
	case e.ClaimWindow > 0:
		return p.End - e.ClaimWindow.Milliseconds()
	default:
		return p.Granted()
	}
}

// admissions collects every pass that anybody was given or the shop has seen, in
// the order of their moments.
func (e *Evidence) admissions() []*admission {
	found := map[string]*admission{}
	for _, p := range e.People {
		waited, stay := p.Began, -1
		for _, h := range p.Heard {
			for _, s := range h.Passes {
				a := found[s.Admission]
				if a == nil {
					a = &admission{
						id: s.Admission, visitor: s.Visitor, place: s.Place, epoch: s.Epoch, person: p,
						after: waited, known: h.Got, atJoin: h.Stay != stay,
					}
					if p.GaveUp > 0 && h.Sent >= p.GaveUp {
						a.givenBack = p.GaveUp
					}
					found[s.Admission] = a
				}
				if granted := e.granted(s); granted > 0 && (a.granted == 0 || granted < a.granted) {
					a.granted = granted
				}
				a.end = max(a.end, s.End)
			}
			e.given(found, p, h)
			if h.Code != 0 {
				stay = h.Stay
			}
			if h.Status == "waiting" && !h.Degraded {
				waited = h.Sent
			}
		}
	}
	astray := e.astray()
	for _, v := range e.visits() {
		if v.Admission == "" || astray[request{v.Person, v.Sent}] {
			continue
		}
		a := found[v.Admission]
		if a == nil {
			a = &admission{id: v.Admission, visitor: v.Visitor, known: v.Begin}
			found[v.Admission] = a
		}
		if !a.used || v.Begin < a.first {
			a.first = v.Begin
		}
		a.used, a.last = true, max(a.last, v.Sent)
		a.known = min(a.known, v.Begin)
	}
	return slices.SortedFunc(maps.Values(found), func(x, y *admission) int {
		return cmp.Or(cmp.Compare(x.granted, y.granted), cmp.Compare(x.known, y.known))
	})
}

// request is one request of a person, who does one thing at a time.
type request struct {
	person int
	sent   At
}

// astray are the requests that went to a gate which took the time of the room to be
// earlier than it was: that such a gate lets somebody through says nothing about slots.
func (e *Evidence) astray() map[request]bool {
	if e.Astray == nil {
		return nil
	}
	found := map[request]bool{}
	for _, p := range e.People {
		for _, h := range p.Heard {
			if h.With.Admission != "" && e.Astray(h.Gate, h.Sent) > 0 { // nobody else gets past such a gate
				found[request{p.Person, h.Sent}] = true
			}
		}
	}
	return found
}

// given notes when a holder began to give a pass back, by a release, by leaving or
// by an order, which may use it up.
func (e *Evidence) given(found map[string]*admission, p *History, h Heard) {
	a := found[h.With.Admission]
	switch {
	case a == nil || a.givenBack > 0:
	case h.Kind == Release || h.Kind == Leave || h.Kind == Order:
		a.givenBack = h.Sent
	case p.GaveUp > 0 && h.Sent >= p.GaveUp:
		a.givenBack = p.GaveUp
	}
}

// visits is the shop's log, or else what people know to have reached it.
func (e *Evidence) visits() []Visit {
	if e.Log != nil {
		return e.Log
	}
	var visits []Visit
	for _, p := range e.People {
		for _, h := range p.Heard {
			with := h.With
			for _, s := range h.Passes { // by a pass that came with the answer
				if with.Admission == "" || s.Stage == "active" {
					with = s
				}
			}
			if h.Inside && with.Admission != "" {
				visits = append(visits, Visit{Sent: h.Sent, Begin: h.Got, End: h.Got, Person: p.Person, Visitor: with.Visitor, Admission: with.Admission})
			}
		}
	}
	return visits
}

// Audit runs every check.
func (e *Evidence) Audit() (found []Finding) {
	all := e.admissions()
	found = append(found, e.checkGate(all)...)
	found = append(found, e.checkCapacity(all)...)
	found = append(found, e.checkRate(all)...)
	order, _, _ := e.checkOrder(all)
	found = append(found, order...)
	found = append(found, e.checkIdentity(all)...)
	found = append(found, e.checkArrivals()...)
	found = append(found, e.checkNumbers()...)
	found = append(found, e.checkQuarter(all)...)
	return append(found, e.checkLost()...)
}

// Tally counts what the checks had to go by, for whoever reads a verdict.
type Tally struct {
	People, Answers, Silence int // requests with and without an answer
	Admissions               int
	MostByTokens, MostByUse  int    // admissions held at once
	ByTokens, ByUse          string // which those are, a line each
	BusiestMinute            int    // admissions in 60 s of room time
	InOrder                  int    // stays that were admitted no earlier than any with an earlier place
	Watched                  int    // admissions at which somebody else was certainly here and waiting
	MostAtJoin               int    // admissions of clients that brought nothing back, held at once
}

// Tally counts.
func (e *Evidence) Tally() Tally {
	all := e.admissions()
	_, inOrder, watched := e.checkOrder(all)
	t := Tally{
		People: len(e.People), Admissions: len(all), InOrder: inOrder, Watched: watched, BusiestMinute: busiestMinute(all),
		MostAtJoin: len(crowded(e.unproven(all))),
	}
	byTokens, byUse := crowded(e.liveByTokens(all)), crowded(e.liveByUse(all))
	t.MostByTokens, t.ByTokens = len(byTokens), told(byTokens, "")
	t.MostByUse, t.ByUse = len(byUse), told(byUse, "")
	for _, p := range e.People {
		for _, h := range p.Heard {
			if h.Code == 0 {
				t.Silence++
			} else {
				t.Answers++
			}
		}
	}
	return t
}

// Shortest picks for each promise the shortest story.
func Shortest(found []Finding) []string {
	stories, count := map[string]string{}, map[string]int{}
	for _, f := range found {
		count[f.Promise]++
		if s, ok := stories[f.Promise]; !ok || len(f.Story) < len(s) {
			stories[f.Promise] = f.Story
		}
	}
	var texts []string
	for _, promise := range slices.Sorted(maps.Keys(stories)) {
		texts = append(texts, fmt.Sprintf("%s: broken %d times, the shortest story: %s", promise, count[promise], strings.TrimRight(stories[promise], "\n")))
	}
	return texts
}
