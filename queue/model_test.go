package queue_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/queuegate/queuegate/queue"
)

// The model is the line said once more in plain Go, for one room of fewer than a
// hundred people: what every script should do, without Redis, without pages or
// cursors. All times are room time in milliseconds.

const (
	modelHealing        = 24_000
	modelPresence       = 10_000
	modelPoll           = 1_500
	modelMaxRequest     = 40_000
	modelHold           = 15_000
	modelSession        = 60_000
	modelSessionMax     = 150_000
	modelClaimWindow    = 30_000
	modelWaitingTimeout = 120_000
	modelKeepEnds       = modelWaitingTimeout + 124_000 + modelPresence
	modelDue            = modelPoll*12/10 + modelPresence
	modelTold           = 3 // what a lapse weighs whose pass its holder has heard of; else 1
	modelLastLapse      = 9
)

// spot is somebody in the line.
type spot struct{ place, due int64 }

type modelLease struct {
	stage     queue.State
	admission string
	place     int64
	started   int64
	ends      int64
	order     string // the request that has the order lock
	locked    int64  // until then
}

type modelEnd struct {
	place     int64
	why       queue.Why
	admission string
	number    int64
}

// modelGate is what one gate carries from its last answer.
type modelGate struct {
	name                string
	limits              queue.Limits
	now, epoch, holding int64
	generation          int64
}

// proof is what the ticket or token of a call shows of the line.
type proof struct{ epoch, place, seen, generation int64 }

// modelAnswer is what the model expects to be told.
type modelAnswer struct {
	state   queue.State
	why     queue.Why
	refusal queue.Refusal
	place   int64
	ahead   int64
	due     int64
	lease   modelLease
}

// modelRoom is what Redis knows.
type modelRoom struct {
	exists                        bool
	now, last, epoch, born, endno int64
	clock                         int64 // Redis's TIME at the last call
	healed, base, based           int64
	generation                    int64
	pruned                        int64
	limits                        queue.Limits
	state                         queue.RoomState
	bucket                        bucket
	filling                       bool // the bucket has been filled once
	maxWaiting                    int64

	torn map[string]bool // parts of which a key is missing: line, away, slots, ends

	waiting, fresh, away map[string]spot
	leases               map[string]modelLease
	unproven             map[string]bool
	lapses               map[string]int64
	ends                 map[string]modelEnd
	gates                map[string]int64
}

func newModelRoom(maxWaiting int64) *modelRoom {
	return &modelRoom{
		maxWaiting: maxWaiting, torn: map[string]bool{}, waiting: map[string]spot{}, fresh: map[string]spot{}, away: map[string]spot{},
		leases: map[string]modelLease{}, unproven: map[string]bool{}, lapses: map[string]int64{},
		ends: map[string]modelEnd{}, gates: map[string]int64{},
	}
}

func (m *modelRoom) clone() *modelRoom {
	c := *m
	c.waiting, c.fresh, c.away = maps.Clone(m.waiting), maps.Clone(m.fresh), maps.Clone(m.away)
	c.leases, c.unproven, c.lapses = maps.Clone(m.leases), maps.Clone(m.unproven), maps.Clone(m.lapses)
	c.torn = maps.Clone(m.torn)
	c.ends, c.gates = maps.Clone(m.ends), maps.Clone(m.gates)
	return &c
}

// furthest is how far the sequences were, by what is left when the room's hash alone
// is gone.
func (m *modelRoom) furthest() (last, endno int64) {
	for _, end := range m.ends {
		endno = max(endno, end.number)
	}
	last = endno
	for _, part := range []map[string]spot{m.waiting, m.fresh} {
		for _, s := range part {
			last = max(last, s.place)
		}
	}
	for _, s := range m.away {
		last = max(last, (s.due+2)*1000)
	}
	for _, l := range m.leases {
		last = max(last, (l.ends+2)*1000)
	}
	return last, endno
}

