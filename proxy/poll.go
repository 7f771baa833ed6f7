package proxy

import (
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	pollsPerSecond = 10
	pollBurst      = 20
	// pollEvery is the time in which one poll comes back, pollMemory that in which all
	// of them do.
	pollEvery  = time.Second / pollsPerSecond
	pollMemory = pollBurst * pollEvery
	// pollHurried is below how many polls left answers are remembered. Whoever comes from
	// above it has had several before one is refused, so that the crowd, which polls as it
	// is told, costs neither a copy nor its memory.
	pollHurried = pollBurst / 2
	// pollSets and pollWays bound those whose polls are counted, 49,152 of a room in 1 MB.
	// Nobody needs an entry for longer than pollMemory, and who polls as told for 0.1 s.
	pollSets = 1 << 14
	pollWays = 3
	// pollAnswers bounds the answers remembered; beyond it the oldest go first.
	pollAnswers = 1 << 14
	// defaultPoll is used where the line names no time; see room.askAgain.
	defaultPoll = 5 * time.Second
	// soonestPoll is the least that the line asks for as well.
	soonestPoll = 200 * time.Millisecond
)

// pollKey is whose polls are counted together: the visitor of the ticket, the
// person and the holder of the pass that a request proves, "" for what it does
// not. All of them, for a ticket may be in more hands than one, and an answer
// about a person or pass must not go to somebody who shows the ticket alone.
type pollKey struct {
	ticket, person, pass string
}

// pollGuard stops a visitor who polls without end, one of a room by one, and
// keeps the last answer for them. The counts are in a table of fixed size: a poll of the
// crowd touches one line of it, where two maps that took turns were two look-ups in cold
// memory. In a full set whoever has used least makes room, and has a few polls more.
type pollGuard struct {
	now   func() time.Time
	began time.Time
	seed  maphash.Seed
	sets  []pollSet
	told  pollAnswersKept
}

// pollSet is as long as a line of the processor's cache.
type pollSet struct {
	mu   sync.Mutex
	ways [pollWays]pollCount
	_    [8]byte
}

// pollCount is one key, by its hash, and the time since the guard began at which all
// its polls will have come back.
type pollCount struct {
	key  uint64
	full time.Duration
}

// pollAnswersKept are the last answers of those in a hurry, of each key its own. Two maps
// take turns, so that nothing ever has to look through them: whoever was silent for
// pollMemory is in neither.
type pollAnswersKept struct {
	mu              sync.Mutex
	turned          time.Duration
	current, before map[pollKey]*statusDoc
}

func newPollGuard(now func() time.Time) *pollGuard {
	return &pollGuard{now: now, began: now(), seed: maphash.MakeSeed(), sets: make([]pollSet, pollSets)}
}

// allow takes one poll of who and reports whether it is within the allowed rate. When
// it is not, last is the answer remembered, nil when there is none. hurried is set for
// those who may soon be told to wait: their answers are to be remembered.
func (g *pollGuard) allow(who pollKey) (last *statusDoc, hurried, ok bool) {
	now := g.now().Sub(g.began)
	left := g.take(maphash.Comparable(g.seed, who), now)
	if left < 0 {
		return g.told.of(who, now), true, false
	}
	return nil, left < pollHurried*pollEvery, true
}

// take takes one poll of a key and tells what is left, as the time in which as much comes
// back; it is negative when there was none.
func (g *pollGuard) take(key uint64, now time.Duration) (left time.Duration) {
	set := &g.sets[key%pollSets]
	set.mu.Lock()
	defer set.mu.Unlock()
	at := &set.ways[0]
	for i := range set.ways {
		c := &set.ways[i]
		if c.key == key {
			at = c
			break
		}
		if c.full < at.full {
			at = c
		}
	}
	full := now
	if at.key == key {
		full = max(full, at.full)
	}
	if left = pollMemory - (full + pollEvery - now); left >= 0 {
		at.key, at.full = key, full+pollEvery
	}
	return left
}

// remember keeps the answer that is given again to who polls too fast: all of it
// but the ticket and the entry token. Whoever is owed those has them, or gets them
// with the next answer that is not hurried.
func (g *pollGuard) remember(who pollKey, d statusDoc) {
	d.Ticket, d.EntryToken = "", ""
	g.told.keep(who, &d, g.now().Sub(g.began))
}

func (k *pollAnswersKept) of(who pollKey, now time.Duration) *statusDoc {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn(now)
	if d := k.current[who]; d != nil {
		return d
	}
	d := k.before[who]
	if d != nil { // as long as they hurry
		k.current[who] = d
	}
	return d
}

func (k *pollAnswersKept) keep(who pollKey, d *statusDoc, now time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.turn(now)
	k.current[who] = d
}

// turn drops the elder map when it is time.
func (k *pollAnswersKept) turn(now time.Duration) {
	if k.current != nil && now-k.turned < pollMemory && len(k.current) < pollAnswers {
		return
	}
	if now-k.turned >= 2*pollMemory {
		k.current = nil
	}
	k.before, k.current, k.turned = k.current, make(map[pollKey]*statusDoc), now
}

// asking is whose polls are counted together. Those of somebody who shows neither
// ticket nor name are not.
func (x *exchange) asking() (who pollKey, counted bool) {
	who.person = x.person
	if x.ticket != nil {
		who.ticket = x.ticket.Visitor
	}
	if who == (pollKey{}) {
		return who, false
	}
	if x.shown != nil {
		who.pass = x.shown.pass.Visitor
	}
	return who, true
}

// tooFast answers 429 to a visitor who asks more than ten times a second. The
// answer is the last one given, without ticket and entry token.
func (x *exchange) tooFast() bool {
	who, counted := x.asking()
	if !counted {
		return false
	}
	last, hurried, ok := x.room.polls.allow(who)
	x.hurried = hurried
	if ok {
		return false
	}
	x.record.decision.Reason = ReasonTooFast
	d := statusDoc{Room: x.room.Name, Status: statusWaiting, RoomState: stateDegraded}
	if last != nil {
		d = *last
	}
	d.askAgain(x.room.askAgain())
	retryAfter(x.w.Header(), d.poll)
	x.document(http.StatusTooManyRequests, d)
	return true
}

// askAgain is when somebody asks again whom the line could not tell it. The turn may
// come the moment after: whoever keeps to this hears of it before the pass is over,
// and of the place before it is given up.
func (r *room) askAgain() time.Duration {
	return max(soonestPoll, min(defaultPoll, r.ClaimWindow/3, r.WaitingTimeout/3))
}

// jitter spreads d by up to a fifth either way, so that people who came
// together do not ask together for ever.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		d = defaultPoll
	}
	return d - d/5 + rand.N(2*(d/5)+1)
}
