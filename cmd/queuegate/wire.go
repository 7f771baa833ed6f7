package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/queuegate/queuegate/config"
	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/metrics"
	"github.com/queuegate/queuegate/proxy/page"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// lasting are the parts that stay for as long as the process: every configuration is
// built around them.
type lasting struct {
	name    string // of this gate in its rooms
	metrics *metrics.Metrics
	traces  *tracing           // nil when nobody wants any
	cert    *proxy.Certificate // nil without TLS
	redis   redis.UniversalClient
	stop    func() // of the embedded Redis
	spare   []byte // signs where no secret is set
	live    *lines // those that requests can be about
}

// built is a configuration made into parts. This file is the only place that
// maps configuration to their options.
type built struct {
	*lasting
	config  *config.Config
	gate    *proxy.Gate
	public  http.Handler   // the gate, with spans around it where traces are wanted
	trusted []netip.Prefix // trusted_proxies
	lines   []namedLine
	apply   []func() // gives lines that were there before the options of this configuration
}

type namedLine struct {
	room, prefix string
	line         *queue.Line
}

// key is what lines are told apart by.
func (l namedLine) key() string { return l.prefix + " " + l.room }

// linePrefix begins the keys of a room's line. People in shadow stand in a line of
// their own: when it is over, nobody of them is before those who really wait.
func linePrefix(c *config.Config, r config.Room) string {
	if r.Shadow {
		return c.Redis.KeyPrefix + ":shadow"
	}
	return c.Redis.KeyPrefix
}

// close ends the lines, and what they speak to.
func (l *lasting) close() {
	l.live.end()
	l.traces.close()
	if l.redis != nil {
		_ = l.redis.Close()
	}
	if l.stop != nil {
		l.stop()
	}
}

// build makes the parts in the order data flows: Redis, lines, keys, gate. It
// opens no connection, so that it works, and `check` with it, while Redis is away.
func build(c *config.Config, log *slog.Logger) (*built, error) {
	parts, err := newLasting(c, log)
	if err != nil {
		return nil, err
	}
	b, err := parts.build(c, log, nil)
	if err != nil {
		parts.close()
		return nil, err
	}
	b.watch()
	return b, nil
}

func newLasting(c *config.Config, log *slog.Logger) (*lasting, error) {
	l := &lasting{name: gateName(), spare: []byte(newSecret()), live: newLines()}
	if err := l.open(c, log); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lasting) open(c *config.Config, log *slog.Logger) (err error) {
	if l.metrics, err = metrics.New(metrics.Options{Version: version}); err != nil {
		return err
	}
	if c.TLS.CertFile != "" {
		if l.cert, err = proxy.NewCertificate(c.TLS.CertFile, c.TLS.KeyFile, log); err != nil {
			return err
		}
	}
	if l.traces, err = newTracing(context.Background(), log); err != nil {
		return err
	}
	return l.connect(c)
}

// build makes the parts of a configuration that takes the place of before, nil for
// the first. Nothing that is in force changes by it.
func (l *lasting) build(c *config.Config, log *slog.Logger, before *built) (*built, error) {
	b := &built{lasting: l, config: c}
	var err error
	b.gate, err = b.assemble(c, log, before)
	if err == nil {
		b.public = l.traces.around(b.gate, c.Prefix, b.trusted)
	}
	return b, err
}

// observe tells those who count of a request.
func (l *lasting) observe(o proxy.Observation) {
	l.metrics.Observe(o)
	l.traces.observe(o)
}

// watch has the metrics tell of this configuration.
func (b *built) watch() {
	source := metrics.Source{Loads: b.gate.Loads}
	if b.cert != nil {
		source.CertificateEnds = b.cert.NotAfter
	}
	for _, l := range b.lines {
		source.Rooms = append(source.Rooms, metrics.Room{Name: l.room, Line: l.line})
	}
	b.metrics.Watch(source)
}

// lineOf is the line of a room, nil when it has none.
func (b *built) lineOf(room string) *queue.Line {
	for _, l := range b.lines {
		if l.room == room {
			return l.line
		}
	}
	return nil
}

