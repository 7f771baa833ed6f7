package main_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// The auditor of a room. It knows what every visitor of a simulated crowd was
// answered and what reached the shop, and nothing else: no key of Redis, no log
// of a gate. Two clocks are in it and are never compared: `at`, the time of the
// test process since the run began, and room time, which passes tell.
//
// Every check holds on a machine of any speed. What happened between the sending
// of a request and its answer happened at some moment in between; a check counts
// only what is certain at every such moment.

// at is a moment of the test process.
type at = time.Duration

// visit is one line of the shop's raw log.
type visit struct {
	sent               at // when the visitor sent it, as the request says
	begin, end         at
	method, path       string
	person             int // who sent it, as the request says
	visitor, admission string
}

// shownPass is what an entry token says, read without its key.
type shownPass struct {
	Visitor   string `json:"sub"`
	Admission string `json:"jti"`
	Room      string `json:"aud"`
	Place     int64  `json:"place"`
	End       int64  `json:"end"` // room time in milliseconds
	Stage     string `json:"stage"`
}

// The kinds of requests a person sends.
const (
	asksJoin    = "join"
	asksPage    = "page" // a browser opens the protected page
	asksPoll    = "poll"
	asksUse     = "use"   // a request that needs the pass
	asksAsset   = "asset" // the same, of the kind that nobody waits for
	asksRelease = "release"
	asksLeave   = "leave"
)

// heard is one request of a person and what was answered.
type heard struct {
	kind      string
	gate      int
	sent, got at
	code      int // 0: no answer
	status    string
	degraded  bool
	ahead     int64 // -1: no number
	visitor   string
	place     int64     // of the ticket in the answer, 0 without one
	roomTime  int64     // of this sign of life, by that ticket; 0 unknown
	inside    bool      // the answer is the shop's
	with      shownPass // the pass that was shown
	passes    []shownPass
}

func (h heard) String() string {
	text := fmt.Sprintf("%s-%s %s at gate %d: ", seconds(h.sent), seconds(h.got), h.kind, h.gate)
	if h.code == 0 {
		return text + "no answer"
	}
	text += fmt.Sprint(h.code)
	if h.inside {
		text += " from the shop"
	}
	if h.status != "" {
		text += " " + h.status
	}
	if h.degraded {
		text += " (degraded)"
	}
	if h.ahead >= 0 {
		text += fmt.Sprintf(", %d ahead", h.ahead)
	}
	if h.place > 0 {
		text += fmt.Sprintf(", place %d", h.place)
	}
	for _, p := range h.passes {
		text += fmt.Sprintf(", %s pass %s until room time %d", p.Stage, p.Admission, p.End)
	}
	if h.visitor != "" {
		text += ", visitor " + h.visitor
	}
	return text
}

func seconds(t at) string {
	return fmt.Sprintf("%.3f s", t.Seconds())
}

// history is what one person did and heard, in order: they do one thing at a time.
type history struct {
	person    int
	manner    string
	began     at
	heard     []heard
	outcome   string // how it ended for them; empty while they still poll
	faithful  bool   // polled as told from the join to the outcome
	gaveUp    at     // when they first asked to leave or to release, 0: never
	lostPlace string // what they were told that nobody may be told
}

// last tells the end of a history.
func (h *history) last(n int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "person %d (%s):", h.person, h.manner)
	for _, a := range h.heard[max(0, len(h.heard)-n):] {
		text.WriteString("\n    " + a.String())
	}
	return text.String()
}

// upTo tells a history up to its i-th answer.
func (h *history) upTo(i, n int) string {
	part := *h
	part.heard = h.heard[:i+1]
	return part.last(n)
}

// evidence is what the auditor knows of one room.
type evidence struct {
	slots, perMinute, burst int64
	claimWindow, presence   time.Duration
	people                  []*history
	log                     []visit
}

// finding is one broken promise and its story.
type finding struct{ promise, story string }

