package queue

import (
	"context"
	"maps"
	"sync"
)

func stage(active bool) string {
	if active {
		return string(Active)
	}
	return string(Ready)
}

// showPass adds what a pass shows. One that ended waiting_timeout ago proves no
// loss, and neither does a ticket that is given up; see showTicket.
func (l *Line) showPass(show *shown, h Holding) {
	show.prove(h.Place, l.stillProves(h.Epoch, h.End), 0)
	show.generation = max(show.generation, h.Generation)
}

// sendClaims runs claim for many passes.
func (l *Line) sendClaims(ctx context.Context, asked []Holding) ([]Standing, error) {
	args := make([]any, 0, 7*len(asked))
	var show shown
	for _, h := range asked {
		args = append(args, h.Visitor, h.Admission, h.Place, stage(h.Active), h.End, h.Epoch, h.Order)
		l.showPass(&show, h)
	}
	r, err := l.run(ctx, l.scripts.claim, show, args...)
	if err != nil {
		return nil, err
	}
	return l.standings(r, len(asked))
}

// sendRenewals runs renew for many passes.
func (l *Line) sendRenewals(ctx context.Context, asked []Holding) ([]Standing, error) {
	args := make([]any, 0, 8*len(asked))
	var show shown
	for _, h := range asked {
		args = append(args, h.Visitor, h.Admission, h.Place, stage(h.Active), h.End, h.Epoch, h.Flight.Milliseconds(), h.Order)
		l.showPass(&show, h)
	}
	r, err := l.run(ctx, l.scripts.renew, show, args...)
	if err != nil {
		return nil, err
	}
	return l.standings(r, len(asked))
}

func (l *Line) sendEndings(ctx context.Context, asked []ending) ([]Standing, error) {
	args := make([]any, 0, 8*len(asked))
	var show shown
	for _, e := range asked {
		args = append(args, e.Visitor, e.Admission, e.Place, string(e.why), stage(e.Active), e.End, e.Epoch, e.Order)
		l.showPass(&show, e.Holding)
	}
	r, err := l.run(ctx, l.scripts.finish, show, args...)
	if err != nil {
		return nil, err
	}
	return l.standings(r, len(asked))
}

// holders are the leases this gate has seen in Redis's answers, so that it can
// write them back when Redis lost them.
type holders struct {
	mu      sync.Mutex
	byID    map[string]Holding
	pruneAt int
}

// see keeps a lease, or forgets the visitor's when the standing shows none.
func (h *holders) see(s Standing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.State != Ready && s.State != Active {
		if held := h.byID[s.Visitor]; s.State != Ended || held.Place <= s.Place { // not of an earlier stay
			delete(h.byID, s.Visitor)
		}
		return
	}
	if h.byID == nil {
		h.byID = make(map[string]Holding)
	}
	h.byID[s.Visitor] = Holding{
		Visitor: s.Visitor, Admission: s.Lease.Admission, Place: s.Lease.Place, Generation: s.Room.Generation,
		Epoch: s.Room.Epoch, Active: s.State == Active, End: s.Lease.End,
	}
	// Leases run out without a word; the map is pruned when it has doubled.
	if len(h.byID) < max(1024, h.pruneAt) {
		return
	}
	for visitor, held := range h.byID {
		if held.End < s.Room.Now {
			delete(h.byID, visitor)
		}
	}
	h.pruneAt = 2 * len(h.byID)
}

// void forgets the leases of before a reset.
func (h *holders) void(generation int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.byID, func(_ string, held Holding) bool { return held.Place < generation })
}

// all lists the leases that last beyond the given room time.
func (h *holders) all(now int64) []Holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]Holding, 0, len(h.byID))
	for _, held := range h.byID {
		if held.End > now {
			list = append(list, held)
		}
	}
	return list
}