// begin is what every call begins with: time moves by moved (in an empty room up
// to clock), and a loss of history is noticed.
func (m *modelRoom) begin(g *modelGate, moved, clock int64, shown proof) {
	known, taken, torn := m.exists, m.mend(), len(m.torn) > 0
	clear(m.torn)
	if !known {
		m.last, m.endno = m.furthest()
	}
	if generation := max(g.generation, shown.generation); generation > m.generation {
		if m.last < generation {
			m.empty()
			taken = 0
		}
		m.generation, m.last = generation, max(m.last, generation)
	}
	m.exists, m.clock = true, clock
	left := len(m.waiting)+len(m.fresh)+len(m.away)+len(m.leases) > 0
	switch {
	case !known && g.now > 0:
		m.now = g.now
	case !known:
		m.now = clock
	case left || m.healing():
		m.now += moved
	default:
		m.now = max(m.now, clock)
	}
	heard, called := m.gates[g.name]
	excused := !called && g.now < m.now-modelWaitingTimeout
	stood := m.now
	m.now = max(m.now, g.now)
	latest, earliest := max(shown.epoch, g.epoch), shown.epoch
	if g.epoch > 0 && (earliest == 0 || g.epoch < earliest) {
		earliest = g.epoch
	}
	switch {
	case !known:
		m.epoch, m.born = m.now, 1
		if latest > 0 || left {
			m.lose(latest, taken)
		}
	case torn, latest > m.epoch:
		m.lose(latest, taken)
	case shown.epoch == m.epoch && (shown.seen > stood || shown.place > m.last):
		m.lose(latest, taken)
	case g.epoch == m.epoch && (!called || heard < g.now) && !excused:
		m.lose(latest, taken)
	case m.born == 1 && earliest > 0 && earliest < m.epoch:
		m.lose(latest, taken)
	}
	if m.now < m.based && g.epoch > 0 && g.epoch < m.epoch {
		m.base = max(m.base, g.holding)
	}
	if m.limits.PerMinute > 0 {
		if !m.filling {
			m.filling, m.bucket.tokens, m.bucket.filled = true, m.limits.Burst*token, m.now
		}
		m.bucket.fill(m.now)
	}
}

// mend forgets all of a part that is torn, and tells how many slots were taken if it
// is that one.
func (m *modelRoom) mend() (taken int64) {
	for part := range m.torn {
		switch part {
		case "line":
			clear(m.waiting)
			clear(m.fresh)
		case "away":
			clear(m.away)
		case "slots":
			taken = int64(len(m.leases))
			clear(m.leases)
			clear(m.unproven)
		case "ends":
			clear(m.ends)
		}
	}
	return taken
}

// empty takes everybody out.
func (m *modelRoom) empty() {
	for _, part := range []map[string]spot{m.waiting, m.fresh, m.away} {
		clear(part)
	}
	clear(m.leases)
	clear(m.unproven)
	clear(m.lapses)
	clear(m.ends)
}

// reset begins anew, unless somebody has done so since the caller looked.
func (m *modelRoom) reset(generation int64) {
	if m.generation != generation {
		return
	}
	m.empty()
	m.last = max(m.last+1, m.now*1000, m.clock*1000)
	m.generation, m.base, m.based = m.last, 0, m.now
}

// lose begins a new epoch, with so many slots reserved.
func (m *modelRoom) lose(after, taken int64) {
	m.epoch, m.born = max(m.epoch, after)+1, 0
	m.healed = m.now + modelHealing
	m.base, m.based = taken, m.now+modelSession
	m.filling, m.bucket.tokens, m.bucket.filled = true, 0, m.healed
}

// finish is what every call ends with: the gate was heard from, and carries on
// from this answer.
func (m *modelRoom) finish(g *modelGate) {
	m.gates[g.name] = m.now
	g.now, g.epoch, g.holding, g.generation = m.now, m.epoch, m.holding(), m.generation
}

func (m *modelRoom) healing() bool { return m.now < m.healed }
func (m *modelRoom) people() int64 { return int64(len(m.waiting) + len(m.fresh)) }

func (m *modelRoom) reserved() int64 {
	if m.now >= m.based {
		return 0
	}
	return max(0, m.base-int64(len(m.leases)))
}

func (m *modelRoom) holding() (n int64) {
	for _, lease := range m.leases {
		if lease.ends > m.now {
			n++
		}
	}
	return n + m.reserved()
}

func (m *modelRoom) affordable() int64 {
	switch {
	case m.state != queue.Open || m.healing():
		return 0
	case m.limits.PerMinute == 0:
		return 1000
	}
	return m.bucket.tokens / token
}

