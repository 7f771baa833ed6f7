package config

import (
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// maxRedisTimeout bounds redis.timeout: longer, and requests pile up in the
// gate while Redis hangs.
const maxRedisTimeout = 5 * time.Second

var (
	keyPrefixPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$`)
	redisDB          = regexp.MustCompile(`^(/[0-9]*)?$`)
)

func (k *checker) redis() {
	r := k.c.Redis
	embedded := k.c.EmbeddedRedis() && k.judge("redis.url", "redis.addrs")
	if embedded {
		k.warn("redis.url", "no Redis is set, so the embedded one runs: one process, nothing durable, at most %s people waiting; for production set redis.url", "1,000")
	}
	if r.URL != "" {
		k.redisURL()
	}
	if r.URL != "" && len(r.Addrs) > 0 {
		k.fail("redis.addrs", "must not be set together with redis.url; remove it")
	}
	for i, addr := range r.Addrs {
		k.redisAddr(index("redis.addrs", i), addr)
	}
	if r.MasterName != "" && len(r.Addrs) == 0 && k.judge("redis.addrs") {
		k.fail("redis.master_name", "needs redis.addrs, the addresses of the Sentinels")
	}
	if r.MasterName == "" && k.judge("redis.master_name") {
		if r.SentinelUsername != "" {
			k.fail("redis.sentinel_username", "needs redis.master_name; set it or remove this")
		}
		if r.SentinelPassword != "" {
			k.fail("redis.sentinel_password", "needs redis.master_name; set it or remove this")
		}
	}
	if embedded && r.Username != "" {
		k.fail("redis.username", "needs redis.url; the embedded Redis has no users")
	}
	if embedded && r.Password != "" {
		k.fail("redis.password", "needs redis.url; the embedded Redis has no password")
	}
	k.redisTLS()
	if !keyPrefixPattern.MatchString(r.KeyPrefix) {
		k.fail("redis.key_prefix", "must be 1 to 40 letters, digits, \"-\", \"_\" or \".\"%s", got(r.KeyPrefix))
	}
	if r.Timeout < time.Millisecond || r.Timeout > maxRedisTimeout {
		k.fail("redis.timeout", "must be between 1ms and %s%s", short(maxRedisTimeout), got(short(r.Timeout)))
	}
}

// redisURL checks redis.url. No message quotes it: it may carry a password.
func (k *checker) redisURL() {
	r := k.c.Redis
	u, err := url.Parse(r.URL.Reveal())
	switch {
	case err != nil:
		k.fail("redis.url", "is not a URL; write redis://host:6379/0 and percent-encode special characters of the password")
		return
	case u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix":
		k.fail("redis.url", "must begin with redis://, rediss:// or unix://")
		return
	case u.Scheme != "unix" && u.Hostname() == "":
		k.fail("redis.url", "names no host; write redis://host:6379/0")
	case u.Scheme == "unix" && u.Path == "":
		k.fail("redis.url", "names no socket; write unix:///run/redis.sock")
	case u.Scheme != "unix" && !redisDB.MatchString(u.Path):
		k.fail("redis.url", "must end with the number of the database, as in redis://host:6379/0")
	case u.Fragment != "":
		k.fail("redis.url", "must not have a \"#\"; percent-encode it as %%23 if it belongs to the password")
	case hasOptions(u):
		k.fail("redis.url", "must not have options after a \"?\" (only ?db=1 after a socket); what can be set has keys of its own in redis")
	}
	if _, has := u.User.Password(); has && r.Password != "" {
		k.fail("redis.password", "must not be set when redis.url carries a password; keep one of them")
	}
	if u.User.Username() != "" && r.Username != "" {
		k.fail("redis.username", "must not be set when redis.url carries a user; keep one of them")
	}
}

// hasOptions reports whether a URL carries what would change how the gate talks
// to Redis: a skip_verify there would turn the check of certificates off unseen.
func hasOptions(u *url.URL) bool {
	query := u.Query()
	if u.Scheme == "unix" && redisDB.MatchString("/"+query.Get("db")) {
		query.Del("db")
	}
	return len(query) > 0 || u.ForceQuery
}

func (k *checker) redisAddr(key, text string) {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || !isPort(port, 1) || strings.ContainsAny(text, "/@ ") {
		k.fail(key, "must be host:port such as redis-0:6379, without scheme or password")
	}
}

func (k *checker) redisTLS() {
	t := k.c.Redis.TLS
	if !t.InUse() || !k.judge("redis.url", "redis.addrs", "redis.tls") {
		return
	}
	overURL := strings.HasPrefix(strings.ToLower(k.c.Redis.URL.Reveal()), "rediss:")
	switch {
	case t.Enabled && len(k.c.Redis.Addrs) == 0:
		k.fail("redis.tls.enabled", "is for redis.addrs; with redis.url write rediss://")
	case !t.Enabled && !overURL:
		k.fail("redis.tls", "needs TLS: write rediss:// in redis.url, or with redis.addrs set enabled: true")
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		k.fail("redis.tls", "needs both cert_file and key_file, or neither")
	}
}
