package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/proxy/clientip"
	"github.com/queuegate/queuegate/proxy/page"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/token"
)

// Gate stands before a shop and lets into its protected routes whoever holds a
// pass. It is an http.Handler and safe for use by any number of goroutines. It
// starts none itself: the lines belong to whoever made them.
type Gate struct {
	prefix       string
	table        *route.Table
	rooms        map[string]*room
	clients      *clientip.Resolver
	shop         *shop
	passes       *token.Authority
	tickets      *token.Tickets
	secret       []byte
	redisTimeout time.Duration
	log          *slog.Logger
	now          func() time.Time
	crossOrigin  *http.CrossOriginProtection
}

// room is a Room in use.
type room struct {
	Room
	baker    baker
	page     *page.Renderer
	entry    string // where a person goes who has no way back
	polls    *pollGuard
	inFlight atomic.Int64
}

// New returns the gate that o describes, or an error that names everything that
// is wrong with o.
func New(o Options) (*Gate, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	g := &Gate{
		prefix: o.Prefix, rooms: map[string]*room{}, clients: clientip.New(o.TrustedProxies),
		shop: newShop(o.Upstream, o.Log), passes: o.Passes, tickets: o.Tickets, secret: o.IdentitySecret,
		redisTimeout: o.RedisTimeout, log: o.Log, now: o.Now, crossOrigin: http.NewCrossOriginProtection(),
	}
	var errs []error
	var routes []route.Room
	for i, r := range o.Rooms {
		renderer, err := page.New(r.Page)
		if err != nil {
			errs = append(errs, fmt.Errorf("proxy: Rooms[%d] %q: %w", i, r.Name, err))
			continue
		}
		g.rooms[r.Name] = &room{
			Room: r, baker: baker{room: r.Name, cookie: r.Cookie}, page: renderer,
			entry: entryPath(r.Protect), polls: newPollGuard(o.Now),
		}
		routes = append(routes, route.Room{Name: r.Name, Protect: r.Protect, Exempt: r.Exempt, DefaultExempt: r.DefaultExempt})
	}
	var err error
	if g.table, err = route.NewTable(o.Prefix, routes); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return g, nil
}

// ServeHTTP judges one request, answers it or has the shop answer it, and writes
// its access record. It panics with http.ErrAbortHandler, and with nothing else,
// when an answer cannot be finished.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := g.newExchange(w, r)
	defer x.end()
	g.serve(x)
}

// serve is the list of questions in the package comment.
func (g *Gate) serve(x *exchange) {
	// 1. An ordinary target, and not one of ours?
	target, refusal := route.Parse(x.r)
	if refusal != nil {
		x.decide(Refused, ReasonTarget)
		x.refuseTarget(refusal.Status, refusal.Reason)
		return
	}
	x.target = target
	verdict := g.table.Match(x.r, target, x.client)
	switch verdict.Kind {
	case route.Reserved:
		g.serveOwn(x, verdict.Endpoint)
		return
	case route.Open, route.Exempt, route.Protected:
		if !g.shop.forwardable(target.Raw) {
			x.decide(Refused, ReasonTarget)
			x.refuseTarget(http.StatusBadRequest, "the path begins with // and holds bytes that a URL may not hold unescaped")
			return
		}
	default:
		x.decide(Refused, ReasonTarget)
		x.refuseTarget(http.StatusBadRequest, "the target could belong to more than one room")
		return
	}

	// 2. Does no room protect it, or is the room off?
	x.room = g.rooms[verdict.Room]
	if verdict.Kind == route.Open {
		x.decide(Proxied, ReasonUnprotected)
		g.shop.serve(x)
		return
	}
	if x.room == nil { // the table knows no room that is not in g.rooms
		x.decide(Refused, ReasonInternal)
		x.problem(newProblem(http.StatusInternalServerError, "internal", ""))
		return
	}
	if x.room.off() {
		x.decide(Proxied, x.room.whyOff())
		g.shop.serve(x)
		return
	}

	// 3. Exempt?
	if verdict.Kind == route.Exempt {
		x.decide(Proxied, ReasonExempt)
		g.shop.serve(x)
		return
	}

	// 4. A pass?
	if x.byPass() {
		return
	}

	// 5. Then the line.
	x.byLine()
}

// entryPath is the first protected path that is one path and not a pattern.
func entryPath(rules []route.Rule) string {
	for _, rule := range rules {
		for _, p := range rule.Paths {
			if p := escapePath(p); safeReturn(p) != "" {
				return p
			}
		}
	}
	return "/"
}
