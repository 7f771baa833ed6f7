package proxy

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/queuegate/queuegate/proxy/page"
	"github.com/queuegate/queuegate/queue"
)

// JoinLimit bounds how many new places one client address is given by one gate.
// People who have a place or a pass are never counted.
type JoinLimit struct {
	// PerMinute is how many places at once and how many a minute after that; zero
	// means no limit.
	PerMinute int
	// IPv4Prefix and IPv6Prefix are how many leading bits of an address count as
	// one; zero means 32 and 64, a household's share.
	IPv4Prefix, IPv6Prefix int
}

func (l JoinLimit) withDefaults() JoinLimit {
	if l.IPv4Prefix == 0 {
		l.IPv4Prefix = 32
	}
	if l.IPv6Prefix == 0 {
		l.IPv6Prefix = 64
	}
	return l
}

func (l JoinLimit) validate() error {
	switch {
	case l.PerMinute < 0:
		return fmt.Errorf("proxy: JoinLimit.PerMinute is %d; use 0 for no limit", l.PerMinute)
	case l.IPv4Prefix < 1 || l.IPv4Prefix > 32 || l.IPv6Prefix < 1 || l.IPv6Prefix > 128:
		return fmt.Errorf("proxy: JoinLimit counts /%d and /%d as one address; use 1 to 32 and 1 to 128", l.IPv4Prefix, l.IPv6Prefix)
	}
	return nil
}

// errJoinLimit is why somebody got no place whose address had too many.
var errJoinLimit = errors.New("proxy: too many new places for one address")

const (
	joinSets = 1 << 13
	joinWays = 8 // addresses of one set: 65,536 in all, 1.5 MB
)

// joinGuard counts the new places of each address in a table of fixed size. An
// address whose places were all refilled needs no entry. In a full set whoever
// has used least makes room: then somebody gets a few places more, and nobody is
// refused for another's.
type joinGuard struct {
	limit JoinLimit
	every time.Duration // in which one place comes back
	now   func() time.Time
	began time.Time
	seed  maphash.Seed
	sets  []joinSet
}

type joinSet struct {
	mu   sync.Mutex
	ways [joinWays]joinCount
}

// joinCount is one address and the time, since the guard began, at which all its
// places will have come back.
type joinCount struct {
	address [16]byte
	full    time.Duration
}

// newJoinGuard returns nil when there is no limit.
func newJoinGuard(limit JoinLimit, now func() time.Time) *joinGuard {
	if limit.PerMinute == 0 {
		return nil
	}
	return &joinGuard{
		limit: limit, every: time.Minute / time.Duration(limit.PerMinute), now: now, began: now(),
		seed: maphash.MakeSeed(), sets: make([]joinSet, joinSets),
	}
}

// take takes one place of an address, or tells after which time there is one.
// An address that is not known (a Unix socket) has no bound.
func (g *joinGuard) take(client netip.Addr) (wait time.Duration) {
	if g == nil || !client.IsValid() {
		return 0
	}
	bits := g.limit.IPv6Prefix
	if client.Is4() {
		bits = g.limit.IPv4Prefix
	}
	prefix, err := client.Prefix(bits)
	if err != nil { // no address has fewer bits than its prefix
		return 0
	}
	address := prefix.Addr().As16()
	now := g.now().Sub(g.began)
	set := &g.sets[maphash.Bytes(g.seed, address[:])%joinSets]
	set.mu.Lock()
	defer set.mu.Unlock()
	entry := set.find(address)
	used := max(entry.full-now, 0)
	if allowed := g.every * time.Duration(g.limit.PerMinute-1); used > allowed {
		return used - allowed
	}
	*entry = joinCount{address: address, full: now + used + g.every}
	return 0
}

// find returns the entry of an address, or the one that makes room for it, as if
// nothing had been taken yet.
func (s *joinSet) find(address [16]byte) *joinCount {
	least := &s.ways[0]
	for i := range s.ways {
		if s.ways[i].address == address {
			return &s.ways[i]
		}
		if s.ways[i].full < least.full {
			least = &s.ways[i]
		}
	}
	*least = joinCount{address: address}
	return least
}

// join asks for a place for visitor. Somebody who brings the ticket or the pass
// of that very visitor asks for no new one; anybody else is counted, before Redis
// is asked.
func (x *exchange) join(visitor string) (queue.Standing, error) {
	if !x.proves(visitor) {
		if x.joinWait = x.g.joins.take(x.client); x.joinWait > 0 {
			return queue.Standing{}, errJoinLimit
		}
	}
	arrival := queue.Arrival{Visitor: visitor, Highest: x.highest()}
	st, err := x.ask(func(ctx context.Context, l Line) (queue.Standing, error) { return l.Join(ctx, arrival) })
	x.record.joined, x.record.denied = true, st.Refusal
	return st, err
}

// proves reports whether the request brings the ticket or the pass of visitor.
func (x *exchange) proves(visitor string) bool {
	return x.ticket != nil && x.ticket.Visitor == visitor || x.shown != nil && x.shown.pass.Visitor == visitor
}

// crowded answers 429: the address of this request has been given as many places
// as it may have at the moment.
func (x *exchange) crowded() {
	x.decide(Refused, ReasonJoinLimit)
	wait := jitter(max(x.joinWait, defaultPoll))
	retryAfter(x.w.Header(), wait)
	if x.caller == navigation {
		x.page(http.StatusTooManyRequests, page.View{State: page.Crowded, Poll: wait})
		return
	}
	p := newProblem(http.StatusTooManyRequests, "join-limit", "Many new places were given to your network. Who has one keeps it; for a new one try again after the time in Retry-After.")
	p.Room = x.room.Name
	x.problem(p)
}
