package config

import "time"

// Values of Room.QueueingMethod.
const (
	QueueFIFO        = "fifo"
	QueueRandom      = "random"
	QueuePassthrough = "passthrough"
	QueueReject      = "reject"
)

// Values of Room.OnRedisError.
const (
	RedisErrorClosed = "closed"
	RedisErrorOpen   = "open"
	RedisErrorStrict = "strict"
)

// Values of Cookie.SameSite and Cookie.Secure.
const (
	SameSiteLax    = "lax"
	SameSiteStrict = "strict"
	SameSiteNone   = "none"

	SecureAuto   = "auto"
	SecureAlways = "always"
	SecureNever  = "never"
)

// Room is a named set of protected routes with its own line and limits.
type Room struct {
	// Name is 1 to 40 of a-z, 0-9 and "-"; unique.
	Name string `yaml:"name"`
	// Protect are the routes behind the line; at least one path.
	Protect []Rule `yaml:"protect"`
	// Exempt are requests to protected routes that pass without a place.
	Exempt []Rule `yaml:"exempt"`
	// DefaultExempt exempts robots.txt, favicon.ico, sitemap.xml and
	// /.well-known/.
	DefaultExempt bool `yaml:"default_exempt"`
	// Upstream is another shop for this room; empty means Config.Upstream.
	Upstream string `yaml:"upstream"`
	// TotalActiveUsers is the number of slots over all gates, 0 = no limit.
	TotalActiveUsers int `yaml:"total_active_users"`
	// NewUsersPerMinute is the admission rate over all gates, 0 = no limit.
	NewUsersPerMinute int `yaml:"new_users_per_minute"`
	// Burst is how many may be admitted at one instant, 0 = one second's
	// worth; see EffectiveBurst.
	Burst int `yaml:"burst"`
	// QueueingMethod is fifo (the order of arrival), random (places drawn by lot
	// once a minute), passthrough (no line: everybody passes) or reject (who
	// cannot be let in at once gets no place).
	QueueingMethod string `yaml:"queueing_method"`
	// QueueAll admits nobody new; who comes gets a place in line.
	QueueAll bool `yaml:"queue_all"`
	// Suspended switches the room off: everything passes.
	Suspended bool `yaml:"suspended"`
	// Shadow decides and counts but diverts nobody.
	Shadow bool `yaml:"shadow"`
	// SessionDuration is how long a pass lives without activity.
	SessionDuration time.Duration `yaml:"session_duration"`
	// DisableSessionRenewal ends a pass after SessionDuration, active or not.
	DisableSessionRenewal bool `yaml:"disable_session_renewal"`
	// SessionMax is the absolute end of a pass, 0 = none.
	SessionMax time.Duration `yaml:"session_max"`
	// ClaimWindow is how long an admitted visitor has to come in.
	ClaimWindow time.Duration `yaml:"claim_window"`
	// PresenceWindow is how late a sign of life may be.
	PresenceWindow time.Duration `yaml:"presence_window"`
	// WaitingTimeout is how long an absent visitor keeps the place.
	WaitingTimeout time.Duration `yaml:"waiting_timeout"`
	// MaxWaiting is the longest line, 0 = unbounded (embedded Redis: 1,000).
	MaxWaiting int `yaml:"max_waiting"`
	// QueueingStatusCode is the status of the queue page: 429, 200, 202, 503.
	QueueingStatusCode int `yaml:"queueing_status_code"`
	// OnRedisError is closed (the admitted go on, newcomers wait), open
	// (everybody passes, bounded by MaxInFlight) or strict (nobody passes).
	OnRedisError string `yaml:"on_redis_error"`
	// MaxInFlight is how many requests of this room one gate has at the shop
	// at once, 0 = no limit.
	MaxInFlight int `yaml:"max_in_flight"`
	// ForwardToken hands the entry token to the shop in X-Entry-Token.
	ForwardToken bool `yaml:"forward_token"`
	// Identity says where the shop's own name for a visitor is found.
	Identity Identity `yaml:"identity"`
	// Consume says which successful orders use up a pass.
	Consume Consume `yaml:"consume"`
	// Cookie shapes the gate's cookies.
	Cookie Cookie `yaml:"cookie"`
	// Page shapes the queue page.
	Page Page `yaml:"page"`
}

