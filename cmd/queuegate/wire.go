package main

import (
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

// built is a configuration made into parts. This file is the only place that
// maps configuration to their options.
type built struct {
	gate    *proxy.Gate
	metrics *metrics.Metrics
	cert    *proxy.Certificate // nil without TLS
	lines   []namedLine
	redis   redis.UniversalClient
	stop    func() // of the embedded Redis
}

type namedLine struct {
	room string
	line *queue.Line
}

func (b *built) close() {
	if b.redis != nil {
		_ = b.redis.Close()
	}
	if b.stop != nil {
		b.stop()
	}
}

// build makes the parts in the order data flows: Redis, lines, keys, gate. It
// opens no connection, so that it works, and `check` with it, while Redis is away.
func build(c *config.Config, log *slog.Logger) (*built, error) {
	b := &built{}
	gate, err := b.assemble(c, log)
	if err != nil {
		b.close()
		return nil, err
	}
	b.gate = gate
	source := metrics.Source{Loads: gate.Loads}
	for _, l := range b.lines {
		source.Rooms = append(source.Rooms, metrics.Room{Name: l.room, Line: l.line})
	}
	b.metrics.Watch(source)
	return b, nil
}

func (b *built) assemble(c *config.Config, log *slog.Logger) (*proxy.Gate, error) {
	var err error
	if b.metrics, err = metrics.New(metrics.Options{Version: version}); err != nil {
		return nil, err
	}
	if err := b.connect(c); err != nil {
		return nil, err
	}
	keys, err := newKeys(c)
	if err != nil {
		return nil, err
	}
	if c.TLS.CertFile != "" {
		if b.cert, err = proxy.NewCertificate(c.TLS.CertFile, c.TLS.KeyFile, log); err != nil {
			return nil, err
		}
	}
	upstream, err := url.Parse(c.Upstream.URL)
	if err != nil {
		return nil, fmt.Errorf("upstream.url: %w", err)
	}
	trusted, err := prefixes(c.TrustedProxies)
	if err != nil {
		return nil, fmt.Errorf("trusted_proxies: %w", err)
	}
	opts := proxy.Options{
		MaxStreams: mostStreams(), Prefix: c.Prefix, TrustedProxies: trusted, AllowOrigins: c.CORS.AllowOrigins,
		JoinLimit: proxy.JoinLimit{
			PerMinute: c.JoinLimit.PerMinute, IPv4Prefix: c.JoinLimit.IPv4Prefix, IPv6Prefix: c.JoinLimit.IPv6Prefix,
		}, Passes: keys.passes, Tickets: keys.tickets,
		IdentitySecret: keys.identity, RedisTimeout: c.Redis.Timeout, Log: log, Observe: b.metrics.Observe,
		Upstream: proxy.Upstream{
			URL: upstream, DialTimeout: c.Upstream.DialTimeout, ResponseTimeout: c.Upstream.ResponseTimeout,
			MaxRequest: c.Upstream.MaxRequest,
		},
	}
	for i, r := range c.Rooms {
		room, err := b.room(c, r, keys, log)
		if err != nil {
			return nil, fmt.Errorf("rooms[%d] (%s): %w", i, r.Name, err)
		}
		opts.Rooms = append(opts.Rooms, room)
	}
	return proxy.New(opts)
}

// room makes one room and its line. A room where everything passes has none.
func (b *built) room(c *config.Config, r config.Room, keys signingKeys, log *slog.Logger) (proxy.Room, error) {
	room := proxy.Room{
		Name: r.Name, DefaultExempt: r.DefaultExempt, Suspended: r.Suspended,
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
	var lots []byte
	if r.QueueingMethod == config.QueueRandom {
		lots = token.DrawKey(keys.identity, r.Name)
	}
	line, err := queue.New(queue.Options{
		Method: queue.Method(r.QueueingMethod), DrawKey: lots,
		Redis: b.redis, Hints: b.redis, Room: r.Name, Prefix: c.Redis.KeyPrefix, Timeout: c.Redis.Timeout,
		Limits: queue.Limits{
			Slots: int64(r.TotalActiveUsers), PerMinute: int64(r.NewUsersPerMinute), Burst: int64(r.EffectiveBurst()),
		},
		QueueAll: r.QueueAll, Message: r.Page.Message, Session: r.SessionDuration, SessionMax: r.SessionMax,
		DisableRenewal: r.DisableSessionRenewal, MaxRequest: c.Upstream.MaxRequest, ClaimWindow: r.ClaimWindow,
		PresenceWindow: r.PresenceWindow, WaitingTimeout: r.WaitingTimeout, MaxWaiting: maxWaiting(c, r),
		RejoinAfter: r.Consume.RejoinAfter, Log: log, Observe: b.metrics.Script,
		Hold: func() bool { return b.gate.ShopRefuses() },
	})
	if err != nil {
		return proxy.Room{}, err
	}
	room.Line = line
	b.lines = append(b.lines, namedLine{room: r.Name, line: line})
	return room, nil
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

func newKeys(c *config.Config) (signingKeys, error) {
	// Staging and production may share secrets, but no line. A prefix has no slash.
	installation := c.Token.Issuer + "/" + c.Redis.KeyPrefix
	opts := token.Options{Issuer: c.Token.Issuer, Installation: installation, Secret: []byte(c.Token.Secret.Reveal())}
	if len(opts.Secret) == 0 {
		// Only with the embedded Redis, whose line ends with this process as well, or
		// beside a private key and an identity secret, where it is not used.
		opts.Secret = []byte(newSecret())
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
