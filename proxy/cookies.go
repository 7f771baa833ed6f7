package proxy

import (
	"net/http"
	"strings"
	"time"
)

const (
	ticketCookie = "queuegate_ticket_"
	entryCookie  = "queuegate_entry_"
	// hostPrefix binds a cookie to its host: browsers accept it only over https,
	// without a domain and for the whole site, so that no sibling host can plant one.
	hostPrefix = "__Host-"
	// maxTwins bounds how many cookies of one name are tried. More than one is no
	// normal browser's doing, but a sibling host or an old scheme can leave a bad
	// twin, which must not lock the good one out.
	maxTwins = 4
	// cookieSlack is kept beyond the life of what a cookie holds, so that the
	// gate and not the browser's clock tells when it is over.
	cookieSlack = 100 * time.Second
)

// SecureMode says when the gate's cookies carry Secure.
type SecureMode string

// The values of Cookie.Secure.
const (
	SecureAuto   SecureMode = "auto"   // when the visitor uses https, as clientip tells
	SecureAlways SecureMode = "always" // also where nothing tells the gate that TLS ends before it
	SecureNever  SecureMode = "never"
)

// Cookie shapes the cookies of a room.
type Cookie struct {
	Domain   string        // empty: the host alone
	SameSite http.SameSite // zero: Lax, so that the way back from a payment page brings the pass
	Secure   SecureMode    // empty: SecureAuto
}

// baker writes and reads the two cookies of one room. Nothing else does.
type baker struct {
	room   string
	cookie Cookie
}

// secure reports whether cookies for this request carry Secure.
func (b baker) secure(proto string) bool {
	switch b.cookie.Secure {
	case SecureAlways:
		return true
	case SecureNever:
		return false
	default:
		return proto == "https"
	}
}

// bake returns the cookie that holds value under kind for maxAge.
func (b baker) bake(kind, value string, maxAge time.Duration, proto string) *http.Cookie {
	secure := b.secure(proto)
	name := kind + b.room
	if secure && b.cookie.Domain == "" {
		name = hostPrefix + name
	}
	return &http.Cookie{
		Name: name, Value: value, Path: "/", Domain: b.cookie.Domain,
		MaxAge:   int(max((maxAge+time.Second-1)/time.Second, 1)),
		HttpOnly: true, Secure: secure, SameSite: b.cookie.SameSite,
	}
}

// clear returns the cookies that delete what the request brought under kind: a
// request that brought none gets none, for its answer may arrive after one
// that set a good cookie.
func (b baker) clear(r *http.Request, kind, proto string) []*http.Cookie {
	var cleared []*http.Cookie
	for _, name := range []string{hostPrefix + kind + b.room, kind + b.room} {
		if len(r.CookiesNamed(name)) == 0 {
			continue
		}
		c := b.bake(kind, "", 0, proto)
		c.Name, c.MaxAge = name, -1
		if strings.HasPrefix(name, hostPrefix) { // else browsers ignore it
			c.Secure, c.Domain = true, ""
		}
		cleared = append(cleared, c)
	}
	return cleared
}

// read returns what the request brought under kind in either spelling, at most
// maxTwins values.
func (b baker) read(r *http.Request, kind string) []string {
	var values []string
	for _, name := range []string{hostPrefix + kind + b.room, kind + b.room} {
		for _, c := range r.CookiesNamed(name) {
			if len(values) == maxTwins {
				return values
			}
			values = append(values, c.Value)
		}
	}
	return values
}

// ourCookie reports whether a cookie of this name is one of the gate's, of any
// room.
func ourCookie(name string) bool {
	name = strings.TrimPrefix(name, hostPrefix)
	return strings.HasPrefix(name, ticketCookie) || strings.HasPrefix(name, entryCookie)
}

// stripOurs removes the gate's cookies from Cookie header lines. What is left
// keeps its bytes and its order.
func stripOurs(lines []string) []string {
	var kept []string
	for _, line := range lines {
		if !strings.Contains(line, "queuegate_") {
			kept = append(kept, line)
			continue
		}
		parts := strings.Split(line, ";")
		rest := parts[:0]
		for _, part := range parts {
			name, _, _ := strings.Cut(part, "=")
			if !ourCookie(strings.TrimSpace(name)) {
				rest = append(rest, part)
			}
		}
		if line := strings.TrimLeft(strings.Join(rest, ";"), " \t"); line != "" {
			kept = append(kept, line)
		}
	}
	return kept
}

// dropOurs removes Set-Cookie lines under the gate's names: the shop has no
// business with them.
func dropOurs(lines []string) []string {
	var kept []string
	for _, line := range lines {
		name, _, _ := strings.Cut(line, "=")
		if !ourCookie(strings.TrimSpace(name)) {
			kept = append(kept, line)
		}
	}
	return kept
}
