package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var prefixPattern = regexp.MustCompile(`^(/[A-Za-z0-9_~.-]+)+$`)

// Validate checks a configuration made by hand by the rules Load applies. The
// error is a *Problems; warnings come with and without it.
func (c *Config) Validate() ([]Problem, error) {
	k := check(c, func(string) bool { return false })
	if len(k.problems) > 0 {
		return k.warnings, &Problems{List: k.problems}
	}
	return k.warnings, nil
}

// checker applies the rules to one configuration.
type checker struct {
	c *Config
	// unreadable says whether the value at a key is not what the operator
	// wrote, so that no rule on it can be judged.
	unreadable func(key string) bool
	problems   []Problem
	warnings   []Problem
}

func check(c *Config, unreadable func(string) bool) *checker {
	k := &checker{c: c, unreadable: unreadable}
	k.gate()
	k.upstream("upstream.url", c.Upstream.URL)
	k.redis()
	k.token()
	k.admin()
	k.rooms()
	return k
}

// fail reports that the value at key breaks a rule.
func (k *checker) fail(key, format string, args ...any) {
	if k.judge(key) {
		k.problems = append(k.problems, Problem{Key: key, Message: fmt.Sprintf(format, args...)})
	}
}

func (k *checker) warn(key, format string, args ...any) {
	if k.judge(key) {
		k.warnings = append(k.warnings, Problem{Key: key, Message: fmt.Sprintf(format, args...)})
	}
}

// judge reports whether all keys a rule looks at could be read.
func (k *checker) judge(keys ...string) bool { return !slices.ContainsFunc(keys, k.unreadable) }

// failed reports whether a problem with key is already known.
func (k *checker) failed(key string) bool {
	return slices.ContainsFunc(k.problems, func(p Problem) bool { return within(p.Key, key) })
}

func (k *checker) gate() {
	c := k.c
	k.hostPort("listen", c.Listen)
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") && k.judge("tls") {
		k.fail("tls", "needs both cert_file and key_file, or neither")
	}
	if c.H2C && c.TLS.CertFile != "" && k.judge("tls", "h2c") {
		k.fail("h2c", "must not be set with tls; HTTP/2 comes with TLS")
	}
	k.prefix()
	k.cidrs("trusted_proxies", c.TrustedProxies)
	for i, cidr := range c.TrustedProxies {
		if isEverybody(cidr) {
			k.warn(index("trusted_proxies", i), "trusts every client to say who it is; name the networks of your own proxies")
		}
	}
	k.positive("upstream.dial_timeout", c.Upstream.DialTimeout)
	k.positive("upstream.response_timeout", c.Upstream.ResponseTimeout)
	k.positive("upstream.max_request", c.Upstream.MaxRequest)
	if c.Upstream.ResponseTimeout > c.Upstream.MaxRequest && k.judge("upstream.response_timeout", "upstream.max_request") {
		k.fail("upstream.response_timeout", "must not be above upstream.max_request (%s > %s)",
			short(c.Upstream.ResponseTimeout), short(c.Upstream.MaxRequest))
	}
	for i, origin := range c.CORS.AllowOrigins {
		k.origin(index("cors.allow_origins", i), origin)
	}
	k.notNegative("join_limit.per_minute", c.JoinLimit.PerMinute)
	k.between("join_limit.ipv4_prefix", c.JoinLimit.IPv4Prefix, 1, 32)
	k.between("join_limit.ipv6_prefix", c.JoinLimit.IPv6Prefix, 1, 128)
	k.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	k.oneOf("log.format", c.Log.Format, "json", "text")
	if c.Shutdown.DrainDelay < 0 {
		k.fail("shutdown.drain_delay", "must not be negative%s", got(short(c.Shutdown.DrainDelay)))
	}
	k.positive("shutdown.grace", c.Shutdown.Grace)
}

