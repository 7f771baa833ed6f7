package proxy

import (
	"context"
	"errors"
	"net/http"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// byLine is step 5: it asks the line and lets the request through or answers it.
func (x *exchange) byLine() {
	if x.caller == passive {
		x.decide(Queued, ReasonNoPlace)
		x.noPlace()
		return
	}
	x.readTicket()
	if x.usedUp() {
		return
	}
	// No page can read the answer to a handshake: a place would be lost at once.
	st, joined, err := x.stand(x.caller != socket)
	x.record.visitor = st.Visitor
	entered := true
	switch {
	case errors.Is(err, errJoinLimit):
		x.crowded()
	case err != nil && x.room.OnRedisError == OnRedisErrorOpen:
		x.toShop(ReasonFailOpen)
	case err != nil:
		x.unanswered()
	case st.State == queue.Active:
		entered = x.enterWith(st, token.Active, ReasonTurn)
	case st.State == queue.Ready && joined:
		x.giveTicket(x.ticketFor(st)) // the place is theirs when the pass is not taken up
		entered = x.enterWith(st, token.Ready, ReasonAdmitted)
	case st.State == queue.Ready:
		entered = x.enterInTurn(st)
	default:
		x.decide(Queued, queuedReason(st, joined))
		x.queued(st)
	}
	if !entered { // the pass of a moment ago is gone: another request gave it back
		x.decide(Refused, ReasonNoPlace)
		x.cannotSay()
	}
}

// enterInTurn takes up the admission that a sign of life has brought, and lets
// the request through.
func (x *exchange) enterInTurn(ready queue.Standing) bool {
	h, err := x.sign(ready, token.Ready)
	if err != nil {
		x.cannotSign(err)
		x.decide(Refused, ReasonInternal)
		x.cannotSay()
		return true
	}
	if x.consumes {
		x.give(h)
		return x.takeOrder(h, ReasonTurn)
	}
	st, err := x.claim(h)
	switch {
	case err != nil && x.room.OnRedisError == OnRedisErrorStrict:
		x.unanswered()
	case err != nil: // admitted a moment ago; the next request claims it
		x.give(h)
		return x.enter(h, ReasonReadyPass)
	case holds(st, h):
		return x.enterWith(st, token.Active, ReasonTurn)
	default:
		x.decide(Queued, queuedReason(st, false))
		x.queued(st)
	}
	return true
}

// stand asks the line where the visitor of this request stands. Who has no
// place, or whose stay has ended, gets one when join is set; joined tells that.
func (x *exchange) stand(join bool) (st queue.Standing, joined bool, err error) {
	if join && x.barred() {
		st = queue.Standing{Visitor: x.used, State: queue.Ended, Why: queue.Consumed}
		st.Room, _ = x.room.Line.Room()
		return st, false, nil
	}
	if x.person != "" {
		return x.standAsPerson(join)
	}
	if sign, ok := x.signOfLife(); ok {
		if x.ended {
			st = queue.Standing{Visitor: sign.Visitor, State: queue.Ended, Why: x.why}
			st.Room, _ = x.room.Line.Room()
		} else if st, err = x.touch(sign); err != nil {
			return st, false, err
		}
	} else if h, ok := x.pastPass(); ok {
		if st, err = x.redeem(h); err != nil {
			return st, false, err
		}
	}
	if !join || inside(st) {
		return st, false, nil
	}
	// Never the visitor of a stay that is over: whoever still has its ticket or pass
	// would share the new one.
	st, err = x.join(x.newcomer())
	return st, true, err
}

// touch gives a sign of life. Most polls of a crowd are answered by what the gate knows:
// for them there is no budget of Redis to set up, a context and its timer.
func (x *exchange) touch(sign queue.Sign) (queue.Standing, error) {
	if st, ok := x.room.Line.Reckon(sign); ok && x.redisErr == nil {
		return st, nil
	}
	return x.ask(func(ctx context.Context, l Line) (queue.Standing, error) { return l.Touch(ctx, sign) })
}

// redeem exchanges a pass past its end. It proves its own admission and nothing else:
// without that its stay is over.
func (x *exchange) redeem(h held) (queue.Standing, error) {
	st, err := x.claim(h)
	if err != nil || st.State == queue.Ended || holds(st, h) {
		return st, err
	}
	return queue.Standing{Visitor: h.pass.Visitor, State: queue.Ended, Why: queue.Expired, Room: st.Room}, nil
}

// newcomer returns the id of somebody without a place. A repeated join that
// carries the same idempotency key is the same newcomer.
func (x *exchange) newcomer() string {
	if key := x.r.Header.Get("Idempotency-Key"); x.joinKey && validKey(key) {
		return token.VisitorFromKey(x.g.secret, x.room.Name, "idempotency-key", key)
	}
	return token.NewVisitor()
}

// validKey reports whether key is 16 to 64 visible characters.
func validKey(key string) bool {
	if len(key) < 16 || len(key) > 64 {
		return false
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] >= 0x7f {
			return false
		}
	}
	return true
}

// readTicket finds out whose request this is, and the ticket of this room that it
// brings, that is ours and not another person's; all others are as good as none.
// Of several the first counts whose stay goes on, as far as is known here: a twin
// that is over must not cost anybody the place.
func (x *exchange) readTicket() {
	x.person = x.identify()
	named, ok := single(x.r.Header[headerQueueTicket])
	if !ok {
		return
	}
	var few [4]string
	for _, raw := range x.room.baker.read(append(few[:0], named...), x.r, ticketCookie) {
		t, err := x.g.tickets.Open(x.room.Name, raw)
		if err != nil || x.anothers(t) {
			continue
		}
		why, ended, void := x.overFor(&t)
		over := ended || void
		if x.ticket == nil || !over {
			x.opened, x.rawTkt, x.why, x.ended = t, raw, why, ended
			x.ticket = &x.opened
		}
		if !over {
			return
		}
	}
}

// overFor reports whether the stay of a ticket has ended and why, and whether its line
// was reset. Where the line knows nothing yet, it is the ticket that tells.
func (x *exchange) overFor(t *token.Ticket) (why queue.Why, ended, void bool) {
	if x.room.off() {
		return "", false, false // there is no line to tell
	}
	why, ended = x.room.Line.Ended(t.Visitor, t.Place)
	known, ok := x.room.Line.Room()
	if !ok {
		x.room.learn(t.Seen)
	}
	return why, ended, ok && t.Generation < known.Generation
}

// highest is the highest place that this request proves: no newcomer may get a
// place below it.
func (x *exchange) highest() (place int64) {
	if x.ticket != nil {
		place = x.ticket.Place
	}
	if x.shown != nil {
		place = max(place, x.shown.pass.Place)
	}
	return place
}

// queuedReason is what the log says of somebody who is not let through.
func queuedReason(st queue.Standing, joined bool) Reason {
	switch {
	case st.Refusal == queue.Full:
		return ReasonFull
	case st.Refusal == queue.Closed:
		return ReasonClosed
	case st.Refusal == queue.SoldOut:
		return ReasonSoldOut
	case st.State == queue.Unknown, st.State == queue.Ended:
		return ReasonNoPlace
	case joined:
		return ReasonNewcomer
	default:
		return ReasonWaiting
	}
}

// isForm reports whether a person sent something and did not just open a page.
func (x *exchange) isForm() bool {
	return x.sent || x.r.Method != http.MethodGet && x.r.Method != http.MethodHead
}
