package proxy

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	pollsPerSecond = 10
	pollBurst      = 20
	// pollMemory is how long a visitor is remembered after a poll: in that time a
	// bucket fills up, and a full bucket is worth nothing to remember.
	pollMemory = pollBurst * time.Second / pollsPerSecond
	// pollHurried is below how many polls left in the bucket answers are remembered.
	// Whoever comes from above it has had several before one is refused, so that the
	// crowd, which polls as it is told, costs neither a copy nor its memory.
	pollHurried = pollBurst / 2
	// pollMost bounds the visitors remembered; beyond it the oldest go first.
	pollMost = 1 << 17
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
// keeps the last answer for them. Two maps take turns, so that nothing ever has
// to look through them: whoever was silent for pollMemory is in neither.
type pollGuard struct {
	mu      sync.Mutex
	now     func() time.Time
	turned  time.Time
	current map[pollKey]poller
	before  map[pollKey]poller
}

// poller is the token bucket of one key. Its fields belong to the guard's
// mutex.
type poller struct {
	tokens float64
	at     time.Time
	last   *statusDoc
}

func newPollGuard(now func() time.Time) *pollGuard {
	return &pollGuard{now: now, turned: now(), current: map[pollKey]poller{}, before: map[pollKey]poller{}}
}

// allow takes one poll of who and reports whether it is within the allowed rate. When
// it is not, last is the answer remembered, nil when there is none. hurried is set for
// those who may soon be told to wait: their answers are to be remembered.
func (g *pollGuard) allow(who pollKey) (last *statusDoc, hurried, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, now := g.find(who)
	p.tokens = min(pollBurst, p.tokens+now.Sub(p.at).Seconds()*pollsPerSecond)
	p.at = now
	if ok = p.tokens >= 1; ok {
		p.tokens--
	}
	g.current[who] = p
	return p.last, p.tokens < pollHurried, ok
}

// remember keeps the answer that is given again to who polls too fast: all of it
// but the ticket and the entry token. Whoever is owed those has them, or gets them
// with the next answer that is not hurried.
func (g *pollGuard) remember(who pollKey, d statusDoc) {
	d.Ticket, d.EntryToken = "", ""
	g.mu.Lock()
	defer g.mu.Unlock()
	p, _ := g.find(who)
	p.last = &d
	g.current[who] = p
}

// find returns the bucket of who, a full one for a stranger.
func (g *pollGuard) find(who pollKey) (poller, time.Time) {
	now := g.now()
	if now.Sub(g.turned) >= pollMemory || len(g.current) >= pollMost {
		if now.Sub(g.turned) >= 2*pollMemory {
			g.current = nil
		}
		// As many as before will ask again: a map that grows costs twice as much.
		g.before, g.current, g.turned = g.current, make(map[pollKey]poller, len(g.current)), now
	}
	if p, ok := g.current[who]; ok {
		return p, now
	}
	if p, ok := g.before[who]; ok {
		return p, now
	}
	return poller{tokens: pollBurst, at: now}, now
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
