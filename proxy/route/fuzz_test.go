package route_test

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"testing"
	"unicode"

	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/proxy/route/routetest"
	"github.com/stretchr/testify/require"
)

// The steps below know nothing of the package: each is how some server does it,
// written with the standard library's own cleaners where it has one.

func serverDecode(p string) string {
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if i+2 < len(p) && p[i] == '%' {
			if s, err := url.PathUnescape(p[i : i+3]); err == nil {
				b.WriteString(s)
				i += 2
				continue
			}
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

func serverDecodeKeepingSlash(p string) string {
	parts := strings.Split(strings.ReplaceAll(p, "%2F", "%2f"), "%2f")
	for i := range parts {
		parts[i] = serverDecode(parts[i])
	}
	return strings.Join(parts, "%2f")
}

func perSegment(p string, f func(string) string) string {
	segs := strings.Split(p, "/")
	for i := range segs {
		segs[i] = f(segs[i])
	}
	return strings.Join(segs, "/")
}

// serverURLParser is the path that new URL(p, base) has in JavaScript, after the
// state machine of the URL Standard for http: tabs and line breaks go, "\" is
// "/", two or more of them begin an authority, and %2e is a dot.
func serverURLParser(p string) string {
	p = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(strings.TrimFunc(p, func(r rune) bool { return r <= ' ' }))
	slash := func(i int) bool { return i < len(p) && (p[i] == '/' || p[i] == '\\') }
	if slash(0) && slash(1) {
		start := 0
		for slash(start) {
			start++
		}
		end := start
		for end < len(p) && !slash(end) && p[end] != '?' && p[end] != '#' {
			end++
		}
		p = p[end:]
	}
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		p = p[:i]
	}
	segs := strings.Split(strings.TrimPrefix(strings.ReplaceAll(p, `\`, "/"), "/"), "/")
	var out []string
	for i, seg := range segs {
		dots := strings.ReplaceAll(strings.ToLower(seg), "%2e", ".")
		if dots == ".." && len(out) > 0 {
			out = out[:len(out)-1]
		}
		switch {
		case dots != "." && dots != "..":
			out = append(out, seg)
		case i == len(segs)-1:
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/")
}

var serverSteps = []func(string) string{
	serverDecode,
	serverDecodeKeepingSlash,
	func(p string) string { return strings.ReplaceAll(p, `\`, "/") },
	func(p string) string { return perSegment(p, func(s string) string { return strings.Split(s, ";")[0] }) },
	func(p string) string { return strings.Split(p, "#")[0] },
	func(p string) string { return strings.Split(p, "?")[0] },
	func(p string) string { return strings.Split(p, "\x00")[0] },
	func(p string) string {
		for strings.Contains(p, "//") {
			p = strings.ReplaceAll(p, "//", "/")
		}
		return p
	},
	func(p string) string { return path.Clean("/" + p) },
	// RFC 3986, without collapsing.
	func(p string) string {
		return new(url.URL).ResolveReference(&url.URL{Path: "/" + strings.TrimLeft(p, "/")}).Path
	},
	func(p string) string {
		return perSegment(p, func(s string) string { return strings.TrimRight(s, " ") })
	},
	func(p string) string {
		return perSegment(p, func(s string) string {
			if s == "." || s == ".." {
				return s
			}
			return strings.TrimRight(s, ". ")
		})
	},
	strings.TrimSpace,
	strings.ToLower,
	strings.ToUpper,
	func(p string) string { return strings.Map(unicode.SimpleFold, p) },
	serverURLParser,
}

// urlParserOrders decode not at all, once, twice and three times before they
// parse a URL. They are tried on every target.
func urlParserOrders() [][]byte {
	last := byte(len(serverSteps) - 1)
	return [][]byte{{last}, {0, last}, {0, 0, last}, {0, 0, 0, last}, {last, 0, last}}
}

// serve runs the path through the steps in the order given and reports whether a
// server that does so would serve it from /order.
func serve(p string, order []byte) bool {
	decoded := 0
	for _, i := range order {
		n := int(i) % len(serverSteps)
		if n < 2 {
			if decoded++; decoded > 3 {
				continue
			}
		}
		p = serverSteps[n](p)
	}
	p = strings.ToLower(strings.ToUpper(p))
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return first == "order"
}

// widest is the order of steps that reads a target in the widest way.
func widest(p string) string {
	for range 3 {
		p = serverDecode(p)
	}
	for _, i := range []int{2, 3, 4, 6, 7, 8} {
		p = serverSteps[i](p)
	}
	p = perSegment(p, func(s string) string { return strings.TrimRight(s, ". ") })
	return strings.ToLower(path.Clean("/" + p))
}

func FuzzTarget(f *testing.F) {
	for i, s := range routetest.Spellings() {
		f.Add(s, []byte{0, 2, 3, 7, 8})
		f.Add(s, []byte{byte(i), byte(i / 3), byte(i / 7), 0, 3, 8, 11, 2, 7, 4, 5, 6, 9})
	}
	whole, shut := oracleTables(f)
	f.Fuzz(func(t *testing.T, uri string, order []byte) { checkTarget(t, whole, shut, uri, order) })
}

// oracleTables returns one table that protects /order only, and one that protects
// the whole site but for /public.
func oracleTables(t testing.TB) (whole, shut *route.Table) {
	t.Helper()
	return table(t, route.Room{Name: "sale", Protect: paths("/order")}), table(t, route.Room{
		Name: "all", Protect: paths("/"), Exempt: paths("/public"), DefaultExempt: true,
	})
}

// checkTarget fails when some server serves uri from /order and the gate lets it
// through. It reports whether one of the orders of steps gets there.
func checkTarget(t testing.TB, whole, shut *route.Table, uri string, orders ...[]byte) bool {
	r := &http.Request{Method: "GET", RequestURI: uri, Host: "shop.test", Header: http.Header{}}
	target, refusal := route.Parse(r)
	if refusal != nil {
		if refusal.Status != 400 && refusal.Status != 405 && refusal.Status != 414 {
			t.Fatalf("%q is refused with %d", uri, refusal.Status)
		}
		return false
	}
	raw, _, _ := strings.Cut(target.Raw, "?")
	if !strings.HasPrefix(raw, "/") || raw != target.Readings[0] {
		t.Fatalf("%q: the shop would get %q, the first reading is %q", uri, target.Raw, target.Readings[0])
	}
	w := widest(raw)
	reaches, by := w == "/order" || strings.HasPrefix(w, "/order/"), []byte("widest")
	for _, order := range append(urlParserOrders(), orders...) {
		if !reaches && serve(raw, order) {
			reaches, by = true, order
		}
	}
	v := whole.Match(r, target, netip.Addr{})
	if reaches && (v.Kind == route.Open || v.Kind == route.Exempt) {
		t.Fatalf("%q read in order %v reaches /order and is %s; readings %q", uri, by, v.Kind, target.Readings)
	}
	v = shut.Match(r, target, netip.Addr{})
	if reaches && v.Kind != route.Protected && v.Kind != route.Reserved {
		t.Fatalf("%q read in order %v reaches /order and is %s where only /public is exempt; readings %q", uri, by, v.Kind, target.Readings)
	}
	if v.Endpoint != "" && raw != "/_queue/"+v.Endpoint {
		t.Fatalf("%q: an odd spelling is served as %q", uri, v.Endpoint)
	}
	return reaches
}

// Random bytes rarely make a path that means something, so this test builds paths
// of what servers look at and reads them in random orders.
func TestNoOrderOfStepsReachesARoomUnseen(t *testing.T) {
	words := []string{
		"/", "/", "/", "/order", "/order", "/ORDER", "/%6frder", "/public", "/public/", "/a", "/.well-known/x", "/robots.txt", "/_queue/x",
		"//", "//x", "///x:80", "/////u@x", "%5cx", "/..", "/..", "/../", "/.", "/%2e%2e", "/%2E.", "/%252e%252e", "/...", "%2f", "%2F", "%252f", "%25252f", "%5c", "%255c", ";", ";x=1",
		"%3b", "%253b", "%23", "%2523", "%3f", "%253f", "%20", "%2520", "%2500", "%2509", ".", "%2e", "..", "order", "a", "%C5%BF", "?", "%25",
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	whole, shut := oracleTables(t)
	reached := 0
	const paths = 10_000
	for range paths {
		uri := "/"
		for range 1 + rnd.IntN(8) {
			uri += words[rnd.IntN(len(words))]
		}
		orders := make([][]byte, 20)
		for i := range orders {
			orders[i] = make([]byte, rnd.IntN(10))
			for j := range orders[i] {
				orders[i][j] = byte(rnd.IntN(len(serverSteps)))
			}
		}
		if checkTarget(t, whole, shut, uri, orders...) {
			reached++
		}
	}
	require.Greater(t, reached, paths/8, "the oracle must have something to say")
}
