package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
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
	// twin, which must not lock the good one out. A browser sends one for each
	// domain above the host and each path above the page; those are few.
	maxTwins = 16
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
	// Domain makes the cookies those of a domain and all hosts below it; empty:
	// the host alone, which is also what a host elsewhere gets, for browsers drop
	// a cookie of a domain that is not theirs.
	Domain   string
	SameSite http.SameSite // zero: Lax, so that the way back from a payment page brings the pass
	Secure   SecureMode    // empty: SecureAuto
	// Partitioned gives the cookies a jar of their own for each site that frames
	// the shop; it needs SameSite none and SecureAlways.
	Partitioned bool
}

// site is how the browser sees the gate.
type site struct {
	proto, host string // host in small letters, without port
}

// validate says which of the rules is broken by which browsers drop a cookie.
func (c Cookie) validate() error {
	switch c.Secure {
	case SecureAuto, SecureAlways, SecureNever:
	default:
		return fmt.Errorf("Cookie.Secure is %q; use auto, always or never", c.Secure)
	}
	switch {
	case c.SameSite == http.SameSiteNoneMode && c.Secure == SecureNever:
		return errors.New("Cookie.SameSite none needs Secure: browsers drop the cookie otherwise")
	case c.Partitioned && (c.SameSite != http.SameSiteNoneMode || c.Secure != SecureAlways):
		return errors.New("Cookie.Partitioned needs SameSite none and Secure always: browsers drop the cookie otherwise")
	}
	return nil
}

// domainAt is the Domain of a cookie at a host; false when the one configured
// is not the host's, so that the cookie is the host's alone.
func (c Cookie) domainAt(host string) (domain string, ok bool) {
	domain = strings.ToLower(c.Domain)
	if domain == "" || host == domain || strings.HasSuffix(host, "."+domain) {
		return domain, true
	}
	return "", false
}

// baker writes and reads the two cookies of one room. Nothing else does.
type baker struct {
	room          string
	cookie        Cookie
	ticket, entry [2]string // the names they have, see names
}

func newBaker(room string, c Cookie) baker {
	return baker{
		room: room, cookie: c,
		ticket: [2]string{hostPrefix + ticketCookie + room, ticketCookie + room},
		entry:  [2]string{hostPrefix + entryCookie + room, entryCookie + room},
	}
}

// secure reports whether cookies for this request carry Secure.
func (b *baker) secure(proto string) bool {
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
func (b *baker) bake(kind, value string, maxAge time.Duration, at site) *http.Cookie {
	secure := b.secure(at.proto)
	domain, _ := b.cookie.domainAt(at.host)
	names := b.names(kind)
	name := names[1]
	if secure && domain == "" {
		name = names[0]
	}
	return &http.Cookie{
		Name: name, Value: value, Path: "/", Domain: domain,
		MaxAge:   int(max((maxAge+time.Second-1)/time.Second, 1)),
		HttpOnly: true, Secure: secure, SameSite: b.cookie.SameSite, Partitioned: b.cookie.Partitioned,
	}
}

// clear returns the cookies that delete what the request brought under kind: a
// request that brought none gets none, for its answer may arrive after one
// that set a good cookie. A name without the host's prefix can be a cookie of the
// domain or of the host alone, which one the request does not say.
func (b *baker) clear(r *http.Request, kind string, at site) []*http.Cookie {
	var cleared []*http.Cookie
	brought := func(name string) bool { return len(r.CookiesNamed(name)) > 0 }
	plain := b.bake(kind, "", 0, at)
	plain.Name, plain.MaxAge = kind+b.room, -1
	if brought(hostPrefix + plain.Name) {
		host := *plain
		host.Name, host.Domain, host.Secure = hostPrefix+plain.Name, "", true // else browsers ignore it
		cleared = append(cleared, &host)
	}
	if brought(plain.Name) {
		cleared = append(cleared, plain)
		if plain.Domain != "" {
			host := *plain
			host.Domain = ""
			cleared = append(cleared, &host)
		}
	}
	return cleared
}

// read appends to into what the request brought under kind in either spelling, at most
// maxTwins values. It reads cookies as net/http does, which allocates each of them and
// everything around: five pieces a request with a pass.
func (b *baker) read(into []string, r *http.Request, kind string) []string {
	most := len(into) + maxTwins
	for _, name := range b.names(kind) {
		for _, line := range r.Header["Cookie"] {
			if !strings.Contains(line, name) {
				continue
			}
			for part := range strings.SplitSeq(line, ";") {
				if value, ok := cookieValue(part, name); ok && len(into) < most {
					into = append(into, value)
				}
			}
		}
	}
	return into
}

// cookieValue is the value of one part of a Cookie line that holds the cookie of this
// name, without quotes around it. A value with bytes that none may have is no cookie.
func cookieValue(part, name string) (value string, ok bool) {
	named, value, _ := strings.Cut(textproto.TrimString(part), "=")
	if textproto.TrimString(named) != name {
		return "", false
	}
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c >= 0x7f || c == '"' || c == ';' || c == '\\' {
			return "", false
		}
	}
	return value, true
}

// names are those of the cookies of a kind, in the order in which they are believed.
func (b *baker) names(kind string) [2]string {
	if kind == entryCookie {
		return b.entry
	}
	return b.ticket
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
		if line := strings.TrimLeft(withoutOurs(line), " \t"); line != "" {
			kept = append(kept, line)
		}
	}
	return kept
}

// withoutOurs is one line without the gate's cookies.
func withoutOurs(line string) string {
	var kept strings.Builder
	some := false
	for part := range strings.SplitSeq(line, ";") {
		if name, _, _ := strings.Cut(part, "="); ourCookie(strings.TrimSpace(name)) {
			continue
		}
		if some {
			kept.WriteByte(';')
		} else {
			kept.Grow(len(line))
		}
		kept.WriteString(part)
		some = true
	}
	return kept.String()
}

// dropOurs removes Set-Cookie lines under the gate's names: the shop has no
// business with them.
func dropOurs(lines []string) []string {
	var kept []string
	for _, line := range lines {
		if !ourCookie(cookieName(line)) {
			kept = append(kept, line)
		}
	}
	return kept
}

// cookieName is the name that the cookie of a Set-Cookie line has when it comes
// back: a browser sends one without a name as its value alone, which then reads
// as a cookie of whatever name it begins with.
func cookieName(line string) string {
	name, value, _ := strings.Cut(line, "=")
	if strings.TrimSpace(name) == "" {
		name, _, _ = strings.Cut(value, "=")
	}
	return strings.TrimSpace(name)
}

// setsOurs reports whether an answer of the shop sets a cookie under one of the
// gate's names.
func setsOurs(h http.Header) bool {
	lines := h["Set-Cookie"]
	return len(dropOurs(lines)) < len(lines)
}
