package crowd

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// stay is one place of one person.
type stay struct {
	person *History
	number int   // Heard.Stay
	place  int64 // 0: not known
	// visitor is whose place it is, where the place is known.
	visitor string
	// The place was taken after began and before joined, which is 0 while nobody said
	// so.
	began, joined At
	first         *admission // nil: not admitted before the run ended
	polls         []Heard    // that found them waiting, and the one that brought the turn
}

// stays lists who stood in line, and where.
func (e *Evidence) stays(all []*admission) (found []*stay) {
	first := map[string]*admission{}
	for _, a := range all { // in order of their moments
		key := fmt.Sprint(a.visitor, " ", a.place)
		if known := first[key]; known == nil || a.known < known.known {
			first[key] = a
		}
	}
	for _, p := range e.People {
		var now *stay
		for _, h := range p.Heard {
			place, visitor := h.Place, h.Visitor
			if len(h.Passes) > 0 {
				place, visitor = h.Passes[0].Place, h.Passes[0].Visitor
			}
			if now == nil || now.number != h.Stay || place != 0 && now.place != 0 && now.place != place {
				now = &stay{person: p, number: h.Stay, began: h.Sent}
				found = append(found, now)
			}
			if place != 0 && now.place == 0 {
				now.place, now.visitor = place, visitor
				now.first = first[fmt.Sprint(visitor, " ", place)]
			}
			now.hear(h)
		}
	}
	return found
}

// hear takes in one answer of the stay.
func (s *stay) hear(h Heard) {
	if s.joined == 0 && !h.Degraded && (len(h.Passes) > 0 || h.Status == "waiting" && h.Ahead >= 0) {
		s.joined = h.Got
	}
	if h.Kind != Poll || h.Degraded || s.over() {
		return
	}
	if h.Status == "waiting" || h.Status == "ready" {
		s.polls = append(s.polls, h)
	}
}

func (s *stay) over() bool {
	return len(s.polls) > 0 && s.polls[len(s.polls)-1].Status != "waiting"
}

// granted is the moment of the first admission of a stay: 0 not known, the end of
// time when there was none.
func (s *stay) granted() int64 {
	if s.first != nil {
		return s.first.granted
	}
	return math.MaxInt64
}

// before tells whether a stay certainly has the earlier place.
func (s *stay) before(other *stay) bool {
	if s.place != 0 && other.place != 0 {
		return s.place < other.place
	}
	return s.joined != 0 && s.joined < other.began
}

// presence is a time during the whole of which a person was certainly here and
// waiting: heard from before it, again after it, and between two polls never silent
// for so long that they could have been overdue, or admitted and passed over again,
// without hearing of it; nor may their turn have been lost before they heard of it.
type presence struct {
	from, to At
	granted  int64
	stay     *stay
}

// presences are those of one stay.
func (e *Evidence) presences(s *stay) (found []presence) {
	for i := 0; i < len(s.polls); i++ {
		if s.polls[i].Status != "waiting" {
			continue
		}
		j := i
		for j+1 < len(s.polls) && (s.polls[j+1].steady || e.here(s.polls[j], s.polls[j+1])) && !e.forgot(s.polls[j], s.polls[j+1]) {
			j++
		}
		if j > i {
			found = append(found, presence{s.polls[i].Got, s.polls[j].Sent, s.granted(), s})
		}
		i = j
	}
	return found
}

// here tells whether somebody counted as here between two polls.
func (e *Evidence) here(before, now Heard) bool {
	if e.Presence > 0 {
		return now.Got-before.Sent < min(e.Presence, e.ClaimWindow)
	}
	return inTime(before, now)
}

// forgot tells whether a turn that came between two polls may have been lost.
func (e *Evidence) forgot(before, now Heard) bool {
	return e.Forgot != nil && e.Forgot(before.Sent, now.Got)
}

