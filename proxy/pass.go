package proxy

import (
	"context"
	"time"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// held is an entry token whose signature and room are right.
type held struct {
	raw  string
	pass token.Pass
}

// worth is what a pass is worth at this moment, the more the greater.
type worth int

const (
	worthless worth = iota // its stay has ended, or the room was reset since
	past                   // its lease has ended, as far as we know
	unused                 // ready: admitted, not taken up
	running                // active
)

// expiryMargin is how long before the end of the lease a token ends for those
// who have no room time, at most; a tenth of the lease when that is less.
const expiryMargin = 5 * time.Second

// byPass is step 4: it deals with a request that brings a pass and reports
// whether it did. If not, the request goes to the line.
func (x *exchange) byPass() bool {
	h, value := x.bestPass()
	if value == worthless {
		return false
	}
	x.shown = &h
	if x.strictlyAway(h) {
		x.decide(Refused, ReasonStrict)
		x.cannotSay()
		return true
	}
	if x.consumes {
		return x.takeOrder(h, orderReason(value))
	}
	switch {
	case x.caller == passive && value == past:
		return false
	case x.caller == passive && value == unused:
		return x.enter(h, ReasonReadyPass)
	case value == past:
		return x.takeUp(h, value, ReasonExchanged)
	case value == unused:
		return x.takeUp(h, value, ReasonClaimed)
	case x.ofLostEpoch(h.pass.Epoch):
		return x.restored(h)
	case x.renewalDue(h.pass):
		return x.renew(h)
	default:
		return x.enter(h, ReasonPass)
	}
}

// orderReason is what the log says of an order by a pass of this worth.
func orderReason(value worth) Reason {
	switch value {
	case past:
		return ReasonExchanged
	case unused:
		return ReasonClaimed
	default:
		return ReasonPass
	}
}

// strictlyAway reports whether the room is strict and Redis does not answer.
// While the last call got no answer it asks again, so that nobody is refused for
// one that was lost.
func (x *exchange) strictlyAway(h held) bool {
	if x.room.OnRedisError != OnRedisErrorStrict || x.room.Line.Up() {
		return false
	}
	_, err := x.ask(func(ctx context.Context, l Line) (queue.Standing, error) { return l.Renew(ctx, holding(h.pass)) })
	return err != nil
}

// takeUp claims an admission, or exchanges a token past its end whose admission
// still holds a lease. It reports false when the pass is worth nothing.
func (x *exchange) takeUp(h held, value worth, reason Reason) bool {
	st, err := x.claim(h)
	switch {
	case err != nil && value == unused && x.room.OnRedisError != OnRedisErrorStrict:
		return x.enter(h, ReasonReadyPass) // until its own end; claimed when Redis is back before that
	case err != nil || !holds(st, h):
		return false
	}
	return x.enterWith(st, token.Active, reason)
}

// renew extends the lease of an active pass. Redis away: the pass is good until
// its end.
func (x *exchange) renew(h held) bool {
	st, err := x.ask(func(ctx context.Context, l Line) (queue.Standing, error) { return l.Renew(ctx, holding(h.pass)) })
	switch {
	case err != nil && x.room.OnRedisError != OnRedisErrorStrict:
		return x.enter(h, ReasonPass)
	case err != nil || !holds(st, h):
		return false
	}
	return x.enterWith(st, token.Active, ReasonRenewed)
}

// claim takes up the admission of a pass, or exchanges one past its end.
func (x *exchange) claim(h held) (queue.Standing, error) {
	return x.ask(func(ctx context.Context, l Line) (queue.Standing, error) { return l.Claim(ctx, holding(h.pass)) })
}

// holds reports whether a standing is that of the pass: no other admission of its
// visitor is ever handed to who shows this one.
func holds(st queue.Standing, h held) bool {
	return st.State == queue.Active && st.Lease.Admission == h.pass.Admission
}

// enterWith signs the pass of st, hands it out and lets the request through. A
// pass that cannot be signed is a fault of ours, and the request is refused. Like
// enter it reports false for an order whose pass is worth nothing.
func (x *exchange) enterWith(st queue.Standing, stage token.Stage, reason Reason) bool {
	h, err := x.sign(st, stage)
	if err != nil {
		x.cannotSign(err)
		x.decide(Refused, ReasonInternal)
		x.cannotSay()
		return true
	}
	x.give(h)
	if reason == ReasonClaimed || reason == ReasonTurn {
		x.tookUp(st)
	}
	return x.enter(h, reason)
}

// enter lets the request through to the shop by the pass h. It reports false for
// an order whose pass turns out to be worth nothing.
func (x *exchange) enter(h held, reason Reason) bool {
	if x.consumes {
		return x.takeOrder(h, reason)
	}
	if x.admitted = x.shown; x.shown == nil || x.shown.raw != h.raw {
		kept := h // else every request would allocate it twice
		x.admitted = &kept
	}
	x.record.visitor = h.pass.Visitor
	x.toShop(reason)
	return true
}

// cannotSign logs a fault of ours.
func (x *exchange) cannotSign(err error) {
	x.g.log.ErrorContext(x.r.Context(), "a pass could not be signed", "request_id", x.record.id, "room", x.room.Name, "error", err)
}

// sign makes the entry token of a standing that holds a lease.
func (x *visit) sign(st queue.Standing, stage token.Stage) (held, error) {
	life := st.Lease.Until.Sub(st.Room.Clock)
	place := st.Lease.Place
	if place == 0 {
		place = st.Place
	}
	p := token.Pass{
		Room: x.room.Name, Admission: st.Lease.Admission, Visitor: st.Visitor, Stage: stage,
		Place: place, Generation: st.Room.Generation, Epoch: st.Room.Epoch,
		End: st.Lease.End, IssuedAt: st.Room.Clock, Expires: st.Lease.Until.Add(-min(expiryMargin, life/10)),
	}
	raw, err := x.g.passes.Sign(p)
	if err != nil {
		return held{}, err
	}
	return held{raw: raw, pass: p}, nil
}

// bestPass returns the most valuable pass of this room that the request brings.
// Several cookies of one name are all tried, so that a bad twin locks nobody
// out; several header values that differ are nobody's.
func (x *exchange) bestPass() (held, worth) {
	named, ok := single(x.r.Header[headerEntryToken])
	if !ok {
		return held{}, worthless
	}
	var best held
	value := worthless
	var few [4]string
	for _, raw := range x.room.baker.read(append(few[:0], named...), x.r, entryCookie) {
		p, err := x.g.verified.Verify(raw, x.room.Name)
		if err != nil {
			x.record.rejected = rejection(err)
			continue
		}
		if why, ended := x.room.Line.Ended(p.Visitor, p.Place); ended {
			x.record.rejected = RejectedEnded
			if why == queue.Consumed {
				x.used = p.Visitor
			}
			continue
		}
		switch v := x.g.valueUnended(x.room, p); {
		case v > value:
			best, value = held{raw: raw, pass: p}, v
		case v == worthless:
			x.record.rejected = RejectedReset
		}
	}
	return best, value
}

// overByPass tells how the stay ended that a pass of this request belongs to;
// over is false when none does whose end is known here.
func (x *exchange) overByPass() (st queue.Standing, over bool) {
	for _, raw := range x.room.baker.read(nil, x.r, entryCookie) {
		p, err := x.g.passes.Verify(raw, x.room.Name)
		if err != nil {
			continue
		}
		if why, ended := x.room.Line.Ended(p.Visitor, p.Place); ended {
			st = queue.Standing{Visitor: p.Visitor, State: queue.Ended, Why: why}
			st.Room, _ = x.room.Line.Room()
			return st, true
		}
	}
	return st, false
}

// single returns the one value of a header that may stand there only once; ok
// is false when there are different ones, which two readers would choose from
// differently.
func single(values []string) (one []string, ok bool) {
	for _, v := range values {
		if v != values[0] {
			return nil, false
		}
	}
	if len(values) == 0 || values[0] == "" {
		return nil, true
	}
	return values[:1:1], true
}

// valueOf judges a well signed pass from what is known here, without Redis.
func (g *Gate) valueOf(rm *room, p token.Pass) worth {
	if _, ended := rm.Line.Ended(p.Visitor, p.Place); ended {
		return worthless
	}
	return g.valueUnended(rm, p)
}

// valueUnended judges a well signed pass whose stay is not known to have ended.
func (g *Gate) valueUnended(rm *room, p token.Pass) worth {
	if known, ok := rm.Line.Room(); ok && p.Generation < known.Generation {
		return worthless
	}
	over := !p.Expires.After(g.now()) || p.End <= rm.reached.Load()
	if now, ok := rm.Line.Now(); ok {
		over = p.End <= now
	}
	switch {
	case over:
		return past
	case p.Stage == token.Active:
		return running
	default:
		return unused
	}
}

// renewalDue reports whether more than a quarter of the session has passed since
// the pass was signed.
func (x *exchange) renewalDue(p token.Pass) bool {
	if x.room.settings().DisableRenewal {
		return false
	}
	clock := x.g.now()
	if known, ok := x.room.Line.Room(); ok { // Redis TIME by now, as far as room time tells
		if now, ok := x.room.Line.Now(); ok {
			clock = known.Clock.Add(time.Duration(now-known.Now) * time.Millisecond)
		}
	}
	return clock.Sub(p.IssuedAt) > x.room.settings().Session/4
}

// lease is how long a pass still runs.
func (x *exchange) lease(p token.Pass) time.Duration {
	if now, ok := x.room.Line.Now(); ok {
		return max(time.Duration(p.End-now)*time.Millisecond, 0)
	}
	return max(p.Expires.Sub(x.g.now()), 0)
}

// holding is what the line is told of a pass.
func holding(p token.Pass) queue.Holding {
	return queue.Holding{
		Visitor: p.Visitor, Admission: p.Admission, Place: p.Place, Generation: p.Generation, Epoch: p.Epoch,
		Active: p.Stage == token.Active, End: p.End,
	}
}
