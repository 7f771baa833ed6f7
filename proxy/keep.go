package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/token"
)

const (
	// flightLease is how far ahead of now a request in flight keeps its slot; it is
	// renewed after half of it.
	flightLease = 30 * time.Second
	// streamGlance is how often a stream looks whether its pass has ended.
	streamGlance = 500 * time.Millisecond
	// streamProbe is the least a lease can be renewed by. It is asked for to learn
	// the lease's end, which other requests of the visitor may have moved.
	streamProbe = time.Millisecond
)

// keeper keeps the slot of one admitted request while it is at the shop: also
// past the session's maximum and with renewal off, but never after the pass was
// given back or while the gate does not reach Redis. A stream is not work in
// flight: its slot lasts as long as its client says something, and it ends with
// its pass.
type keeper struct {
	trip  *trip
	mu    sync.Mutex
	timer *time.Timer // nil once the request is over
	// stream is set when the answer became one, spoke when its client has said
	// something since the last renewal.
	stream, spoke atomic.Bool
	// order is set while the request has the order lock of the pass.
	order atomic.Bool

	looking sync.Mutex // guards what follows
	pass    token.Pass // with the end of its lease as last heard
	renewed time.Time  // when the stream renewed it last
}

// keep begins to keep the slot of the pass of t's request, and its order lock when the
// request has it.
func (k *keeper) keep(t *trip) {
	x := t.x
	k.trip, k.renewed = t, x.g.now()
	if x.admitted == nil {
		return
	}
	k.pass = x.admitted.pass
	k.order.Store(x.order)
	// Not before half of what is left has passed: most requests are over by then.
	left := x.lease(k.pass)
	first := max(left/2, left-flightLease/2)
	if x.order {
		first = min(first, orderRenewal)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(first, k.look)
}

// decided tells that the shop's answer is there: from now on the slot is kept and
// no lock. A renewal under way cannot take the lock again (lua/slots.lua).
func (k *keeper) decided() { k.order.Store(false) }

// stop ends the keeping. Stopping twice is harmless.
func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
}

// look extends the lease, or ends the stream whose pass is over, and sets the
// timer again.
func (k *keeper) look() {
	k.looking.Lock()
	defer k.looking.Unlock()
	next := flightLease / 2
	switch {
	case k.stream.Load():
		if !k.passLasts() {
			k.trip.giveUp(errPassEnded)
			return
		}
		next = min(streamGlance, k.trip.x.room.settings().Session/4)
	case k.renew(flightLease) != nil:
		next = time.Second // Redis away: soon again
	case k.order.Load():
		next = orderRenewal
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Reset(next)
	}
}

// passLasts reports whether the pass of a stream is still good, as any other
// request would find it. It renews the pass when the client has said something,
// as often as a client of ordinary requests has it renewed.
func (k *keeper) passLasts() bool {
	in, value := k.trip.x.room.settings(), k.trip.x.g.valueOf(k.trip.x.room, k.pass)
	switch {
	case value == worthless:
		return false
	case value == past:
		return k.renew(streamProbe) == nil && k.pass.End > 0
	case !in.DisableRenewal && k.trip.x.g.now().Sub(k.renewed) >= in.Session/4 && k.spoke.Swap(false):
		if k.renew(0) != nil {
			k.spoke.Store(true) // Redis away: good until its end, and again soon
			return true
		}
		k.renewed = k.trip.x.g.now()
		return k.pass.End > 0
	default:
		return true
	}
}

// renew extends the lease by what a request in flight needs, or for 0 by a
// session, and notes its end: 0 when this admission holds none any more.
func (k *keeper) renew(flight time.Duration) error {
	h := holding(k.pass)
	h.Flight = flight
	if k.order.Load() {
		h.Order = k.trip.x.record.id
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.trip.x.r.Context()), k.trip.x.g.redisTimeout)
	defer cancel()
	st, err := k.trip.x.room.Line.Renew(ctx, h)
	switch {
	case err != nil:
		return err
	case st.Lease.Admission != k.pass.Admission, flight == streamProbe && st.Lease.End-st.Room.Now <= streamProbe.Milliseconds():
		k.pass.End = 0
	default:
		k.pass.End, k.pass.Expires = st.Lease.End, st.Lease.Until
	}
	return nil
}

// becameStream tells that the shop answered with a stream: from now on only what
// the client says keeps the slot.
func (k *keeper) becameStream() {
	k.stream.Store(true)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Reset(min(streamGlance, k.trip.x.room.settings().Session/4))
	}
}

// restored registers the lease of a running pass whose epoch's history Redis has
// lost, and lets the request through. Redis away: the pass is good until its end.
func (x *exchange) restored(h held) bool {
	st, err := x.claim(h)
	switch {
	case err != nil && x.room.OnRedisError != OnRedisErrorStrict:
		return x.enter(h, ReasonPass)
	case err != nil || !holds(st, h):
		return false
	}
	return x.enterWith(st, token.Active, ReasonRestored)
}

// ofLostEpoch reports whether Redis has lost its history since the pass was
// signed.
func (x *exchange) ofLostEpoch(epoch int64) bool {
	known, ok := x.room.Line.Room()
	return ok && epoch < known.Epoch
}