func (b *built) assemble(c *config.Config, log *slog.Logger, before *built) (*proxy.Gate, error) {
	keys, err := newKeys(c, b.spare)
	if err != nil {
		return nil, err
	}
	upstream, err := shopAt(c, c.Upstream.URL)
	if err != nil {
		return nil, fmt.Errorf("upstream.url: %w", err)
	}
	trusted, err := prefixes(c.TrustedProxies)
	if err != nil {
		return nil, fmt.Errorf("trusted_proxies: %w", err)
	}
	b.trusted = trusted
	opts := proxy.Options{
		MaxStreams: mostStreams(), Prefix: c.Prefix, TrustedProxies: trusted, AllowOrigins: c.CORS.AllowOrigins,
		JoinLimit: proxy.JoinLimit{
			PerMinute: c.JoinLimit.PerMinute, IPv4Prefix: c.JoinLimit.IPv4Prefix, IPv6Prefix: c.JoinLimit.IPv6Prefix,
		}, Passes: keys.passes, Tickets: keys.tickets,
		IdentitySecret: keys.identity, RedisTimeout: c.Redis.Timeout, Log: log, Observe: b.observe,
		Upstream: upstream,
	}
	if before != nil {
		opts.After = before.gate
	}
	for i, r := range c.Rooms {
		room, err := b.room(c, r, keys, log, b.live.of(namedLine{room: r.Name, prefix: linePrefix(c, r)}.key()))
		if err != nil {
			return nil, fmt.Errorf("rooms[%d] (%s): %w", i, r.Name, err)
		}
		opts.Rooms = append(opts.Rooms, room)
	}
	return proxy.New(opts)
}

// shopAt is the shop at an address; all of them are given the same time.
func shopAt(c *config.Config, address string) (proxy.Upstream, error) {
	at, err := url.Parse(address)
	return proxy.Upstream{
		URL: at, DialTimeout: c.Upstream.DialTimeout, ResponseTimeout: c.Upstream.ResponseTimeout,
		MaxRequest: c.Upstream.MaxRequest,
	}, err
}

// room makes one room and its line, or keeps the one there is. A room where
// everything passes has none.
func (b *built) room(c *config.Config, r config.Room, keys signingKeys, log *slog.Logger, line *queue.Line) (proxy.Room, error) {
	room := proxy.Room{
		Name: r.Name, DefaultExempt: r.DefaultExempt, Suspended: r.Suspended, Shadow: r.Shadow,
		Passthrough: r.QueueingMethod == config.QueuePassthrough,
		ClaimWindow: r.ClaimWindow, WaitingTimeout: r.WaitingTimeout,
		QueueingStatusCode: r.QueueingStatusCode, OnRedisError: proxy.OnRedisError(r.OnRedisError),
		MaxInFlight: r.MaxInFlight, ForwardToken: r.ForwardToken,
		Consume: proxy.Consume{Success: r.Consume.Success},
		Cookie: proxy.Cookie{
			Domain: r.Cookie.Domain, SameSite: sameSite(r.Cookie.SameSite), Secure: proxy.SecureMode(r.Cookie.Secure),
			Partitioned: r.Cookie.Partitioned,
		},
		Page: page.Options{
			Title: r.Page.Title, Message: r.Page.Message, Contact: r.Page.Contact, Footer: r.Page.Footer,
			ShowNumbers: r.Page.ShowNumbers, ByLot: r.QueueingMethod == config.QueueRandom,
			NoLine: r.QueueingMethod == config.QueueReject,
			Logo:   r.Page.Logo, Accent: r.Page.Accent, Template: r.Page.Template, Languages: r.Page.Languages,
			DefaultLanguage: r.Page.DefaultLanguage, Locales: r.Page.Locales, FrameAncestors: r.Page.FrameAncestors,
		},
	}
	err := page.Check(room.Page)
	if err != nil {
		return proxy.Room{}, err
	}
	if r.Upstream != "" {
		if room.Upstream, err = shopAt(c, r.Upstream); err != nil {
			return proxy.Room{}, fmt.Errorf("upstream: %w", err)
		}
	}
	if room.Protect, err = rules(r.Protect); err != nil {
		return proxy.Room{}, err
	}
	if room.Exempt, err = rules(r.Exempt); err != nil {
		return proxy.Room{}, err
	}
	if room.Consume.Routes, err = rules(r.Consume.Routes); err != nil {
		return proxy.Room{}, err
	}
	if room.Identity, err = identity(r.Identity); err != nil {
		return proxy.Room{}, fmt.Errorf("identity: %w", err)
	}
	if room.Suspended || room.Passthrough {
		return room, nil
	}
	opts := b.lineOptions(c, r, keys, log)
	if line == nil {
		line, err = queue.New(opts)
	} else {
		var apply func()
		apply, err = line.Prepare(opts)
		b.apply = append(b.apply, apply)
	}
	if err != nil {
		return proxy.Room{}, err
	}
	room.Line = line
	b.lines = append(b.lines, namedLine{room: r.Name, prefix: linePrefix(c, r), line: line})
	return room, nil
}