func (m *modelRoom) aheadOf(place int64) (n int64) {
	for _, part := range []map[string]spot{m.waiting, m.fresh} {
		for _, s := range part {
			if s.place < place {
				n++
			}
		}
	}
	return n
}

// inOrder lists visitors by place. Two have the same one only where an older copy of
// Redis came back within the very millisecond; they stand by name then.
func inOrder(part map[string]spot) []string {
	return slices.SortedFunc(maps.Keys(part), func(a, b string) int {
		return cmp.Or(cmp.Compare(part[a].place, part[b].place), cmp.Compare(a, b))
	})
}

func (m *modelRoom) stepAside(part map[string]spot, visitor string) {
	m.away[visitor] = part[visitor]
	delete(part, visitor)
}

func (m *modelRoom) sweepFresh() {
	for _, visitor := range inOrder(m.fresh) {
		if m.fresh[visitor].due >= m.now {
			return
		}
		m.stepAside(m.fresh, visitor)
	}
}

func (m *modelRoom) dropLease(visitor string) {
	lease, held := m.leases[visitor]
	if !held {
		return
	}
	if m.now < m.based && lease.ends > m.healed-modelHealing {
		m.base = max(0, m.base-1)
	}
	delete(m.leases, visitor)
	delete(m.unproven, visitor)
}

func (m *modelRoom) leaveLine(visitor string) {
	delete(m.waiting, visitor)
	delete(m.fresh, visitor)
	delete(m.away, visitor)
}

func (m *modelRoom) end(visitor string, place int64, admission string, why queue.Why) modelEnd {
	m.dropLease(visitor)
	m.leaveLine(visitor)
	delete(m.lapses, visitor)
	m.last = max(m.last, place)
	m.endno = max(m.endno+1, m.now*1000)
	m.ends[visitor] = modelEnd{place, why, admission, m.endno}
	return m.ends[visitor]
}

func (m *modelRoom) endOf(visitor string, place int64) (modelEnd, bool) {
	end, ok := m.ends[visitor]
	return end, ok && end.place >= place
}

// giveBack gives the slot of an expired lease on.
func (m *modelRoom) giveBack(visitor string) {
	lease := m.leases[visitor]
	if lease.stage == queue.Ready {
		m.lapses[visitor]++
		if m.lapses[visitor] < modelLastLapse {
			m.dropLease(visitor)
			m.away[visitor] = spot{lease.place, lease.ends - 1}
			return
		}
	}
	m.end(visitor, lease.place, lease.admission, queue.Expired)
}

// spurned tells whether somebody who is away, and comes back with a ticket of that due,
// has not taken up the last pass that they may be told of.
func (m *modelRoom) spurned(visitor string, due int64) bool {
	at, away := m.away[visitor]
	if !away || at.due != due-1 || m.lapses[visitor] == 0 {
		return false
	}
	m.lapses[visitor] += modelTold - 1
	return m.lapses[visitor] >= modelLastLapse
}

