package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// exchange is one request and its answer.
type exchange struct {
	visit
	w      http.ResponseWriter // toward is behind it
	r      *http.Request
	record record
	opened token.Ticket // visit's ticket lies here
	ended  bool         // its stay has, as far as this gate knows,
	why    queue.Why    // and so it did
	toward watched
	target route.Target
	client netip.Addr
	proto  string // scheme the visitor uses
	caller caller // of a request for the shop or for the page; others are a script's
	front  front  // who asks for a verdict and not for the shop; zero: nobody

	// sent is set on the page of somebody whose form a front proxy has turned away.
	sent     bool
	language string // the one chosen on the page, empty for none
	// consumes is set for an order: a request that may use its pass up.
	consumes bool
	used     string // the visitor of a pass it shows that an order has used up
	// joinKey is set where an idempotency key is the gate's to read: on a
	// protected route it is the shop's.
	joinKey bool
	// joinWait is how long until there is a new place for this address.
	joinWait time.Duration
	// hurried is set for a poll that comes nearly too fast.
	hurried bool
	// bodyRead is set when the body has been read to its end.
	bodyRead bool

	// What the answer hands out.
	admitted  *held  // the pass by which the shop is reached
	given     *held  // the pass that is handed out
	order     bool   // it has the order lock of that pass
	doubled   string // whose double stands in line, in a room that diverts nobody
	cookies   []*http.Cookie
	newToken  string // for X-Entry-Token
	newTicket string // for X-Queue-Ticket
	handed    bool
	lines     lines // of its headers

	// Redis, asked within one budget.
	redis     context.Context
	redisDone context.CancelFunc
	redisErr  error
}

func (g *Gate) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{visit: visit{g: g}, r: r, client: g.clients.Of(r), proto: g.clients.Proto(r)}
	x.record.id, x.record.start = newRequestID(), g.now()
	x.toward = watched{next: w, rec: &x.record}
	x.w = &x.toward
	// A chunked body may come with a Content-Length that net/http has dropped, and
	// whoever stands in front may have read the body by that: whatever follows on
	// the connection is nobody's request (RFC 9112 section 6.1).
	if len(r.TransferEncoding) > 0 {
		x.endConnection()
	}
	return x
}

// endConnection makes the answer the last one of its connection. In HTTP/2 no
// request can be taken for the end of another.
func (x *exchange) endConnection() { x.record.last = x.r.ProtoMajor == 1 }

// end runs when the request is over, in a panic as well: it writes the access
// record and answers for a fault of ours. http.ErrAbortHandler goes on to the
// server, which cuts the connection.
func (x *exchange) end() {
	fault := recover()
	if x.redisDone != nil {
		x.redisDone()
	}
	if err, ok := fault.(error); fault != nil && !(ok && errors.Is(err, http.ErrAbortHandler)) {
		x.g.log.ErrorContext(x.r.Context(), "fault while serving a request",
			"request_id", x.record.id, "fault", printable(fmt.Sprint(fault)), "stack", string(debug.Stack()))
		x.decide(Refused, ReasonInternal)
		fault = nil
		if x.record.status == 0 {
			x.problem(newProblem(http.StatusInternalServerError, "internal", ""))
		} else {
			fault = http.ErrAbortHandler
		}
	}
	if fault != nil && x.record.shop.Status != 0 && x.record.upstream == "" && x.r.Context().Err() == nil {
		x.record.upstream = string(ShopBroke)
	}
	x.wouldHave()
	x.writeRecord()
	x.observe()
	if fault != nil {
		panic(fault)
	}
}

// decide notes what is done with the request. The last call counts.
func (x *exchange) decide(outcome Outcome, reason Reason) {
	x.record.decision = Decision{Outcome: outcome, Reason: reason}
	if x.room != nil {
		x.record.decision.Room = x.room.Name
	}
}

// ask asks the line a question of one request. All questions together have one
// budget, and after one without an answer no other is asked.
func (x *exchange) ask(question func(ctx context.Context, l Line) (queue.Standing, error)) (queue.Standing, error) {
	if x.redisErr != nil {
		return queue.Standing{}, x.redisErr
	}
	if x.redis == nil {
		// The client's leaving must not break off what is already on its way.
		x.redis, x.redisDone = context.WithTimeout(context.WithoutCancel(x.r.Context()), x.g.redisTimeout)
	}
	asked := x.g.now()
	st, err := question(x.redis, x.room.Line)
	x.record.redis += x.g.now().Sub(asked)
	if err == nil {
		return st, nil
	}
	x.redisErr = err
	if errors.Is(err, queue.ErrUnavailable) {
		x.g.log.DebugContext(x.r.Context(), "Redis did not answer", "request_id", x.record.id, "room", x.room.Name, "error", err)
	} else {
		x.g.log.ErrorContext(x.r.Context(), "the line failed", "request_id", x.record.id, "room", x.room.Name, "error", err)
	}
	return queue.Standing{}, err
}

// give keeps what h says for the answer: the cookie, and the header for those
// who used it or have no cookie.
func (x *exchange) give(h held) {
	b := &x.room.baker
	x.cookies = slices.DeleteFunc(x.cookies, isEntry) // of a pass that this one replaces
	x.cookies = append(x.cookies, b.bake(entryCookie, h.raw, x.lease(h.pass)+cookieSlack, x.site()))
	x.given = &h
	if x.usesHeaders() {
		x.newToken = h.raw
	}
}

