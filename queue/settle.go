package queue

import (
	"context"
	"sync"
)

// Settle carries out what the answer of the shop means for a pass: the order
// h.Order used it up (Consumed) or failed (Failed: its lock is free again), or the
// shop gave the pass back (Released, whatever order is under way).
//
// It never fails. What Redis does not take now, within Options.Timeout, Run
// repeats until Redis has answered; a Consumed or Released pass is worthless at
// this gate from now on. While another request has the order lock a Consumed pass
// waits for that one's end.
func (l *Line) Settle(ctx context.Context, h Holding, why Why) {
	if why != Failed {
		now, _ := l.Now()
		l.log.add(end{visitor: h.Visitor, place: h.Place, why: why, admission: h.Admission}, now)
	}
	e := ending{Holding: h, why: why}
	s, err := l.ends.ask(ctx, e)
	switch {
	case err == nil && !e.undecided(s):
		l.settled(e, s)
	case why != Failed || l.rest.size() < failedMost:
		l.rest.put(e)
	}
}

// failedMost bounds what is kept for later while orders fail: during an outage
// every order does, and a lock that nobody frees is gone after 15 s by itself.
const failedMost = 10_000

// settled keeps what Redis says of a pass that was settled.
func (l *Line) settled(e ending, s Standing) {
	s.Visitor = e.Visitor
	if s.State == Ended {
		l.log.add(end{visitor: e.Visitor, place: s.Place, why: s.Why, admission: e.Admission}, s.Room.Now)
	}
	l.told(s, -1)
}

// undecided tells whether another order has this pass at the shop, which comes
// first.
func (e ending) undecided(s Standing) bool {
	return e.why == Consumed && s.Lease.Admission == e.Admission && s.Lease.Order != "" && s.Lease.Order != e.Order
}

// unsettled is what Redis has still to be told.
type unsettled struct {
	mu   sync.Mutex
	list []ending
}

func (u *unsettled) put(list ...ending) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, list...)
}

func (u *unsettled) size() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.list)
}

func (u *unsettled) take() []ending {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.list
	u.list = nil
	return list
}

// settleRest tells Redis what it did not take before.
func (l *Line) settleRest(ctx context.Context) error {
	list := l.rest.take()
	for len(list) > 0 {
		page := list[:min(len(list), batchMost)]
		told, err := l.sendEndings(ctx, page)
		if err != nil {
			l.rest.put(list...)
			return err
		}
		for i, s := range told {
			if page[i].undecided(s) {
				l.rest.put(page[i])
				continue
			}
			l.settled(page[i], s)
		}
		list = list[len(page):]
	}
	return nil
}