// expired lists the leases past their end at a moment, the oldest first.
func (m *modelRoom) expired(at int64) []string {
	var list []string
	for visitor, lease := range m.leases {
		if lease.ends <= at {
			list = append(list, visitor)
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		if d := int(m.leases[a].ends - m.leases[b].ends); d != 0 {
			return d
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	return list
}

// couldHold tells whether n slots are free, expired leases counted as free.
func (m *modelRoom) couldHold(n int64) bool {
	free := m.limits.Slots - int64(len(m.leases)) - m.reserved()
	if m.limits.Slots == 0 || n <= free {
		return true
	}
	return !m.healing() && n <= free+int64(len(m.expired(m.now)))
}

// roomFor tells the same and gives on what the first of them needs.
func (m *modelRoom) roomFor(n int64) bool {
	free := func() int64 { return m.limits.Slots - int64(len(m.leases)) - m.reserved() }
	if !m.couldHold(n) || m.limits.Slots == 0 || free() > 0 {
		return m.couldHold(n)
	}
	expired := m.expired(m.now)
	for _, visitor := range expired[:min(int64(len(expired)), 1-free())] {
		m.giveBack(visitor)
	}
	return free() > 0
}

// grant admits; the bucket pays unless the operator does.
func (m *modelRoom) grant(visitor string, place int64, aside bool) {
	delete(m.waiting, visitor)
	m.leases[visitor] = modelLease{
		stage: queue.Ready, admission: fmt.Sprintf("%d.%d", place, m.now), place: place,
		started: m.now, ends: m.now + modelClaimWindow,
	}
	if m.now < m.based {
		m.base++
	}
	if m.limits.PerMinute > 0 && !aside {
		m.bucket.take(m.now)
	}
}

// admit walks the line from its front until it met `look` people who are here
// and could not be admitted.
func (m *modelRoom) admit(look int) { m.walk(look, m.affordable(), false) }

// letIn lets so many in by the operator's hand, and tells how many they were.
func (m *modelRoom) letIn(count int64) int64 {
	if m.healing() || count == 0 {
		return 0
	}
	return count - m.walk(0, count, true)
}

// walk admits at most budget and returns what is left of it.
func (m *modelRoom) walk(look int, budget int64, aside bool) int64 {
	kept := 0
	if look == 0 && (len(m.waiting) == 0 || budget == 0 || !m.couldHold(1)) {
		return budget
	}
	for _, visitor := range inOrder(m.waiting) {
		s := m.waiting[visitor]
		switch {
		case s.due < m.now:
			m.stepAside(m.waiting, visitor)
		case budget > 0 && m.roomFor(1):
			m.grant(visitor, s.place, aside)
			budget--
		default:
			if kept++; kept >= look {
				return budget
			}
		}
	}
	return budget
}

// holdOn decides about a lease past its end whose holder has come back.
func (m *modelRoom) holdOn(visitor string) bool {
	lease, held := m.held(visitor)
	if !held || lease.ends > m.now {
		return held
	}
	lease.ends = m.now + modelClaimWindow
	if lease.stage == queue.Active {
		lease.ends = min(m.now+modelSession, lease.started+modelSessionMax)
	}
	if len(m.waiting) > 0 && !m.healing() || lease.ends <= m.now { // m.leases keeps the end it had
		m.giveBack(visitor)
		return false
	}
	m.leases[visitor] = lease
	return true
}

func (m *modelRoom) standing(visitor string) modelAnswer {
	if lease, held := m.held(visitor); held {
		if lease.ends <= m.now {
			return modelAnswer{state: queue.Away, place: lease.place, ahead: m.aheadOf(lease.place), due: lease.ends - 1}
		}
		return modelAnswer{state: lease.stage, place: lease.place, lease: lease}
	}
	for _, part := range []map[string]spot{m.waiting, m.fresh, m.away} {
		if s, ok := part[visitor]; ok {
			answer := modelAnswer{state: queue.Away, place: s.place, ahead: m.aheadOf(s.place), due: s.due}
			if _, here := m.waiting[visitor]; here {
				answer.state = queue.Waiting
			}
			return answer
		}
	}
	return modelAnswer{}
}

func (m *modelRoom) join(visitor string, highest int64) modelAnswer {
	m.sweepFresh()
	m.holdOn(visitor)
	if answer := m.standing(visitor); answer.state != queue.Unknown {
		return answer
	}
	if end, ok := m.ends[visitor]; ok {
		m.last = max(m.last, end.place)
	}
	unproven := m.limits.Slots == 0 || int64(len(m.unproven)) < max(1, m.limits.Slots/4)
	waiters := int64(len(m.fresh))
	if len(m.waiting) == 0 && m.affordable() > waiters && unproven && m.roomFor(waiters+1) {
		m.last = max(m.last+1, m.now*1000, m.clock*1000, highest+1)
		m.grant(visitor, m.last, false)
		m.unproven[visitor] = true
		return m.standing(visitor)
	}
	if m.maxWaiting > 0 && m.people() >= m.maxWaiting {
		return modelAnswer{refusal: queue.Full}
	}
	m.last = max(m.last+1, m.now*1000, m.clock*1000, highest+1)
	m.fresh[visitor] = spot{m.last, m.now + modelDue}
	return m.standing(visitor)
}

func ended(end modelEnd) modelAnswer {
	return modelAnswer{state: queue.Ended, why: end.why, place: end.place}
}

func (m *modelRoom) touch(visitor string, place, due, epoch int64) modelAnswer {
	var over *modelEnd
	lease, held := m.leases[visitor]
	later := held && lease.place > place // nothing is told of a later stay
	if !later && m.holdOn(visitor) {
		delete(m.unproven, visitor)
	} else if end, ok := m.endOf(visitor, place); ok {
		over = &end
	} else if later {
		over = &modelEnd{place: place, why: queue.Expired}
	} else {
		at := m.standing(visitor)
		known := at.state != queue.Unknown
		late := due+modelWaitingTimeout < m.now
		if place < m.generation || known && at.place != place && (late || place < at.place && epoch >= m.epoch) || !known && late {
			over = &modelEnd{place: place, why: queue.Expired}
		} else if m.spurned(visitor, due) {
			end := m.end(visitor, max(place, at.place), "-", queue.Expired)
			over = &end
		} else {
			if at.state == queue.Unknown {
				at.place = place
			}
			m.leaveLine(visitor)
			m.waiting[visitor] = spot{min(place, at.place), m.now + modelDue}
			m.last = max(m.last, min(place, at.place))
		}
	}
	m.admit(0)
	if over != nil {
		return ended(*over)
	}
	return m.standing(visitor)
}

// restore brings back the lease of a token of a lost epoch.
func (m *modelRoom) restore(h queue.Holding) {
	if _, over := m.endOf(h.Visitor, h.Place); over || h.Epoch >= m.epoch || h.End <= m.now || h.Place < m.generation {
		return
	}
	stage := queue.Ready
	if h.Active {
		stage = queue.Active
	}
	if lease, held := m.held(h.Visitor); held {
		if lease.admission == h.Admission {
			if h.Active {
				lease.stage = stage
			}
			lease.ends = max(lease.ends, h.End)
			m.leases[h.Visitor] = lease
		}
		return
	}
	m.leaveLine(h.Visitor)
	m.leases[h.Visitor] = modelLease{stage: stage, admission: h.Admission, place: h.Place, started: m.now, ends: h.End}
	m.last = max(m.last, h.Place)
}

// held is the lease of a visitor, without an order lock that has run out.
func (m *modelRoom) held(visitor string) (modelLease, bool) {
	lease, held := m.leases[visitor]
	if lease.locked <= m.now {
		lease.order, lease.locked = "", 0
	}
	return lease, held
}

// lock gives the order lock to a request, or prolongs it.
func (m *modelRoom) lock(lease modelLease, order string, inFlight bool) modelLease {
	free := lease.order == "" && inFlight == m.healing()
	if order != "" && (lease.order == order || free) {
		lease.order = order
		lease.locked = min(m.now+modelHold, max(lease.ends, lease.started+modelSessionMax+modelMaxRequest))
		lease.ends = max(lease.ends, lease.locked)
	}
	return lease
}

// hold is what claim and renew have in common: the lease this very admission
// holds, or else what to tell.
func (m *modelRoom) hold(h queue.Holding, use func(lease modelLease) modelLease) modelAnswer {
	if _, held := m.leases[h.Visitor]; !held {
		m.restore(h)
	}
	if lease, held := m.held(h.Visitor); held && lease.admission == h.Admission {
		lease = use(lease)
		if lease.ends == 0 {
			return ended(m.end(h.Visitor, lease.place, lease.admission, queue.Expired))
		}
		m.leases[h.Visitor] = lease
		return m.standing(h.Visitor)
	}
	if end, over := m.endOf(h.Visitor, h.Place); over {
		return ended(end)
	}
	if _, another := m.leases[h.Visitor]; another {
		return modelAnswer{state: queue.Ended, why: queue.Expired, place: h.Place}
	}
	return m.standing(h.Visitor)
}

func (m *modelRoom) claim(h queue.Holding) modelAnswer {
	return m.hold(h, func(lease modelLease) modelLease {
		if lease.stage == queue.Active && lease.ends > m.now {
			return m.lock(lease, h.Order, false)
		}
		if lease.stage == queue.Ready {
			lease.stage, lease.started = queue.Active, m.now
		}
		lease.ends = min(max(lease.ends, m.now+modelSession), lease.started+modelSessionMax)
		if lease.ends <= m.now {
			lease.ends = 0 // over
			return lease
		}
		delete(m.unproven, h.Visitor)
		delete(m.lapses, h.Visitor)
		return m.lock(lease, h.Order, false)
	})
}

func (m *modelRoom) renew(h queue.Holding) modelAnswer {
	return m.hold(h, func(lease modelLease) modelLease {
		wanted := min(m.now+h.Flight.Milliseconds(), lease.started+modelSessionMax+modelMaxRequest)
		if h.Flight == 0 && lease.stage == queue.Active {
			wanted = min(m.now+modelSession, lease.started+modelSessionMax)
		}
		lease.ends = max(lease.ends, wanted)
		return m.lock(lease, h.Order, h.Flight > 0)
	})
}

// leave ends a stay, and the next person gets the slot.
func (m *modelRoom) leave(h queue.Holding, why queue.Why) modelAnswer {
	answer := m.over(h, why)
	m.admit(0)
	return answer
}

// over ends a stay: the pass of this admission, or without one whatever stands at
// that place or an earlier one. An order speaks for its pass unless another one
// has the lock, and one that failed gives its lock back and no more.
func (m *modelRoom) over(h queue.Holding, why queue.Why) modelAnswer {
	if h.Place > 0 && h.Place < m.generation {
		return modelAnswer{state: queue.Ended, why: queue.Expired, place: h.Place}
	}
	at := m.standing(h.Visitor)
	if _, held := m.leases[h.Visitor]; !held && h.Admission != "" {
		m.restore(h) // of a lost epoch: its slot counts until it is given back
	}
	lease, held := m.held(h.Visitor)
	if own := held && lease.admission == h.Admission; h.Order != "" {
		other := own && lease.order != "" && lease.order != h.Order
		if own && !other && why == queue.Failed {
			lease.order, lease.locked = "", 0
			m.leases[h.Visitor] = lease
		}
		if other || why == queue.Failed {
			return m.standing(h.Visitor)
		}
	}
	whole := h.Admission == "" && (h.Place == 0 || h.Place >= at.place)
	over, known := m.endOf(h.Visitor, h.Place)
	admission := h.Admission
	if admission == "" {
		admission = "-"
	}
	answer := at
	switch {
	case held && (whole || h.Admission == lease.admission):
		answer = ended(m.end(h.Visitor, max(lease.place, at.place), lease.admission, why))
	case known:
		answer = ended(over)
	case held || at.state != queue.Unknown && !whole && (h.Admission == "" || h.Epoch >= m.epoch):
	default:
		answer = ended(m.end(h.Visitor, max(h.Place, at.place), admission, why))
	}
	return answer
}

func (m *modelRoom) tick() {
	m.sweepFresh()
	if !m.healing() {
		for _, visitor := range m.expired(m.now - modelSession) {
			m.giveBack(visitor)
		}
	}
	m.admit(1 << 30)
	for visitor, s := range m.away {
		if !m.healing() && s.due < m.now-modelWaitingTimeout {
			delete(m.away, visitor)
			delete(m.lapses, visitor)
		}
	}
	for visitor, end := range m.ends {
		if end.number < (m.now-modelKeepEnds)*1000 {
			delete(m.ends, visitor)
		}
	}
	if m.now-m.pruned >= 60_000 {
		for gate, heard := range m.gates {
			if heard < m.now-modelWaitingTimeout {
				delete(m.gates, gate)
			}
		}
		m.pruned = m.now
	}
}

func (m *modelRoom) heal(ends []queue.RememberedEnd, leases []queue.Holding) {
	base := m.base
	for _, e := range ends {
		lease, at := m.leases[e.Visitor], m.standing(e.Visitor)
		if _, known := m.endOf(e.Visitor, e.Place); !known && lease.place <= e.Place && at.place <= e.Place {
			m.end(e.Visitor, e.Place, e.Admission, e.Why)
		}
		m.last = max(m.last, e.Place)
	}
	m.base = base
	for _, h := range leases {
		m.restore(h)
	}
}

func (m *modelRoom) configure(limits queue.Limits) {
	m.limits, m.state = limits, queue.Open
	m.bucket.rate, m.bucket.burst = limits.PerMinute, limits.Burst
	switch {
	case limits.PerMinute > 0 && !m.filling:
		m.filling, m.bucket.tokens, m.bucket.filled = true, limits.Burst*token, m.now
	case limits.PerMinute > 0:
		m.bucket.tokens = min(m.bucket.tokens, limits.Burst*token)
	}
}