func (k *checker) prefix() {
	prefix := k.c.Prefix
	switch {
	case prefix == "/" || prefix == "":
		k.fail("prefix", "must be a path of its own, not the whole site; the default is /_queue%s", got(prefix))
	case !strings.HasPrefix(prefix, "/"):
		k.fail("prefix", "must start with \"/\"%s", got(prefix))
	case !prefixPattern.MatchString(prefix) || slices.ContainsFunc(segmentsOf(prefix), isDots):
		k.fail("prefix", "must be plain segments of letters, digits, \"-\", \"_\", \".\" and \"~\", without a \"/\" at the end%s", got(prefix))
	}
}

func isDots(segment string) bool { return segment == "." || segment == ".." }

// upstream checks the URL of a shop.
func (k *checker) upstream(key, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.Opaque != "":
		// The text is not quoted: what cannot be parsed may hold a password.
		k.fail(key, "must be an absolute http or https URL such as http://127.0.0.1:9000")
	case u.User != nil:
		k.fail(key, "must not carry a user or password; remove what stands before the \"@\"")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		k.fail(key, "must not have a query or fragment; requests keep their own")
	case u.Path != "" && u.Path != "/":
		k.fail(key, "must not have a path; requests keep their own%s", got(u.Path))
	case u.Port() != "" && !isPort(u.Port(), 1):
		k.fail(key, "must have a port between 1 and 65535%s", got(u.Port()))
	default:
		k.loop(key, text)
	}
}

// origin checks one origin, which is compared with what browsers send letter by
// letter.
func (k *checker) origin(key, text string) {
	u, err := url.Parse(text)
	switch {
	case text == "*" || text == "null":
		k.fail(key, "must not be %q: any site could then act for your visitors; list the origins", text)
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || strings.Contains(text, "*") || text != u.Scheme+"://"+strings.ToLower(u.Host):
		k.fail(key, "must be an origin such as https://shop.example.com: scheme and host in lower case and nothing behind them%s", got(text))
	case u.Scheme == "http" && u.Port() == "80", u.Scheme == "https" && u.Port() == "443":
		k.fail(key, "must be written as browsers do, without the default port; write %s://%s", u.Scheme, u.Hostname())
	case u.Port() == "" && strings.HasSuffix(u.Host, ":"), u.Port() != "" && !isPort(u.Port(), 1):
		k.fail(key, "must have a port between 1 and 65535%s", got(text))
	}
}

func (k *checker) hostPort(key, text string) {
	_, port, err := net.SplitHostPort(text)
	if err != nil || !isPort(port, 0) || strings.ContainsAny(text, "/@ ") {
		k.fail(key, "must be host:port such as :8080 or 127.0.0.1:9090%s", got(text))
	}
}

func isPort(text string, least int) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && int(n) >= least
}

// isLoopback reports whether an address to listen on is reached from this
// machine only.
func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (k *checker) cidrs(key string, list []string) {
	for i, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if ip, bare := netip.ParseAddr(text); err != nil && bare == nil {
			k.fail(index(key, i), "must be a CIDR; for one address write %s/%d", ip.WithZone(""), ip.BitLen())
		} else if err != nil {
			k.fail(index(key, i), "must be a CIDR such as 10.0.0.0/8 or fd00::/8%s", got(text))
		} else if prefix != prefix.Masked() {
			k.fail(index(key, i), "has bits set behind its length; write %s%s", prefix.Masked(), got(text))
		}
	}
}

// isEverybody reports whether a CIDR holds all addresses of its kind.
func isEverybody(cidr string) bool {
	prefix, err := netip.ParsePrefix(cidr)
	return err == nil && prefix.Bits() == 0
}

func (k *checker) positive(key string, d time.Duration) {
	if d <= 0 {
		k.fail(key, "must be above zero%s", got(short(d)))
	}
}

func (k *checker) notNegative(key string, n int) {
	if n < 0 {
		k.fail(key, "must not be negative%s", got(strconv.Itoa(n)))
	}
}

func (k *checker) between(key string, n, least, most int) {
	if n < least || n > most {
		k.fail(key, "must be between %d and %d%s", least, most, got(strconv.Itoa(n)))
	}
}

func (k *checker) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		k.fail(key, "must be one of %s%s", strings.Join(allowed, ", "), got(value))
	}
}

// short writes a duration as people do: 5m, not 5m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
