package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/proxy/page"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/token"
)

// Defaults of Options and Room.
const (
	defaultPrefix         = "/_queue"
	defaultRedisTimeout   = 100 * time.Millisecond
	defaultClaimWindow    = 90 * time.Second
	defaultWaitingTimeout = 30 * time.Minute
	defaultMaxStreams     = 16_000
)

// Options is what a Gate is made of. What is not said to have a default is
// required.
type Options struct {
	// Prefix is the path under which everything is the gate's; empty means
	// /_queue.
	Prefix string
	// Rooms are the rooms; without any, everything passes.
	Rooms []Room
	// Upstream is the shop.
	Upstream Upstream
	// TrustedProxies are the peers whose X-Forwarded-* is believed; none by
	// default.
	TrustedProxies []netip.Prefix
	// AllowOrigins are other sites, as https://www.shop.example, whose scripts may
	// use the visitor API with the visitor's cookies and read the gate's answers;
	// none by default.
	AllowOrigins []string
	// JoinLimit bounds the new places of one client address; none by default.
	JoinLimit JoinLimit
	// Passes signs and verifies entry tokens.
	Passes *token.Authority
	// Tickets seals and opens tickets.
	Tickets *token.Tickets
	// IdentitySecret makes visitor ids of the shop's names and of idempotency keys;
	// at least 32 bytes.
	IdentitySecret []byte
	// RedisTimeout bounds all that one request asks of the lines together, from
	// the first question on; zero means 100 ms.
	RedisTimeout time.Duration
	// MaxStreams bounds the visitors' streams that are open at once, over all rooms;
	// zero means 16,000. Each takes a descriptor.
	MaxStreams int
	// Log takes one access record a request and the faults; nil discards them.
	Log *slog.Logger
	// Observe is told of each request when it is over, and must not take long; nobody
	// is when nil.
	Observe func(Observation)
	// After is the gate that this one takes the place of in the same process, nil for
	// the first. What both have alike goes on: connections to a shop and whether it
	// takes any, the requests counted against MaxInFlight, polls and joins counted,
	// and the streams counted against MaxStreams, which stays that of the first.
	After *Gate
	// Now is the wall clock; nil means time.Now. No order, rate or slot depends
	// on it, only the length of cookies and, before the first answer of Redis, the
	// end of passes.
	Now func() time.Time
}

// OnRedisError says who passes while Redis does not answer.
type OnRedisError string

// The values of Room.OnRedisError.
const (
	// OnRedisErrorClosed: the admitted go on until their passes end, newcomers
	// wait.
	OnRedisErrorClosed OnRedisError = "closed"
	// OnRedisErrorOpen: everybody passes, within MaxInFlight.
	OnRedisErrorOpen OnRedisError = "open"
	// OnRedisErrorStrict: nobody passes.
	OnRedisErrorStrict OnRedisError = "strict"
)

