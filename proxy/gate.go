package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/proxy/clientip"
	"github.com/queuegate/queuegate/proxy/page"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/proxy/stream"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// Gate stands before a shop and lets into its protected routes whoever holds a
// pass. It is an http.Handler and safe for use by any number of goroutines. The
// lines belong to whoever made them; goroutines of its own run only while visitors
// have streams open, and CloseStreams ends those, and for rooms in shadow, until Close.
type Gate struct {
	prefix       string
	table        *route.Table
	rooms        map[string]*room
	clients      *clientip.Resolver
	shop         *shop // of unprotected requests, and of rooms without their own
	shops        map[shopKey]*shop
	passes       *token.Authority
	verified     *token.Cache // verifies what passes has signed
	files        map[string]*keptFile
	tickets      *token.Tickets
	secret       []byte
	redisTimeout time.Duration
	log          *slog.Logger
	observe      func(Observation)
	now          func() time.Time
	crossOrigin  *http.CrossOriginProtection
	streams      *stream.Quota
	asks         chan struct{}   // as many as the streams ask the lines at once
	joins        *joinGuard      // nil without a limit
	origins      map[string]bool // other sites whose scripts may speak with us
	bodies       sync.Pool       // of *[]byte, in which documents are written
}

// room is a Room in use.
type room struct {
	Room
	baker    baker
	page     *page.Renderer
	entry    string // where a person goes who has no way back
	polls    *pollGuard
	streams  *stream.Hub
	inFlight *inFlight
	shop     *shop
	shadow   *shadow // nil in a room that diverts people
	// reached is the latest room time that a ticket has shown, kept while the line has
	// not told any: see learn.
	reached atomic.Int64
	// strayHost is done when a host was asked for that Cookie.Domain does not cover.
	strayHost sync.Once
}

// learn keeps the room time that a ticket shows. A gate that was started while Redis is
// away knows the time by its own clock alone until Redis has answered it once, and may
// take a pass that is long over for a good one.
func (r *room) learn(seen int64) {
	for last := r.reached.Load(); seen > last && !r.reached.CompareAndSwap(last, seen); {
		last = r.reached.Load()
	}
}

// settings are the values of the room in force.
func (r *room) settings() queue.Settings {
	if r.Line == nil { // everything passes
		return queue.Settings{Message: r.Page.Message}
	}
	return r.Line.Settings()
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
		shops: map[shopKey]*shop{}, passes: o.Passes, tickets: o.Tickets, secret: o.IdentitySecret,
		redisTimeout: o.RedisTimeout, log: o.Log, observe: o.Observe, now: o.Now, crossOrigin: http.NewCrossOriginProtection(),
		streams: stream.NewQuota(o.MaxStreams), asks: make(chan struct{}, streamAsks),
		bodies:  sync.Pool{New: func() any { return new(make([]byte, 0, mostlySo)) }},
		origins: map[string]bool{}, joins: newJoinGuard(o.JoinLimit, o.Now),
	}
	g.shop = g.shopOf(o.Upstream, o.After)
	g.succeed(o.After)
	routes, err := g.open(o)
	errs := []error{err}
	for _, origin := range o.AllowOrigins {
		if err := g.crossOrigin.AddTrustedOrigin(origin); err != nil {
			errs = append(errs, fmt.Errorf("proxy: AllowOrigins: %w", err))
		}
		g.origins[origin] = true
	}
	if g.table, err = route.NewTable(o.Prefix, routes); err != nil {
		errs = append(errs, err)
	}
	if g.verified, err = token.NewCache(o.Passes.Verifier, 0); err != nil {
		errs = append(errs, err)
	}
	jwks, err := o.Passes.JWKS()
	if err != nil {
		errs = append(errs, err)
	}
	g.files = keptFiles(o.Prefix, jwks)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	g.hold()
	for _, r := range routes {
		if open := g.table.OpenByDefault(r.Name); r.DefaultExempt && len(open) > 0 {
			g.log.Info("open without a place; default_exempt: false ends it", "room", r.Name, "paths", open)
		}
	}
	return g, nil
}

// open makes the rooms, and tells what is routed to them.
func (g *Gate) open(o Options) ([]route.Room, error) {
	var (
		routes []route.Room
		errs   []error
	)
	for i, r := range o.Rooms {
		renderer, err := page.New(r.Page)
		if err != nil {
			errs = append(errs, fmt.Errorf("proxy: Rooms[%d] %q: %w", i, r.Name, err))
			continue
		}
		before := &room{polls: newPollGuard(o.Now), inFlight: newInFlight()}
		if o.After != nil && o.After.rooms[r.Name] != nil {
			before = o.After.rooms[r.Name]
		}
		rm := &room{
			Room: r, baker: newBaker(r.Name, r.Cookie), page: renderer,
			entry: entryPath(r.Protect), polls: before.polls, inFlight: before.inFlight, shop: g.shop,
		}
		if r.Upstream.given() {
			rm.shop = g.shopOf(r.Upstream, o.After)
		}
		switch {
		case r.Shadow && before.shadow != nil && before.Line == r.Line:
			rm.shadow = before.shadow
		case r.Shadow:
			rm.shadow = newShadow(r.Name, r.Line, o.Log, o.Observe)
		}
		if !r.off() {
			rm.streams = stream.NewHub(g.streams, r.Line.Hints)
		}
		g.rooms[r.Name] = rm
		routes = append(routes, route.Room{Name: r.Name, Protect: r.Protect, Exempt: r.Exempt, Consume: r.Consume.Routes, DefaultExempt: r.DefaultExempt})
	}
	return routes, errors.Join(errs...)
}

// ShopRefuses tells whether the shop of a room takes no connections: then nobody new
// is to be let in there, for they would have nowhere to go.
func (g *Gate) ShopRefuses(name string) bool {
	r, ok := g.rooms[name]
	return ok && r.shop.refusal.refuses()
}

// Pages are the pages of the rooms, by name.
func (g *Gate) Pages() map[string]*page.Renderer {
	pages := make(map[string]*page.Renderer, len(g.rooms))
	for name, r := range g.rooms {
		pages[name] = r.page
	}
	return pages
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
	if x.r.ProtoMajor == 2 && x.r.Context().Err() != nil { // a stream that was reset before its turn
		x.decide(Refused, ReasonGone)
		x.record.status = statusClientGone
		return
	}
	if rest, ok := g.cutAuth(x.r.RequestURI); ok {
		g.serveAuth(x, rest)
		return
	}
	j := g.judge(x.r, x.client)
	if j.next == ownAddress {
		x.target = j.target
		g.serveOwn(x, j.verdict.Endpoint)
		return
	}
	x.caller = callerOf(x.r)
	x.follow(j)
}

// follow does with the request what was judged of it.
func (x *exchange) follow(j judgement) {
	x.target, x.room = j.target, j.room
	switch j.next {
	case letThrough:
		if j.reason == ReasonShadowUnknown {
			x.double(j.verdict.Consumes)
		}
		x.letThrough(j.reason)
	case askForPass:
		// A front proxy does not tell how an order ended: the shop reports by release.
		x.consumes = j.verdict.Consumes && !x.front.asks()
		switch {
		case x.byPass():
		case x.front.asks():
			x.withoutPass()
		default:
			x.byLine()
		}
	default:
		x.decide(Refused, j.reason)
		x.refuseTarget(j.status, j.detail)
	}
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