// site is how the browser sees the gate. A cookie of a domain that is not the
// host's would be dropped without a word, so that is said, once for each room.
func (x *exchange) site() site {
	at := site{proto: x.proto, host: x.target.Host}
	if front := x.r.Header.Get("X-Forwarded-Host"); front != "" && x.g.clients.PeerTrusted(x.r) {
		first, _, _ := strings.Cut(front, ",")
		host, _, _ := strings.Cut(strings.TrimSpace(first), ":") // an address in brackets is in no domain
		at.host = strings.ToLower(strings.TrimSuffix(host, "."))
	}
	if _, ok := x.room.Cookie.domainAt(at.host); !ok {
		x.room.strayHost.Do(func() {
			x.g.log.ErrorContext(x.r.Context(), "cookie.domain does not cover a host that is asked for; its visitors get cookies of that host alone",
				"room", x.room.Name, "domain", x.room.Cookie.Domain, "host", printable(at.host))
		})
	}
	return at
}

// giveTicket keeps a ticket for the answer unless it is the one that came.
func (x *exchange) giveTicket(raw string) {
	if raw == "" || raw == x.rawTkt {
		return
	}
	x.cookies = append(x.cookies, x.room.baker.bake(ticketCookie, raw, x.room.WaitingTimeout+cookieSlack, x.site()))
	if x.usesHeaders() {
		x.newTicket = raw
	}
}

// forget takes away the cookies of a stay that is over.
func (x *exchange) forget() {
	for _, kind := range []string{ticketCookie, entryCookie} {
		x.cookies = append(x.cookies, x.room.baker.clear(x.r, kind, x.site())...)
	}
}

// usesHeaders reports whether the request comes from somebody who keeps ticket
// and token themselves, or who has shown no cookie of ours yet.
func (x *exchange) usesHeaders() bool {
	if x.r.Header.Get(headerEntryToken) != "" || x.r.Header.Get(headerQueueTicket) != "" {
		return true
	}
	var few [2]string
	return len(x.room.baker.read(x.room.baker.read(few[:0], x.r, entryCookie), x.r, ticketCookie)) == 0
}

// handOut puts into the headers of an answer what it hands out, once. The
// shop's cookies stay as they are. An answer that carries a cookie or token of
// one visitor must not be kept for another.
func (x *exchange) handOut(h http.Header) {
	if x.handed {
		return
	}
	x.handed = true
	x.withdraw()
	for _, c := range x.cookies {
		h.Add("Set-Cookie", c.String())
	}
	if x.newToken != "" {
		x.lines.set(h, headerEntryToken, x.newToken)
	}
	if x.newTicket != "" {
		x.lines.set(h, headerQueueTicket, x.newTicket)
	}
	if len(x.cookies) == 0 && x.newToken == "" && x.newTicket == "" {
		return
	}
	for name := range h { // some caches obey these before Cache-Control
		if !strings.HasSuffix(name, "l") && !strings.HasSuffix(name, "L") {
			continue // to fold all of them was a fifth of what a join allocates
		}
		if folded := fold(name); strings.HasSuffix(folded, "-cache-control") || folded == "surrogate-control" {
			delete(h, name)
		}
	}
	if values := h["Cache-Control"]; len(values) != 1 || values[0] != "no-store" {
		h.Set("Cache-Control", "private, no-store")
	}
}

// withdraw keeps back a pass that ended while its request was at the shop, and the
// ticket of its stay: the answer may be the last of several, and must not put what is
// worth nothing over what another request was given since.
func (x *exchange) withdraw() {
	if x.given == nil || x.g.valueOf(x.room, x.given.pass) != worthless {
		return
	}
	x.cookies = slices.DeleteFunc(x.cookies, func(c *http.Cookie) bool { return c.Value != "" })
	x.newToken, x.newTicket = "", ""
}

// introduce tells the shop who was admitted.
func (x *exchange) introduce(h http.Header) {
	if x.admitted == nil {
		return
	}
	p := x.admitted.pass
	x.lines.set(h, headerRoom, p.Room)
	x.lines.set(h, headerVisitor, p.Visitor)
	x.lines.set(h, headerAdmission, p.Admission)
	if x.room.ForwardToken {
		x.lines.set(h, headerEntryToken, x.admitted.raw)
	}
}

// letThrough sends the request to the shop, or tells the front proxy that asks
// that it may.
func (x *exchange) letThrough(reason Reason) {
	if x.front.asks() {
		x.allow(reason)
		return
	}
	x.decide(Proxied, reason)
	x.shop().serve(x)
}

// shop is where the request goes.
func (x *exchange) shop() *shop {
	if x.room != nil {
		return x.room.shop
	}
	return x.g.shop
}

// toShop lets the request through if the room has not as many at the shop as it
// may, and its pass not more than its share. What a front proxy sends there is not
// counted: nobody tells when it ends.
func (x *exchange) toShop(reason Reason) {
	if x.front.asks() {
		x.letThrough(reason)
		return
	}
	admission := ""
	if x.admitted != nil {
		admission = x.admitted.pass.Admission
	}
	if why, ok := x.room.inFlight.enter(admission, x.room.MaxInFlight); !ok {
		x.decide(Refused, why)
		x.busy()
		return
	}
	defer x.room.inFlight.leave(admission)
	x.letThrough(reason)
}
