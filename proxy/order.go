package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/proxy/page"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// orderRenewal is how often a request that may use its pass up says that it is
// still under way: often enough that its lock, 15 s, outlives two lost calls.
const orderRenewal = 5 * time.Second

// Consume says which requests use a pass up.
type Consume struct {
	// Routes are the orders: protected requests of which only one of a pass is at
	// the shop at a time. Empty: no request uses a pass up.
	Routes []route.Rule
	// Success are the statuses of the shop by which an order has succeeded, as 201
	// or 2xx; 2xx when empty.
	Success []string
}

// succeeded reports whether a status of the shop is in Success.
func (c Consume) succeeded(status int) bool {
	text := fmt.Sprintf("%d", status)
	return slices.ContainsFunc(c.Success, func(s string) bool {
		return s == text || strings.HasSuffix(s, "xx") && s[0] == text[0]
	})
}

func (c Consume) validate() error {
	var errs []error
	for _, s := range c.Success {
		if len(s) != 3 || s[0] < '1' || s[0] > '5' || s[1:] != "xx" && strings.Trim(s[1:], "0123456789") != "" {
			errs = append(errs, fmt.Errorf("Consume.Success %q is no status such as 201 or 2xx", s))
		}
	}
	return errors.Join(errs...)
}

// takeOrder lets a request through that may use its pass up, when no other order
// with this pass is at the shop. It takes a pass up and exchanges one past its end
// in the same call. It reports false when the pass is worth nothing.
func (x *exchange) takeOrder(h held, reason Reason) bool {
	ask := Line.Claim
	if h.pass.Stage == token.Active && x.renewalDue(h.pass) {
		ask = Line.Renew
	}
	asked := holding(h.pass)
	asked.Order = x.record.id
	st, err := x.ask(func(ctx context.Context, l Line) (queue.Standing, error) { return ask(l, ctx, asked) })
	switch {
	case err != nil:
		// It may still be carried out, and then nobody would order for a while.
		x.room.Line.Settle(x.redis, asked, queue.Failed)
		return x.orderUnasked(h)
	case st.State == queue.Ended && st.Why == queue.Consumed:
		x.passUsed()
		return true
	case !holds(st, h):
		return false
	case st.Lease.Order == "": // history was lost, and those under way come first
		x.decide(Refused, ReasonDegraded)
		x.cannotSay()
		return true
	case st.Lease.Order != x.record.id:
		x.underWay()
		return true
	}
	if h.pass.Stage == token.Ready {
		x.tookUp(st)
	}
	if h.pass.Stage == token.Ready || st.Lease.End != h.pass.End {
		if h, err = x.sign(st, token.Active); err != nil {
			x.cannotSign(err)
			x.room.Line.Settle(x.redis, asked, queue.Failed)
			x.decide(Refused, ReasonInternal)
			x.cannotSay()
			return true
		}
		x.give(h)
	}
	x.admitted, x.order = &h, true
	x.record.visitor = h.pass.Visitor
	defer x.letGo()
	x.toShop(reason)
	return true
}

// orderUnasked deals with an order while Redis does not answer: two could be at
// the shop at once, so that it is for a room that is open to everybody then to
// bear them.
func (x *exchange) orderUnasked(h held) bool {
	if x.room.OnRedisError == OnRedisErrorOpen {
		x.admitted = &h
		x.toShop(ReasonFailOpen)
		return true
	}
	x.decide(Refused, ReasonDegraded)
	x.cannotSay()
	return true
}

// concludes draws from the shop's answer, before the client sees any of it, what
// becomes of the room and of the pass by which it was reached, and reports whether
// that is over. All of it together waits for Redis no longer than one request may.
func (x *exchange) concludes(status int, said word) bool {
	if !x.order && said.set == nil {
		return false
	}
	ctx, cancel := x.budget()
	defer cancel()
	x.obeys(ctx, said)
	switch {
	case x.order && x.room.Consume.succeeded(status):
		x.settle(ctx, queue.Consumed)
	case said.release && x.admitted != nil:
		x.settle(ctx, queue.Released)
	case x.order:
		x.settle(ctx, queue.Failed)
		return false
	default:
		return false
	}
	return true
}

// letGo frees the order lock of an order that came to nothing. It does so once,
// and before the client is told, so that trying again meets no lock.
func (x *exchange) letGo() {
	if x.order {
		ctx, cancel := x.budget()
		defer cancel()
		x.settle(ctx, queue.Failed)
	}
}

// budget bounds what is asked of Redis once the shop has had the request. The
// client's leaving does not end it.
func (x *exchange) budget() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(x.r.Context()), x.g.redisTimeout)
}

// settle tells the line what became of the pass; the line repeats it until Redis
// knows. The pass of a stay that is over leaves the browser.
func (x *exchange) settle(ctx context.Context, why queue.Why) {
	x.order = false
	h := holding(x.admitted.pass)
	if why != queue.Released {
		h.Order = x.record.id
	}
	x.room.Line.Settle(ctx, h, why)
	if why == queue.Failed {
		return
	}
	x.given, x.newToken = nil, ""
	x.cookies = slices.DeleteFunc(x.cookies, isEntry)
	x.cookies = append(x.cookies, x.room.baker.clear(x.r, entryCookie, x.site())...)
}

// isEntry reports whether c holds a pass.
func isEntry(c *http.Cookie) bool {
	return strings.HasPrefix(strings.TrimPrefix(c.Name, hostPrefix), entryCookie)
}

// usedUp refuses somebody whose pass an order has used up: always what would be
// another order with it, anything else until they may queue again.
func (x *exchange) usedUp() bool {
	if !x.barred() && (!x.consumes || x.used == "") {
		return false
	}
	x.passUsed()
	return true
}

// barred reports whether whoever sent the request has used up a pass and may not
// queue again yet.
func (x *exchange) barred() bool {
	return slices.ContainsFunc([]string{x.used, x.person, x.ticketHolder()}, func(visitor string) bool {
		_, barred := x.room.Line.Barred(visitor)
		return barred && visitor != ""
	})
}

// ticketHolder is the visitor of the ticket, "" without one.
func (x *exchange) ticketHolder() string {
	if x.ticket == nil {
		return ""
	}
	return x.ticket.Visitor
}

// passUsed answers somebody whose order has succeeded.
func (x *exchange) passUsed() {
	x.decide(Refused, ReasonUsed)
	x.conflict("already-used", page.Used, "An order was placed with this pass. This request was not passed on.")
}

// underWay answers a request while another order with the same pass is at the shop.
func (x *exchange) underWay() {
	x.decide(Refused, ReasonUnderWay)
	retryAfter(x.w.Header(), time.Second)
	x.conflict("order-under-way", page.Ordering, "Another order with this pass is under way. This request was not passed on; should that one fail, send it again.")
}

// conflict answers 409: the shop sees nothing, and nobody stands in line for it.
func (x *exchange) conflict(kind string, state page.State, detail string) {
	if x.caller == navigation {
		x.page(http.StatusConflict, page.View{State: state})
		return
	}
	p := newProblem(http.StatusConflict, kind, detail)
	p.Room = x.room.Name
	x.problem(p)
}