// checkOrder: among those who are here nobody is admitted before an earlier one.
// It also counts the stays that were in order, and the admissions at which somebody
// else was certainly here and waiting: only those could show anything.
func (e *Evidence) checkOrder(all []*admission) (found []Finding, inOrder, watched int) {
	stays := e.stays(all)
	var waits []presence
	for _, s := range stays {
		if s.granted() != 0 && (!e.Lottery || s.place != 0) {
			waits = append(waits, e.presences(s)...)
		}
	}
	admitted := slices.DeleteFunc(slices.Clone(stays), func(s *stay) bool { return s.first == nil || s.first.granted == 0 })
	slices.SortFunc(admitted, func(x, y *stay) int { return cmp.Compare(x.place, y.place) })
	highest := int64(0)
	for _, s := range admitted {
		if highest <= s.first.granted {
			inOrder++
		}
		highest = max(highest, s.first.granted)
	}
	holders := holders(stays)
	const most = 1000
	for _, later := range grants(all) {
		other := holders[seat{later.visitor, later.place}]
		if other == nil { // nobody got an answer that tells when the place was taken
			other = &stay{place: later.place}
		}
		seen := 0
		for i := range waits {
			w := &waits[i]
			if w.from > later.after || w.to < later.known {
				continue
			}
			seen = 1
			if w.granted <= later.granted || !w.stay.before(other) {
				continue
			}
			if len(found) < most {
				found = append(found, Finding{InOrder, overtaken(later, w)})
			}
		}
		watched += seen
	}
	return found, inOrder, watched
}

// seat is a place and whose it is.
type seat struct {
	visitor string
	place   int64
}

// holders tells of each place that is known who stood there first. A pass that lapses
// falls back to its place: what counts is when that was taken, however often its turn
// comes.
func holders(stays []*stay) map[seat]*stay {
	found := map[seat]*stay{}
	for _, s := range stays {
		if s.place == 0 {
			continue
		}
		at := seat{s.visitor, s.place}
		if known := found[at]; known == nil || s.began < known.began {
			found[at] = s
		}
	}
	return found
}

func overtaken(later *admission, w *presence) string {
	turn := "was not"
	if w.stay.first != nil {
		turn = "was by " + w.stay.first.String()
	}
	who := fmt.Sprintf("place %d", w.stay.place)
	if w.stay.place == 0 {
		who = fmt.Sprintf("somebody who had a place at %s", seconds(w.stay.joined))
	}
	return fmt.Sprintf("%s\n  came between %s and %s, when %s was here and waiting; that one %s\n  %s",
		later, seconds(later.after), seconds(later.known), who, turn, w.stay.person.last(8))
}

// checkArrivals: who had a place before another asked for one has the earlier place,
// and keeps it.
func (e *Evidence) checkArrivals() (found []Finding) {
	if e.Lottery {
		return nil
	}
	stays := slices.DeleteFunc(e.stays(e.admissions()), func(s *stay) bool { return s.place == 0 })
	joined := slices.DeleteFunc(slices.Clone(stays), func(s *stay) bool { return s.joined == 0 })
	slices.SortFunc(stays, func(x, y *stay) int { return cmp.Compare(x.began, y.began) })
	slices.SortFunc(joined, func(x, y *stay) int { return cmp.Compare(x.joined, y.joined) })
	var last *stay // with the last place of those who had one by then
	n := 0
	for _, s := range stays {
		for ; n < len(joined) && joined[n].joined < s.began; n++ {
			if last == nil || joined[n].place > last.place {
				last = joined[n]
			}
		}
		if last != nil && last.place > s.place {
			found = append(found, Finding{OnePlace, fmt.Sprintf("place %d is of somebody who asked for it at %s, when person %d had a place already, at %s, and was admitted with place %d\n  %s",
				s.place, seconds(s.began), last.person.Person, seconds(last.joined), last.place, last.person.last(8))})
		}
	}
	return found
}