// admission is one pass, by its jti.
type admission struct {
	id, visitor string
	place       int64
	person      *history // nil: nobody got the answer
	granted     int64    // room time in milliseconds; 0: not known
	end         int64    // the last end that a token of it tells
	// It was granted after `after` and before `known`.
	after, known at
	first, last  at // first seen by the shop; sending of the last request that reached it
	used         bool
	givenBack    at // 0: never
}

func (a *admission) String() string {
	text := fmt.Sprintf("admission %s of visitor %s, place %d", a.id, a.visitor, a.place)
	if a.person != nil {
		text += fmt.Sprintf(" (person %d, %s)", a.person.person, a.person.manner)
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

// admissions collects every pass that anybody was given or the shop has seen.
func (e *evidence) admissions() []*admission {
	found := map[string]*admission{}
	for _, p := range e.people {
		waited := p.began
		for _, h := range p.heard {
			for _, s := range h.passes {
				a := found[s.Admission]
				if a == nil {
					a = &admission{id: s.Admission, visitor: s.Visitor, place: s.Place, person: p, after: waited, known: h.got, givenBack: p.gaveUp}
					found[s.Admission] = a
				}
				if granted := s.End - e.claimWindow.Milliseconds(); s.Stage == "ready" && (a.granted == 0 || granted < a.granted) {
					a.granted = granted
				}
				a.end = max(a.end, s.End)
			}
			if h.status == "waiting" && !h.degraded {
				waited = h.sent
			}
		}
	}
	for _, v := range e.log {
		if v.admission == "" {
			continue
		}
		a := found[v.admission]
		if a == nil {
			a = &admission{id: v.admission, visitor: v.visitor, known: v.begin}
			found[v.admission] = a
		}
		if !a.used || v.begin < a.first {
			a.first = v.begin
		}
		a.used, a.last = true, max(a.last, v.sent)
		a.known = min(a.known, v.begin)
	}
	return slices.SortedFunc(maps.Values(found), func(x, y *admission) int {
		return cmp.Or(cmp.Compare(x.granted, y.granted), cmp.Compare(x.known, y.known))
	})
}

// span is a time in which one admission certainly held a slot.
type span struct {
	from, to int64
	of       *admission
}

// crowded returns the most spans that hold one moment together, and which they
// are. A span does not hold its end.
func crowded(spans []span) (most []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var open []span
	for _, s := range spans {
		open = slices.DeleteFunc(open, func(o span) bool { return o.to <= s.from })
		if s.to > s.from {
			open = append(open, s)
		}
		if len(open) > len(most) {
			most = slices.Clone(open)
		}
	}
	return most
}

// liveByTokens are the times, in room time, for which tokens were given out. A
// pass that its holder gave back counts nowhere here: when its slot was given on
// in room time nobody was told.
func liveByTokens(all []*admission) (spans []span) {
	for _, a := range all {
		if a.granted > 0 && a.givenBack == 0 {
			spans = append(spans, span{a.granted, a.end, a})
		}
	}
	return spans
}

// liveByUse are the times of the test process from the moment somebody knew of
// an admission to the sending of the last request that the shop got by it, or to
// the moment its holder began to give it back: from then on it may be honoured a
// little longer elsewhere.
func liveByUse(all []*admission) (spans []span) {
	for _, a := range all {
		to := a.last
		if a.givenBack > 0 {
			to = min(to, a.givenBack)
		}
		if a.used && to > a.known {
			spans = append(spans, span{int64(a.known), int64(to), a})
		}
	}
	return spans
}

// checkCapacity: never more than total_active_users admissions at any instant.
func (e *evidence) checkCapacity(all []*admission) (found []finding) {
	if e.slots == 0 {
		return nil
	}
	for by, spans := range map[string][]span{"by the tokens given out": liveByTokens(all), "by what reached the shop": liveByUse(all)} {
		most := crowded(spans)
		if int64(len(most)) <= e.slots {
			continue
		}
		story := fmt.Sprintf("%d admissions at once %s, %d allowed:", len(most), by, e.slots)
		for _, s := range most {
			story += "\n  " + s.of.String()
		}
		found = append(found, finding{"capacity", story})
	}
	return found
}

// checkRate: in any window of t seconds fewer than burst + r*t admissions, in 60
// at most new_users_per_minute. Admissions whose moment nobody was told are not
// counted, which can only make the figure smaller.
func (e *evidence) checkRate(all []*admission) (found []finding) {
	if e.perMinute == 0 {
		return nil
	}
	granted := grants(all)
	gain := e.perMinute - e.burst + 1
	for i, from := range granted {
		for j := i; j < len(granted); j++ {
			n, t := int64(j-i+1), granted[j].granted-from.granted
			over := n*60_000 >= e.burst*60_000+gain*t
			if t == 0 {
				over = n > e.burst
			}
			if over || t <= 60_000 && n > e.perMinute {
				found = append(found, finding{"rate", fmt.Sprintf("%d admissions in %d ms of room time, burst %d, %d a minute:\n  first %s\n  last %s",
					n, t, e.burst, e.perMinute, from, granted[j])})
				break
			}
		}
	}
	return found
}

// grants are the admissions whose moment is known, in its order.
func grants(all []*admission) []*admission {
	known := slices.DeleteFunc(slices.Clone(all), func(a *admission) bool { return a.granted == 0 })
	slices.SortStableFunc(known, func(x, y *admission) int { return cmp.Compare(x.granted, y.granted) })
	return known
}

// busiestMinute is the greatest number of admissions in 60 s of room time.
func busiestMinute(all []*admission) (most int) {
	granted := grants(all)
	first := 0
	for j, a := range granted {
		for a.granted-granted[first].granted > 60_000 {
			first++
		}
		most = max(most, j-first+1)
	}
	return most
}

// stay is one place of one person: the polls that found them waiting and the one
// that brought the turn.
type stay struct {
	person *history
	place  int64
	polls  []heard
	first  *admission // nil: not admitted before the run ended
}

func (e *evidence) stays(all []*admission) (found []*stay) {
	first := map[string]*admission{}
	for _, a := range all { // in order of their moments
		key := fmt.Sprint(a.visitor, " ", a.place)
		if known := first[key]; known == nil || a.known < known.known {
			first[key] = a
		}
	}
	for _, p := range e.people {
		var now *stay
		for _, h := range p.heard {
			place, visitor := h.place, h.visitor
			if len(h.passes) > 0 {
				place, visitor = h.passes[0].Place, h.passes[0].Visitor
			}
			if place != 0 && (now == nil || now.place != place) {
				now = &stay{person: p, place: place, first: first[fmt.Sprint(visitor, " ", place)]}
				found = append(found, now)
			}
			if now == nil || h.kind != asksPoll || h.degraded || now.over() {
				continue
			}
			if h.status == "waiting" || h.status == "ready" {
				now.polls = append(now.polls, h)
			}
		}
	}
	return found
}

func (s *stay) over() bool {
	return len(s.polls) > 0 && s.polls[len(s.polls)-1].status != "waiting"
}

// stood reports whether the person was certainly here and waiting during the
// whole of a time: heard from before it, again after it, and between two polls
// never silent for so long that they could have been overdue, or admitted and
// passed over again, without hearing of it.
func (s *stay) stood(from, to at, longest time.Duration) bool {
	start := -1
	for i, h := range s.polls {
		if h.got <= from && h.status == "waiting" {
			start = i
		}
	}
	if start < 0 {
		return false
	}
	for i := start; s.polls[i].sent < to; i++ {
		if i+1 == len(s.polls) || s.polls[i+1].got-s.polls[i].sent >= longest {
			return false
		}
	}
	return true
}

// checkOrder: among those who are here nobody is admitted before an earlier one.
// It also counts the pairs that were in order.
func (e *evidence) checkOrder(all []*admission) (found []finding, inOrder int) {
	longest := min(e.presence, e.claimWindow)
	stays := e.stays(all)
	for _, later := range grants(all) {
		for _, earlier := range stays {
			if earlier.place >= later.place {
				continue
			}
			granted := int64(math.MaxInt64)
			if f := earlier.first; f != nil {
				if f.granted == 0 {
					continue
				}
				granted = f.granted
			}
			if granted <= later.granted {
				inOrder++
				continue
			}
			if !earlier.stood(later.after, later.known, longest) {
				continue
			}
			turn := "was not"
			if earlier.first != nil {
				turn = "was by " + earlier.first.String()
			}
			found = append(found, finding{"order", fmt.Sprintf("%s\n  came between %s and %s, when place %d was here and waiting; that one %s\n  %s",
				later, seconds(later.after), seconds(later.known), earlier.place, turn, earlier.person.last(8))})
		}
	}
	return found, inOrder
}

// checkIdentity: one visitor has one place and one slot at a time, one person is
// one visitor until a stay is over, and no admission has two holders.
func (e *evidence) checkIdentity(all []*admission) (found []finding) {
	holder := map[string]string{} // admission -> visitor
	owner := map[string]*history{}
	for _, p := range e.people {
		place, over := int64(0), false
		name := ""
		for i, h := range p.heard {
			for _, visitor := range append([]string{h.visitor}, visitorsOf(h.passes)...) {
				switch {
				case visitor == "":
					continue
				case name != "" && name != visitor && !over:
					found = append(found, finding{"one visitor", fmt.Sprintf("a person became %s after %s\n  %s", visitor, name, p.upTo(i, 6))})
				case owner[visitor] != nil && owner[visitor] != p:
					found = append(found, finding{"one visitor", fmt.Sprintf("two people are %s\n  %s\n  %s", visitor, p.upTo(i, 4), owner[visitor].last(4))})
				}
				name, owner[visitor] = visitor, p
			}
			now := h.place
			if len(h.passes) > 0 {
				now = h.passes[0].Place
			}
			if now != 0 && place != 0 && now != place && (!over || now < place) {
				found = append(found, finding{"one place", fmt.Sprintf("place %d became %d with no end between\n  %s", place, now, p.upTo(i, 8))})
			}
			if now != 0 && now != place {
				place, over = now, false
			}
			// A stay may be over once there was a pass, or its holder was told so.
			over = over || len(h.passes) > 0 || ended[h.status]
			for _, s := range h.passes {
				if known := holder[s.Admission]; known != "" && known != s.Visitor {
					found = append(found, finding{"one holder", fmt.Sprintf("admission %s was given to %s and %s\n  %s", s.Admission, known, s.Visitor, p.upTo(i, 4))})
				}
				holder[s.Admission] = s.Visitor
			}
		}
	}
	for _, v := range e.log {
		if known := holder[v.admission]; v.admission != "" && known != "" && known != v.visitor {
			found = append(found, finding{"one holder", fmt.Sprintf("admission %s of %s came to the shop as %s at %s", v.admission, known, v.visitor, seconds(v.begin))})
		}
		holder[v.admission] = v.visitor
	}
	byVisitor := map[string][]span{}
	for _, s := range liveByTokens(all) {
		byVisitor[s.of.visitor] = append(byVisitor[s.of.visitor], s)
	}
	for visitor, spans := range byVisitor {
		if most := crowded(spans); len(most) > 1 {
			found = append(found, finding{"one slot", fmt.Sprintf("visitor %s has two at once:\n  %s\n  %s", visitor, most[0].of, most[1].of)})
		}
	}
	return found
}

// ended are the answers that say that a stay is over.
var ended = map[string]bool{"expired": true, "left": true, "released": true, "not_entered": true}

func visitorsOf(passes []shownPass) (all []string) {
	for _, p := range passes {
		all = append(all, p.Visitor)
	}
	return all
}

// checkNumbers: ahead never grows during one stay.
func (e *evidence) checkNumbers() (found []finding) {
	for _, p := range e.people {
		place, ahead := int64(0), int64(math.MaxInt64)
		for i, h := range p.heard {
			if h.place != 0 && h.place != place {
				place, ahead = h.place, math.MaxInt64
			}
			if h.ahead < 0 {
				continue
			}
			if h.ahead > ahead {
				found = append(found, finding{"ahead never grows", fmt.Sprintf("%d ahead became %d\n  %s", ahead, h.ahead, p.upTo(i, 6))})
			}
			ahead = h.ahead
		}
	}
	return found
}

// reading is the room time that somebody had been told of by a moment.
type reading struct {
	by       at
	roomTime int64
}

// clock lists the readings in the order of their moments, each the highest so
// far: room time never goes back.
func (e *evidence) clock(all []*admission) (readings []reading) {
	for _, a := range all {
		readings = append(readings, reading{a.known, a.granted})
	}
	for _, p := range e.people {
		for _, h := range p.heard {
			readings = append(readings, reading{h.got, h.roomTime})
		}
	}
	slices.SortFunc(readings, func(x, y reading) int { return cmp.Compare(x.by, y.by) })
	highest := int64(0)
	for i := range readings {
		highest = max(highest, readings[i].roomTime)
		readings[i].roomTime = highest
	}
	return readings
}

// readClock is the room time that had certainly come by a moment.
func readClock(readings []reading, moment at) int64 {
	i, _ := slices.BinarySearchFunc(readings, moment, func(r reading, m at) int {
		if r.by <= m {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0
	}
	return readings[i-1].roomTime
}

// rounding is by how many milliseconds a gate may take room time to be earlier
// than it is: both count whole milliseconds, by two clocks of one host.
const rounding = 10

// checkGate: nothing reaches a protected route without an admission, and no pass
// is accepted past its end. That the end had passed when a request was sent is
// known from what anybody had been told by then.
func (e *evidence) checkGate(all []*admission) (found []finding) {
	for _, v := range e.log {
		if v.admission == "" || v.visitor == "" {
			found = append(found, finding{"the gate", fmt.Sprintf("%s %s of person %d reached the shop at %s without an admission", v.method, v.path, v.person, seconds(v.begin))})
		}
	}
	readings := e.clock(all)
	for _, p := range e.people {
		for i, h := range p.heard {
			if !h.inside {
				continue
			}
			end := h.with.End
			for _, s := range h.passes {
				end = max(end, s.End)
			}
			roomTime := readClock(readings, h.sent)
			if end > 0 && end+rounding <= roomTime {
				found = append(found, finding{"the gate", fmt.Sprintf("the pass %s, over at room time %d, was accepted after room time %d\n  %s",
					h.with.Admission, end, roomTime, p.upTo(i, 5))})
			}
		}
	}
	return found
}

// checkLost: who polls as told is always waiting, ready, active or told why not.
func (e *evidence) checkLost() (found []finding) {
	for _, p := range e.people {
		switch {
		case p.lostPlace != "":
			found = append(found, finding{"nobody lost", p.lostPlace + "\n  " + p.last(6)})
		case p.faithful && p.outcome == "":
			found = append(found, finding{"nobody lost", "polls to the end and neither got in nor was told why\n  " + p.last(6)})
		}
	}
	return found
}

// audit runs every check.
func (e *evidence) audit() (found []finding) {
	all := e.admissions()
	found = append(found, e.checkGate(all)...)
	found = append(found, e.checkCapacity(all)...)
	found = append(found, e.checkRate(all)...)
	order, _ := e.checkOrder(all)
	found = append(found, order...)
	found = append(found, e.checkIdentity(all)...)
	found = append(found, e.checkNumbers()...)
	return append(found, e.checkLost()...)
}

// shortest picks for each promise the shortest story.
func shortest(found []finding) []string {
	stories, count := map[string]string{}, map[string]int{}
	for _, f := range found {
		count[f.promise]++
		if s, ok := stories[f.promise]; !ok || len(f.story) < len(s) {
			stories[f.promise] = f.story
		}
	}
	var texts []string
	for _, promise := range slices.Sorted(maps.Keys(stories)) {
		texts = append(texts, fmt.Sprintf("%s: broken %d times, the shortest story: %s", promise, count[promise], stories[promise]))
	}
	return texts
}
