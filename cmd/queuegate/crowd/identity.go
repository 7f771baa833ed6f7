package crowd

import (
	"fmt"
	"math"
)

// checkIdentity: one visitor has one place and one slot at a time, one person is
// one visitor until a stay is over, and no admission has two holders.
func (e *Evidence) checkIdentity(all []*admission) (found []Finding) {
	holder := map[string]string{} // admission -> visitor
	owner := map[string]*History{}
	for _, p := range e.People {
		found = append(found, onePerson(p, owner, holder)...)
	}
	for _, v := range e.Log {
		if known := holder[v.Admission]; v.Admission != "" && known != "" && known != v.Visitor {
			found = append(found, Finding{OneHolder, fmt.Sprintf("admission %s of %s came to the shop as %s at %s", v.Admission, known, v.Visitor, seconds(v.Begin))})
		}
		holder[v.Admission] = v.Visitor
	}
	byVisitor := map[string][]span{}
	for _, s := range e.liveByTokens(all) {
		byVisitor[s.of.visitor] = append(byVisitor[s.of.visitor], s)
	}
	for visitor, spans := range byVisitor {
		if most := crowded(spans); len(most) > 1 && !e.forgottenBetween(most) {
			found = append(found, Finding{OneSlot, fmt.Sprintf("visitor %s has two at once:\n  %s\n  %s", visitor, most[0].of, most[1].of)})
		}
	}
	return found
}

// forgottenBetween tells whether history may have been lost between the admissions of one
// visitor: then the later one may be of somebody whose pass an older copy did not know.
func (e *Evidence) forgottenBetween(spans []span) bool {
	for i, s := range spans[1:] {
		before := spans[i].of
		if e.Forgot == nil || !e.Forgot(min(before.known, s.of.known), max(before.known, s.of.known)) {
			return false
		}
	}
	return true
}

// onePerson checks one history. owner and holder are what the others told of visitors
// and admissions.
func onePerson(p *History, owner map[string]*History, holder map[string]string) (found []Finding) {
	if p.Manner == string(Bot) {
		return nil // each of its requests is somebody else
	}
	place, over, stay, name := int64(0), false, 0, ""
	for i, h := range p.Heard {
		over = over || h.Stay != stay
		for _, visitor := range append([]string{h.Visitor}, visitorsOf(h.Passes)...) {
			switch {
			case visitor == "":
				continue
			case name != "" && name != visitor && !over:
				found = append(found, Finding{OneVisitor, fmt.Sprintf("a person became %s after %s\n  %s", visitor, name, p.upTo(i, 6))})
			case owner[visitor] != nil && owner[visitor] != p:
				found = append(found, Finding{OneVisitor, fmt.Sprintf("two people are %s\n  %s\n  %s", visitor, p.upTo(i, 4), owner[visitor].last(4))})
			}
			name, owner[visitor] = visitor, p
		}
		now := h.Place
		if len(h.Passes) > 0 {
			now = h.Passes[0].Place
		}
		if now != 0 && place != 0 && now != place && (!over || now < place) {
			found = append(found, Finding{OnePlace, fmt.Sprintf("place %d became %d with no end between\n  %s", place, now, p.upTo(i, 8))})
		}
		if now != 0 && now != place {
			place, over = now, false
		}
		// A stay may be over once there was a pass, or its holder was told so. Whose turn
		// an order brings gets no pass to see: it is used up with the answer of the shop.
		over, stay = over || len(h.Passes) > 0 || ended[h.Status] || h.Kind == Order && h.Inside, h.Stay
		for _, s := range h.Passes {
			if known := holder[s.Admission]; known != "" && known != s.Visitor {
				found = append(found, Finding{OneHolder, fmt.Sprintf("admission %s was given to %s and %s\n  %s", s.Admission, known, s.Visitor, p.upTo(i, 4))})
			}
			holder[s.Admission] = s.Visitor
		}
	}
	return found
}

// ended are the answers that say that a stay is over.
var ended = map[string]bool{"expired": true, "left": true, "released": true, "not_entered": true}

func visitorsOf(passes []Pass) (all []string) {
	for _, p := range passes {
		all = append(all, p.Visitor)
	}
	return all
}

// checkNumbers: ahead never grows during one stay.
func (e *Evidence) checkNumbers() (found []Finding) {
	for _, p := range e.People {
		place, stay, ahead := int64(0), 0, int64(math.MaxInt64)
		for i, h := range p.Heard {
			if h.Place != 0 && h.Place != place || h.Stay != stay {
				place, stay, ahead = h.Place, h.Stay, math.MaxInt64
			}
			if h.Ahead < 0 {
				continue
			}
			if h.Ahead > ahead {
				found = append(found, Finding{Numbers, fmt.Sprintf("%d ahead became %d\n  %s", ahead, h.Ahead, p.upTo(i, 6))})
			}
			ahead = h.Ahead
		}
	}
	return found
}

// rounding is by how many milliseconds a gate may take room time to be earlier
// than it is: both count whole milliseconds, by two clocks of one host.
const rounding = 10

// checkGate: nothing reaches a protected route without an admission, and no pass
// is accepted past its end. That the end had passed when a request was sent is
// known from what anybody had been told by then.
func (e *Evidence) checkGate(all []*admission) (found []Finding) {
	for _, v := range e.Log {
		if v.Admission == "" || v.Visitor == "" {
			found = append(found, Finding{TheGate, fmt.Sprintf("%s %s of person %d reached the shop at %s without an admission", v.Method, v.Path, v.Person, seconds(v.Begin))})
		}
	}
	readings := e.clock(all)
	for _, p := range e.People {
		for i, h := range p.Heard {
			if !h.Inside || h.Kind == Order {
				continue // the answer to an order that used the pass up does not tell how long it was good
			}
			end := h.With.End
			for _, s := range h.Passes {
				end = max(end, s.End)
			}
			last := lastReading(readings, h.Sent)
			spare := int64(rounding)
			if e.Astray != nil {
				spare += e.Astray(h.Gate, h.Sent).Milliseconds()
			}
			if end > 0 && end+spare <= last.roomTime {
				found = append(found, Finding{TheGate, fmt.Sprintf("the pass %s, over at room time %d, was accepted after room time %d\n  %s %s told of that room time\n  %s",
					h.With.Admission, end, last.roomTime, seconds(last.by), last.told, p.upTo(i, 5))})
			}
		}
	}
	return found
}

// checkLost: who polls as told is always waiting, ready, active or told why not.
func (e *Evidence) checkLost() (found []Finding) {
	for _, p := range e.People {
		switch {
		case p.LostPlace != "":
			found = append(found, Finding{NobodyLost, p.LostPlace + "\n  " + p.last(6)})
		case p.Faithful && p.Outcome == "":
			found = append(found, Finding{NobodyLost, "polls to the end and neither got in nor was told why\n  " + p.last(6)})
		}
	}
	return found
}