// Room is one room as the gate sees it.
type Room struct {
	// Name is 1 to 40 of a-z, 0-9 and "-".
	Name string
	// Protect are the routes behind the line, Exempt the requests to them that
	// pass without a place, DefaultExempt adds robots.txt and its like.
	Protect, Exempt []route.Rule
	DefaultExempt   bool
	// Line is the room's line; it may be nil in a room that is suspended or passes
	// everything through.
	Line Line
	// Upstream is a shop of this room's own; the zero value means Options.Upstream.
	Upstream Upstream
	// Suspended lets everything pass and sets no cookie: the room is off.
	Suspended bool
	// Passthrough does the same by another name: the room is on and has no line.
	Passthrough bool
	// Shadow decides and counts and diverts nobody: to everybody it is as Suspended, and
	// the Line, which it needs, shows what it would have been.
	Shadow bool
	// ClaimWindow is the life of a pass not taken up (zero means 90 s),
	// WaitingTimeout how long an absent visitor keeps the place (30 min).
	ClaimWindow, WaitingTimeout time.Duration
	// QueueingStatusCode is the status of the page for people in line: 429 (also
	// when zero), 200, 202 or 503. Calls of programs always get 429 or 503.
	QueueingStatusCode int
	// OnRedisError is OnRedisErrorClosed when empty.
	OnRedisError OnRedisError
	// MaxInFlight bounds the requests of this room at the shop at once, those of one
	// pass to as many as it leaves free; zero means no bound.
	MaxInFlight int
	// ForwardToken hands the entry token to the shop in X-Entry-Token.
	ForwardToken bool
	// Identity says where the shop's own name for a visitor is found; zero: nobody
	// has one.
	Identity Identity
	// Consume says which orders use a pass up.
	Consume Consume
	// Cookie shapes the room's cookies.
	Cookie Cookie
	// Page is the operator's part of the page.
	Page page.Options
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.RedisTimeout == 0 {
		o.RedisTimeout = defaultRedisTimeout
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = defaultMaxStreams
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(Observation) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Prefix = strings.TrimRight(o.Prefix, "/")
	o.Upstream = o.Upstream.withDefaults()
	o.JoinLimit = o.JoinLimit.withDefaults()
	o.Rooms = slices.Clone(o.Rooms)
	for i := range o.Rooms {
		o.Rooms[i] = o.Rooms[i].withDefaults()
	}
	return o
}

func (r Room) withDefaults() Room {
	if r.Upstream.given() {
		r.Upstream = r.Upstream.withDefaults()
	}
	if r.ClaimWindow == 0 {
		r.ClaimWindow = defaultClaimWindow
	}
	if r.WaitingTimeout == 0 {
		r.WaitingTimeout = defaultWaitingTimeout
	}
	if r.QueueingStatusCode == 0 {
		r.QueueingStatusCode = http.StatusTooManyRequests
	}
	if r.OnRedisError == "" {
		r.OnRedisError = OnRedisErrorClosed
	}
	if len(r.Consume.Success) == 0 {
		r.Consume.Success = []string{"2xx"}
	}
	if r.Cookie.SameSite == 0 {
		r.Cookie.SameSite = http.SameSiteLaxMode
	}
	if r.Cookie.Secure == "" {
		r.Cookie.Secure = SecureAuto
	}
	return r
}

func (o Options) validate() error {
	errs := []error{o.Upstream.validate(), o.JoinLimit.validate()}
	if o.Passes == nil {
		errs = append(errs, errors.New("proxy: no Passes given; make them with token.New"))
	}
	if o.Tickets == nil {
		errs = append(errs, errors.New("proxy: no Tickets given; make them with token.NewTickets"))
	}
	if len(o.IdentitySecret) < 32 {
		errs = append(errs, fmt.Errorf("proxy: IdentitySecret has %d bytes; give at least 32", len(o.IdentitySecret)))
	}
	if o.RedisTimeout < 0 {
		errs = append(errs, fmt.Errorf("proxy: RedisTimeout is %v; leave it zero for %v", o.RedisTimeout, defaultRedisTimeout))
	}
	if o.MaxStreams < 0 {
		errs = append(errs, fmt.Errorf("proxy: MaxStreams is %d; leave it zero for %d", o.MaxStreams, defaultMaxStreams))
	}
	for i, r := range o.Rooms {
		if err := errors.Join(r.validate(), r.Consume.validate(), r.Identity.validate(len(o.TrustedProxies) > 0)); err != nil {
			errs = append(errs, fmt.Errorf("proxy: Rooms[%d] %q: %w", i, r.Name, err))
		}
	}
	return errors.Join(errs...)
}

// off reports whether everything passes, without Redis and without a cookie.
func (r Room) off() bool { return r.Suspended || r.Passthrough || r.Shadow }

// whyOff is what the log says of a request to a room that is off.
func (r Room) whyOff() Reason {
	switch {
	case r.Suspended:
		return ReasonSuspended
	case r.Passthrough:
		return ReasonPassthrough
	default:
		return ReasonShadowUnknown
	}
}

func (r Room) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !validRoomName(r.Name) {
		fail("the name must be 1 to 40 of a-z, 0-9 and -")
	}
	if r.Name == authName {
		fail("the name auth is taken: front proxies ask at that address")
	}
	if r.Shadow && (r.Suspended || r.Passthrough) {
		fail("Shadow needs a line: it goes with neither Suspended nor Passthrough")
	}
	if r.Line == nil && (!r.off() || r.Shadow) {
		fail("no Line given")
	}
	if r.ClaimWindow < 0 || r.WaitingTimeout < 0 {
		fail("a duration is negative")
	}
	switch r.QueueingStatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusTooManyRequests, http.StatusServiceUnavailable:
	default:
		fail("QueueingStatusCode is %d; use 429, 200, 202 or 503", r.QueueingStatusCode)
	}
	switch r.OnRedisError {
	case OnRedisErrorClosed, OnRedisErrorStrict:
	case OnRedisErrorOpen:
		if r.MaxInFlight == 0 {
			fail("OnRedisError open lets everybody in: set MaxInFlight to what the shop can bear")
		}
	default:
		fail("OnRedisError is %q; use closed, open or strict", r.OnRedisError)
	}
	if r.MaxInFlight < 0 {
		fail("MaxInFlight is %d; use 0 for no bound", r.MaxInFlight)
	}
	if r.Upstream.given() {
		errs = append(errs, r.Upstream.validate())
	}
	if err := r.Cookie.validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func validRoomName(name string) bool {
	return len(name) > 0 && len(name) <= 40 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
