package proxy

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	pollsPerSecond = 10
	pollBurst      = 20
	// pollMemory is how long a visitor is remembered after a poll: in that time a
	// bucket fills up, and a full bucket is worth nothing to remember.
	pollMemory = pollBurst * time.Second / pollsPerSecond
	// pollMost bounds the visitors remembered; beyond it the oldest go first.
	pollMost = 1 << 17
	// defaultPoll is used where the line names no time.
	defaultPoll = 5 * time.Second
)

// pollGuard stops a visitor who polls without end, one of a room by one, and
// keeps the last answer for them. Two maps take turns, so that nothing ever has
// to look through them: whoever was silent for pollMemory is in neither.
type pollGuard struct {
	mu      sync.Mutex
	now     func() time.Time
	turned  time.Time
	current map[string]*poller
	before  map[string]*poller
}

// poller is the token bucket of one visitor. Its fields belong to the guard's
// mutex.
type poller struct {
	tokens float64
	at     time.Time
	last   *statusDoc
}

func newPollGuard(now func() time.Time) *pollGuard {
	return &pollGuard{now: now, turned: now(), current: map[string]*poller{}, before: map[string]*poller{}}
}

// allow takes one poll of the visitor and reports whether it is within the
// allowed rate. When it is not, last is the answer given before, nil when there
// was none.
func (g *pollGuard) allow(visitor string) (last *statusDoc, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, now := g.find(visitor)
	p.tokens = min(pollBurst, p.tokens+now.Sub(p.at).Seconds()*pollsPerSecond)
	p.at = now
	if p.tokens < 1 {
		return p.last, false
	}
	p.tokens--
	return nil, true
}

// remember keeps the answer that a visitor who polls too fast is given again.
func (g *pollGuard) remember(visitor string, d *statusDoc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, _ := g.find(visitor)
	p.last = d
}

// find returns the visitor's bucket, a full one for a stranger.
func (g *pollGuard) find(visitor string) (*poller, time.Time) {
	now := g.now()
	if now.Sub(g.turned) >= pollMemory || len(g.current) >= pollMost {
		if now.Sub(g.turned) >= 2*pollMemory {
			g.current = map[string]*poller{}
		}
		g.before, g.current, g.turned = g.current, map[string]*poller{}, now
	}
	p, ok := g.current[visitor]
	if !ok {
		if p, ok = g.before[visitor]; !ok {
			p = &poller{tokens: pollBurst, at: now}
		}
		g.current[visitor] = p
	}
	return p, now
}

// jitter spreads d by up to a fifth either way, so that people who came
// together do not ask together for ever.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		d = defaultPoll
	}
	return d - d/5 + rand.N(2*(d/5)+1)
}
