package config

import "time"

// Config is the whole configuration of one gate. Load and Parse build it; a
// Config made by hand starts from Default and is checked with Validate.
type Config struct {
	// Listen is the public address, host:port; an empty host means all.
	Listen string `yaml:"listen"`
	// TLS makes the public listener speak TLS and HTTP/2.
	TLS TLS `yaml:"tls"`
	// H2C accepts HTTP/2 without TLS on the public listener.
	H2C bool `yaml:"h2c"`
	// Prefix is the path under which the gate answers itself; requests below
	// it never reach the shop.
	Prefix string `yaml:"prefix"`
	// TrustedProxies are the CIDRs whose X-Forwarded-* headers are believed.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// Upstream is the shop behind the gate.
	Upstream Upstream `yaml:"upstream"`
	// Redis is where the line lives.
	Redis Redis `yaml:"redis"`
	// Token signs entry tokens and tickets.
	Token Token `yaml:"token"`
	// Admin is the listener for probes, metrics and operators.
	Admin Admin `yaml:"admin"`
	// CORS lets pages of other origins use the visitor API.
	CORS CORS `yaml:"cors"`
	// JoinLimit bounds first joins per client address.
	JoinLimit JoinLimit `yaml:"join_limit"`
	// Log says how much is logged and in which form.
	Log Log `yaml:"log"`
	// Readiness says what /readyz depends on.
	Readiness Readiness `yaml:"readiness"`
	// Shutdown says how the gate leaves.
	Shutdown Shutdown `yaml:"shutdown"`
	// Rooms are the waiting rooms; at least one.
	Rooms []Room `yaml:"rooms"`
}

// TLS names the certificate of the public listener; both files or none.
type TLS struct {
	// CertFile is a PEM file with the certificate chain.
	CertFile string `yaml:"cert_file"`
	// KeyFile is a PEM file with its private key.
	KeyFile string `yaml:"key_file"`
}

// Upstream is the shop behind the gate and how long the gate waits for it.
type Upstream struct {
	// URL is scheme and host of the shop, http or https.
	URL string `yaml:"url"`
	// DialTimeout bounds the connect to the shop.
	DialTimeout time.Duration `yaml:"dial_timeout"`
	// ResponseTimeout bounds the wait for the shop's response header, which may last a
	// sixteenth longer.
	ResponseTimeout time.Duration `yaml:"response_timeout"`
	// MaxRequest is the longest a request in flight keeps its slot.
	MaxRequest time.Duration `yaml:"max_request"`
}

// Redis is where the line lives. With neither URL nor Addrs the gate runs an
// embedded store: one process, nothing durable.
type Redis struct {
	// URL is a redis://, rediss:// or unix:// address. It is a Secret because
	// it may carry a password; Address shows it without.
	URL Secret `yaml:"url"`
	// Addrs are host:port of Cluster nodes, or of Sentinels with MasterName.
	Addrs []string `yaml:"addrs"`
	// MasterName is the name Sentinel knows the primary by.
	MasterName string `yaml:"master_name"`
	// Username logs in to Redis when the URL carries no user.
	Username string `yaml:"username"`
	// Password logs in to Redis when the URL carries no password.
	Password Secret `yaml:"password"`
	// TLS is how TLS is spoken, with Sentinels as well.
	TLS RedisTLS `yaml:"tls"`
	// SentinelUsername logs in to the Sentinels.
	SentinelUsername string `yaml:"sentinel_username"`
	// SentinelPassword logs in to the Sentinels.
	SentinelPassword Secret `yaml:"sentinel_password"`
	// KeyPrefix begins every key of this gate in Redis.
	KeyPrefix string `yaml:"key_prefix"`
	// Timeout bounds all Redis work of one request.
	Timeout time.Duration `yaml:"timeout"`
}