func (b *built) lineOptions(c *config.Config, r config.Room, keys signingKeys, log *slog.Logger) queue.Options {
	var lots []byte
	if r.QueueingMethod == config.QueueRandom {
		lots = token.DrawKey(keys.identity, r.Name)
	}
	return queue.Options{
		Method: queue.Method(r.QueueingMethod), DrawKey: lots,
		Gate: b.name, Version: version,
		Redis: b.redis, Hints: b.redis, Room: r.Name, Prefix: linePrefix(c, r), Timeout: c.Redis.Timeout,
		Limits: queue.Limits{
			Slots: int64(r.TotalActiveUsers), PerMinute: int64(r.NewUsersPerMinute), Burst: int64(r.EffectiveBurst()),
		},
		QueueAll: r.QueueAll, Message: r.Page.Message, Session: r.SessionDuration, SessionMax: r.SessionMax,
		DisableRenewal: r.DisableSessionRenewal, MaxRequest: c.Upstream.MaxRequest, ClaimWindow: r.ClaimWindow,
		PresenceWindow: r.PresenceWindow, WaitingTimeout: r.WaitingTimeout, MaxWaiting: maxWaiting(c, r),
		RejoinAfter: r.Consume.RejoinAfter, Log: log, Observe: b.metrics.Script,
		Hold: func() bool { return b.gate.ShopRefuses(r.Name) },
	}
}

// identity makes the verifier of the shop's tokens.
func identity(i config.Identity) (proxy.Identity, error) {
	out := proxy.Identity{Header: i.Header}
	if !i.JWT.InUse() {
		return out, nil
	}
	opts := token.IdentityOptions{Claim: i.JWT.Claim, Issuer: i.JWT.Issuer, Audience: i.JWT.Audience}
	for n, key := range i.JWT.Keys {
		public, err := key.PublicKey()
		switch {
		case err != nil:
			return out, fmt.Errorf("jwt.keys[%d]: %w", n, err)
		case public != nil:
			opts.PublicKeys = append(opts.PublicKeys, public)
		default:
			opts.Secrets = append(opts.Secrets, []byte(key.Reveal()))
		}
	}
	var err error
	out.Cookie, out.TokenHeader = i.JWT.Cookie, i.JWT.Header
	out.Token, err = token.NewIdentity(opts)
	return out, err
}

func maxWaiting(c *config.Config, r config.Room) int64 {
	if c.EmbeddedRedis() && r.MaxWaiting == 0 {
		return embeddedMost
	}
	return int64(r.MaxWaiting)
}

// signingKeys are what tokens and tickets are made with.
type signingKeys struct {
	passes   *token.Authority
	tickets  *token.Tickets
	identity []byte
}

// newKeys makes them; spare signs where no secret is set.
func newKeys(c *config.Config, spare []byte) (signingKeys, error) {
	// Staging and production may share secrets, but no line. A prefix has no slash.
	installation := c.Token.Issuer + "/" + c.Redis.KeyPrefix
	opts := token.Options{Issuer: c.Token.Issuer, Installation: installation, Secret: []byte(c.Token.Secret.Reveal())}
	if len(opts.Secret) == 0 {
		// Only with the embedded Redis, whose line ends with this process as well, or
		// beside a private key and an identity secret, where it is not used.
		opts.Secret = spare
	}
	var err error
	if opts.PrivateKey, err = c.Token.PrivateKey.PrivateKey(); err != nil {
		return signingKeys{}, fmt.Errorf("token.private_key: %w", err)
	}
	for i, previous := range c.Token.Previous {
		public, err := previous.VerifyKey()
		switch {
		case err != nil:
			return signingKeys{}, fmt.Errorf("token.previous[%d]: %w", i, err)
		case public != nil:
			opts.PreviousPublic = append(opts.PreviousPublic, public)
		default:
			opts.Previous = append(opts.Previous, []byte(previous.Reveal()))
		}
	}
	identity := []byte(c.Token.IdentitySecret.Reveal())
	if len(identity) == 0 {
		identity = opts.Secret
	}
	keys := signingKeys{identity: token.DeriveIdentitySecret(identity, installation)}
	if keys.passes, err = token.New(opts); err != nil {
		return signingKeys{}, fmt.Errorf("token: %w", err)
	}
	if keys.tickets, err = token.NewTickets(identity, installation); err != nil {
		return signingKeys{}, fmt.Errorf("token: %w", err)
	}
	return keys, nil
}

func rules(list []config.Rule) ([]route.Rule, error) {
	out := make([]route.Rule, len(list))
	for i, r := range list {
		cidrs, err := prefixes(r.CIDRs)
		if err != nil {
			return nil, err
		}
		out[i] = route.Rule{
			Paths: r.Paths, Methods: r.Methods, Hosts: r.Hosts, CIDRs: cidrs, CaseSensitive: r.CaseSensitive,
		}
	}
	return out, nil
}

func prefixes(list []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, len(list))
	for i, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		out[i] = prefix
	}
	return out, nil
}

func sameSite(name string) http.SameSite {
	switch name {
	case config.SameSiteStrict:
		return http.SameSiteStrictMode
	case config.SameSiteNone:
		return http.SameSiteNoneMode
	default:
		return http.SameSiteLaxMode
	}
}
