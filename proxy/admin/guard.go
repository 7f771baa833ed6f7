package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/proxy/clientip"
)

// guard decides who is answered on the admin listener.
//
//   - Only peers within Allow, by the address of the connection: X-Forwarded-For is
//     whatever a client writes, and no proxy belongs in front of this listener.
//   - Without a token the listener is on loopback (the configuration sees to that),
//     and the Host of a request must be this machine's: a page that a browser here
//     shows can have its own name resolve to 127.0.0.1 (DNS rebinding), but it cannot
//     change the Host the browser sends.
//   - With a token every request but that for the page of the dashboard, which holds
//     nothing, needs it. It is compared in constant time, and an
//     address that shows wrong ones has to wait.
//   - No other site may make a browser change anything (CSRF): by what the browser
//     says of the request (Sec-Fetch-Site, Origin), and because bodies have to be
//     JSON by their Content-Type.
type guard struct {
	token  *[sha256.Size]byte // nil: none is asked for
	allow  []netip.Prefix
	wrong  *attempts
	others http.CrossOriginProtection
	peer   *clientip.Resolver
	log    *slog.Logger
}

func newGuard(o Options) *guard {
	g := &guard{wrong: newAttempts(o.Now), peer: clientip.New(nil), log: o.Log}
	if o.Token != "" {
		sum := sha256.Sum256([]byte(o.Token))
		g.token = &sum
	}
	for _, p := range o.Allow {
		g.allow = append(g.allow, unmapped(p))
	}
	return g
}

// unmapped is a prefix as addresses of peers are compared with it.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}

// protect lets through to h who may and shows the token.
func (g *guard) protect(h http.HandlerFunc) http.HandlerFunc {
	return g.admit(func(w http.ResponseWriter, r *http.Request) {
		if g.token == nil || g.shows(w, r, g.peer.Of(r)) {
			h(w, r)
		}
	})
}

// admit lets through to h who may, with or without the token.
func (g *guard) admit(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer := g.peer.Of(r)
		switch {
		case !g.allowed(peer):
			g.log.WarnContext(r.Context(), "admin request refused", "peer", peer.String(), "reason", "address")
			refuse(w, http.StatusForbidden, "address", "The address "+peer.String()+" is not within admin.allow.")
		case g.token == nil && !isLocal(r.Host):
			refuse(w, http.StatusForbidden, "host", "Without admin.token only requests for localhost, 127.0.0.1 or [::1] are answered; set a token to use another name.")
		case g.others.Check(r) != nil:
			refuse(w, http.StatusForbidden, "cross-site", "Another site asked for this change.")
		default:
			h(w, r)
		}
	}
}

func (g *guard) allowed(peer netip.Addr) bool {
	if len(g.allow) == 0 {
		return true
	}
	for _, p := range g.allow {
		if p.Contains(peer) {
			return true
		}
	}
	return false
}

// isLocal tells whether a Host names this machine by an address of loopback or as
// localhost.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// shows tells whether a request brings the token, and answers it when not. While an
// address has to wait nothing it shows is looked at: guessing goes no faster.
func (g *guard) shows(w http.ResponseWriter, r *http.Request, peer netip.Addr) bool {
	if wait := g.wrong.wait(peer); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		refuse(w, http.StatusTooManyRequests, "too-many-attempts", "Your address has shown wrong tokens too often. Try again after the time in Retry-After.")
		return false
	}
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(shown)))
	if subtle.ConstantTimeCompare(g.token[:], sum[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
		return true
	}
	if shown != "" { // who shows none guesses nothing
		g.wrong.count(peer)
		g.log.WarnContext(r.Context(), "admin request refused", "peer", peer.String(), "reason", "token")
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="queuegate admin"`)
	refuse(w, http.StatusUnauthorized, "unauthorized", "Send the admin token as Authorization: Bearer.")
	return false
}