// Rule matches requests. All lists that are not empty must match; within a
// list one match is enough.
type Rule struct {
	// Paths match whole segments: /order matches /order and /order/1, not
	// /orders. A "*" stands for one segment: /orders/*/status.
	Paths []string `yaml:"paths"`
	// Methods in capitals; empty means all.
	Methods []string `yaml:"methods"`
	// Hosts without scheme and port, IPv6 addresses in brackets; empty means
	// all.
	Hosts []string `yaml:"hosts"`
	// CIDRs of the client; only in exempt rules.
	CIDRs []string `yaml:"cidrs"`
	// CaseSensitive compares paths with their case.
	CaseSensitive bool `yaml:"case_sensitive"`
}

// Identity says where the shop's own name for a visitor is found. One name has
// one place in the room, however many browsers show it.
type Identity struct {
	// Header carries it; believed only from a peer in Config.TrustedProxies.
	Header string `yaml:"header"`
	// JWT carries it, signed by the shop.
	JWT IdentityJWT `yaml:"jwt"`
}

// IdentityJWT is a token of the shop that names the visitor. What cannot be
// verified names nobody.
type IdentityJWT struct {
	// Cookie that holds the token.
	Cookie string `yaml:"cookie"`
	// Header that holds the token; in Authorization it follows "Bearer ".
	Header string `yaml:"header"`
	// Claim that names the visitor.
	Claim string `yaml:"claim"`
	// Issuer the token must carry; empty means any.
	Issuer string `yaml:"issuer"`
	// Audience the token must carry; empty means any.
	Audience string `yaml:"audience"`
	// Keys that verify the token, each a secret (HS256), a public key in PEM
	// (Ed25519, ECDSA on P-256 or RSA), or a file that holds one of them.
	Keys []Secret `yaml:"keys"`
}

// InUse reports whether tokens of the shop are looked at.
func (j IdentityJWT) InUse() bool { return len(j.Keys) > 0 }

// Consume says which successful orders use up a pass.
type Consume struct {
	// Routes on which a success uses the pass; empty means none.
	Routes []Rule `yaml:"routes"`
	// Success are the statuses that count, as 201 or 2xx.
	Success []string `yaml:"success"`
	// RejoinAfter is how long until the visitor may queue again, 0 = at once.
	RejoinAfter time.Duration `yaml:"rejoin_after"`
}

// Cookie shapes the gate's cookies.
type Cookie struct {
	// Domain of the cookies; empty means the host alone.
	Domain string `yaml:"domain"`
	// SameSite is lax, strict or none.
	SameSite string `yaml:"same_site"`
	// Secure is auto (by the public scheme), always or never.
	Secure string `yaml:"secure"`
	// Partitioned sets the attribute of that name.
	Partitioned bool `yaml:"partitioned"`
}

// Page shapes the queue page.
type Page struct {
	// Title of the page; empty means the built-in one.
	Title string `yaml:"title"`
	// Message above the place.
	Message string `yaml:"message"`
	// Logo is an image file, or "shop:" and a path of the shop.
	Logo string `yaml:"logo"`
	// Accent is the colour of number, bar and buttons, as #rrggbb.
	Accent string `yaml:"accent"`
	// Template is a directory whose files replace those of the built-in page.
	Template string `yaml:"template"`
	// Contact tells whom to ask.
	Contact string `yaml:"contact"`
	// Footer is the last line of the page.
	Footer string `yaml:"footer"`
	// ShowNumbers shows place and people ahead.
	ShowNumbers bool `yaml:"show_numbers"`
	// Languages offered, by the visitor's preference.
	Languages []string `yaml:"languages"`
	// DefaultLanguage when none fits.
	DefaultLanguage string `yaml:"default_language"`
	// Locales is a directory of further translations.
	Locales string `yaml:"locales"`
	// FrameAncestors are the origins that may frame the page; "self" is its own.
	FrameAncestors []string `yaml:"frame_ancestors"`
}

// EffectiveBurst is the burst in force: Burst when set, otherwise one
// second's worth of NewUsersPerMinute, rounded down and at least 1; 0 when the
// room has no rate.
func (r Room) EffectiveBurst() int {
	if r.NewUsersPerMinute <= 0 {
		return 0
	}
	if r.Burst > 0 {
		return r.Burst
	}
	return max(1, r.NewUsersPerMinute/60)
}