// RedisTLS is how the gate speaks TLS with Redis.
type RedisTLS struct {
	// Enabled speaks TLS with Addrs; a URL says it with rediss://.
	Enabled bool `yaml:"enabled"`
	// CAFile is a PEM file of the authorities that sign the servers'
	// certificates; empty means those of the system.
	CAFile string `yaml:"ca_file"`
	// CertFile is a PEM file with the gate's own certificate chain, for
	// servers that ask for one.
	CertFile string `yaml:"cert_file"`
	// KeyFile is a PEM file with its private key.
	KeyFile string `yaml:"key_file"`
	// ServerName is the name the certificates must have; empty means the host
	// that was connected to.
	ServerName string `yaml:"server_name"`
}

// InUse reports whether anything of it is set.
func (t RedisTLS) InUse() bool { return t != RedisTLS{} }

// Token signs entry tokens and tickets.
type Token struct {
	// Issuer is the iss claim.
	Issuer string `yaml:"issuer"`
	// Secret signs entry tokens with HS256, at least 32 bytes; the same on all
	// gates. Empty only with the embedded Redis, or with both PrivateKey and
	// IdentitySecret.
	Secret Secret `yaml:"secret"`
	// PrivateKey is a PEM private key, or the file that holds it; after
	// loading always the PEM text. Entry tokens are then EdDSA or ES256.
	PrivateKey Secret `yaml:"private_key"`
	// Previous are secrets, and public or private keys in PEM, that are accepted
	// beside the one that signs: while rotating those of before and after. An item
	// that begins with "/", "./" or "../" names a file; after loading every
	// item is the secret or the PEM text itself.
	Previous []Secret `yaml:"previous"`
	// IdentitySecret keys tickets, identity hashes and draws, at least 32
	// bytes; derived from Secret when empty.
	IdentitySecret Secret `yaml:"identity_secret"`
}

// Admin is the listener for probes, metrics and operators.
type Admin struct {
	// Listen is its address, host:port.
	Listen string `yaml:"listen"`
	// Token is the bearer token; required unless Listen is loopback.
	Token Secret `yaml:"token"`
	// Allow are the CIDRs that are answered, by real peer; empty means all. The
	// probes answer everybody.
	Allow []string `yaml:"allow"`
	// Pprof serves the Go profiles at /debug/pprof/.
	Pprof bool `yaml:"pprof"`
}

// CORS lets pages of other origins use the visitor API.
type CORS struct {
	// AllowOrigins are the origins, as https://shop.example.com.
	AllowOrigins []string `yaml:"allow_origins"`
}

// JoinLimit bounds first joins per client address; polls are never counted.
type JoinLimit struct {
	// PerMinute is the number of first joins of one address a minute, 0 = off.
	PerMinute int `yaml:"per_minute"`
	// IPv4Prefix is how many leading bits of an IPv4 address count as one.
	IPv4Prefix int `yaml:"ipv4_prefix"`
	// IPv6Prefix is how many leading bits of an IPv6 address count as one.
	IPv6Prefix int `yaml:"ipv6_prefix"`
}

// Log says how much is logged and in which form.
type Log struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level"`
	// Format is json or text.
	Format string `yaml:"format"`
}

// Readiness says what /readyz depends on.
type Readiness struct {
	// RequireRedis makes /readyz fail while Redis is away.
	RequireRedis bool `yaml:"require_redis"`
}

// Shutdown says how the gate leaves.
type Shutdown struct {
	// DrainDelay is how long new requests are still taken after the signal
	// while /readyz already fails.
	DrainDelay time.Duration `yaml:"drain_delay"`
	// Grace is how long requests in flight may take after that.
	Grace time.Duration `yaml:"grace"`
}

// EmbeddedRedis reports whether no Redis is configured, so that the gate runs
// its own: one process, nothing durable, at most 1,000 people waiting.
func (c *Config) EmbeddedRedis() bool {
	return c.Redis.URL == "" && len(c.Redis.Addrs) == 0
}
