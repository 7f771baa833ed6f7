package config

import (
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// cookie checks that browsers keep what the gate sets: all of them drop a cookie that
// breaks these rules without a word, and its visitor would wait for ever.
func (k *checker) cookie(key string, r Room) {
	c := r.Cookie
	k.oneOf(key+".same_site", c.SameSite, SameSiteLax, SameSiteStrict, SameSiteNone)
	k.oneOf(key+".secure", c.Secure, SecureAuto, SecureAlways, SecureNever)
	if c.SameSite == SameSiteNone && c.Secure != SecureAlways && k.judge(key+".secure") {
		k.fail(key+".same_site", "\"none\" needs cookie.secure: always; browsers drop such a cookie otherwise")
	}
	if c.Partitioned && c.SameSite != SameSiteNone && k.judge(key+".same_site") {
		k.fail(key+".partitioned", "needs cookie.same_site: none; it is for a shop in the frame of another site")
	}
	if c.Domain != "" {
		k.cookieDomain(key+".domain", r)
	}
}

func (k *checker) cookieDomain(key string, r Room) {
	before := len(k.problems)
	domain := strings.ToLower(r.Cookie.Domain)
	k.host(key, r.Cookie.Domain)
	if len(k.problems) > before {
		return
	}
	if _, err := netip.ParseAddr(strings.Trim(domain, "[]")); err == nil {
		k.fail(key, "must be a domain; a cookie for an address belongs to that address alone, so leave it empty%s", got(r.Cookie.Domain))
		return
	}
	if suffix, _ := publicsuffix.PublicSuffix(domain); suffix == domain {
		k.fail(key, "is a public suffix, under which anybody can have a site; browsers drop such a cookie%s", got(r.Cookie.Domain))
		return
	}
	for _, rule := range r.Protect {
		for _, host := range rule.Hosts {
			if name := strings.ToLower(strings.TrimSuffix(host, ".")); name != domain && !strings.HasSuffix(name, "."+domain) {
				k.fail(key, "does not cover the host %s that the room protects; browsers drop the cookie there%s", host, got(r.Cookie.Domain))
			}
		}
	}
}
