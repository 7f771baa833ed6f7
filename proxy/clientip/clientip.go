// Package clientip finds out which address a request really comes from when
// proxies may stand in front of the gate.
//
// A client can write any X-Forwarded-For it likes. The header is worth reading
// only as far as the proxies that wrote it are known: each proxy appends the
// address it saw, so the list is true from the right for as long as it was
// written by hops the operator trusts, and worth nothing to the left of the
// first one who is not trusted. [Resolver] therefore starts at the TCP peer,
// which nobody can invent, and walks the list from right to left.
//
// Forwarded, X-Real-IP, CF-Connecting-IP, True-Client-IP and their like are
// never read: a proxy that does not set them passes on what the client sent.
// Proxies that only set such a header must be told to append X-Forwarded-For.
//
// To verify before going live: send a request from a known address with
// "X-Forwarded-For: 192.0.2.1" through every proxy and look at the gate's
// access log. It must show the known address. If it shows a proxy's address
// that proxy is missing from the trusted list; if it shows 192.0.2.1 the list
// trusts too much, and anybody can be anybody.
package clientip

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const (
	forwardedFor   = "X-Forwarded-For"
	forwardedProto = "X-Forwarded-Proto"
)

// Resolver tells the client's address and scheme of a request. It holds no
// state beside the trusted prefixes and is safe for concurrent use. The zero
// value and a nil Resolver trust nobody.
type Resolver struct {
	trusted []netip.Prefix
}

// New returns a Resolver that believes X-Forwarded-* of peers within trusted.
// An empty list trusts nobody: the TCP peer is the client. Prefixes may be
// written in IPv4-mapped form (::ffff:10.0.0.0/104); those that are not valid
// match nothing.
func New(trusted []netip.Prefix) *Resolver {
	r := &Resolver{trusted: make([]netip.Prefix, 0, len(trusted))}
	for _, p := range trusted {
		if !p.IsValid() {
			continue
		}
		// Peers are compared unmapped, so a mapped prefix has to be as well;
		// one wider than the mapped range is left as it is.
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		r.trusted = append(r.trusted, p.Masked())
	}
	return r
}

// Of returns the client's address: the TCP peer, unless the peer is trusted;
// then the rightmost address that is not trusted over all X-Forwarded-For
// lines joined in the order received.
//
// When every listed address is trusted the leftmost of them is the client: a
// request that began inside. Garbage ends the walk: what stands to the left of
// it cannot be believed, so the answer is the last trusted hop before it.
// Empty list elements say nothing and are skipped. An entry may carry a port,
// as some load balancers write it.
//
// IPv4-mapped addresses come back as IPv4 and zones are dropped, so that one
// client has one address. A peer without an address (a Unix socket, whose
// RemoteAddr is "@" or empty) gives the zero Addr, which no prefix contains.
func (r *Resolver) Of(req *http.Request) netip.Addr {
	client := peer(req)
	if !r.trusts(client) {
		return client
	}
	for _, line := range slices.Backward(req.Header[forwardedFor]) {
		for line != "" {
			var entry string
			line, entry = cutLast(line)
			if entry == "" {
				continue
			}
			hop, ok := parse(entry)
			if !ok {
				return client
			}
			client = hop
			if !r.trusts(hop) {
				return client
			}
		}
	}
	return client
}

// PeerTrusted reports whether the TCP peer of req is one of the trusted
// proxies, that is, whether its X-Forwarded-* headers may be passed on.
func (r *Resolver) PeerTrusted(req *http.Request) bool {
	return r != nil && len(r.trusted) > 0 && r.trusts(peer(req))
}

// Proto returns the scheme the client used: "https" when the connection to
// the gate is TLS or when a trusted peer's X-Forwarded-Proto says exactly
// https, else "http". Of several values the last counts: the nearest proxy
// wrote it.
func (r *Resolver) Proto(req *http.Request) string {
	if req.TLS != nil {
		return "https"
	}
	lines := req.Header[forwardedProto]
	if len(lines) == 0 || !r.PeerTrusted(req) {
		return "http"
	}
	if _, last := cutLast(lines[len(lines)-1]); last == "https" {
		return "https"
	}
	return "http"
}

func (r *Resolver) trusts(a netip.Addr) bool {
	if r == nil || !a.IsValid() {
		return false
	}
	for _, p := range r.trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// peer returns the address of whoever opened the connection, or the zero Addr.
func peer(req *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return plain(ap.Addr())
}

// parse reads one list entry: an address, or an address with a port.
func parse(entry string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(entry); err == nil {
		return plain(a), true
	}
	if ap, err := netip.ParseAddrPort(entry); err == nil {
		return plain(ap.Addr()), true
	}
	if inner, ok := strings.CutPrefix(entry, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			if a, err := netip.ParseAddr(inner); err == nil && a.Is6() {
				return plain(a), true
			}
		}
	}
	return netip.Addr{}, false
}

// plain gives one client one spelling: ::ffff:10.0.0.1 would otherwise slip
// past a list that holds 10.0.0.0/8, and a zone past any prefix.
func plain(a netip.Addr) netip.Addr {
	return a.WithZone("").Unmap()
}

// cutLast splits the last element off a comma-separated list.
func cutLast(list string) (rest, last string) {
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		return list[:i], strings.Trim(list[i+1:], " \t")
	}
	return "", strings.Trim(list, " \t")
}
