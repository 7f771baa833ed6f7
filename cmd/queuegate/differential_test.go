package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/route/routetest"
)

// marker begins the answer of a shop to whoever reached its /order; what follows
// is the target as that shop got it.
const marker = "ORDER "

// readers are servers that read one target in different ways. Each answers with
// the target it got, behind the marker when it serves its /order, and counts that.
var readers = map[string]func(t *testing.T, reached *atomic.Int64) string{
	"nginx": func(t *testing.T, _ *atomic.Int64) string {
		address := freeAddress(t)
		startNginx(t, address, "events {}\nhttp {\n  large_client_header_buffers 4 16k;\n  server {\n    listen "+address+";\n    default_type text/plain;\n"+
			"    location ~* ^/order(/|$) { return 200 \""+marker+"$request_uri\"; }\n    location / { return 200 \"$request_uri\"; }\n  }\n}\n")
		return "http://" + address
	},
	"a Go ServeMux": func(t *testing.T, reached *atomic.Int64) string {
		mux := http.NewServeMux()
		order := func(w http.ResponseWriter, r *http.Request) {
			reached.Add(1)
			fmt.Fprint(w, marker, r.RequestURI)
		}
		mux.HandleFunc("/order", order)
		mux.HandleFunc("/order/", order)
		mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
		return serveShop(t, mux)
	},
	"a plain Go handler": func(t *testing.T, reached *atomic.Int64) string {
		return serveShop(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/order" || strings.HasPrefix(r.URL.Path, "/order/") {
				reached.Add(1)
				fmt.Fprint(w, marker)
			}
			fmt.Fprint(w, r.RequestURI)
		}))
	},
	"a decoder of everything": func(t *testing.T, reached *atomic.Int64) string {
		return serveShop(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if p := decodeEverything(r.RequestURI); p == "/order" || strings.HasPrefix(p, "/order/") {
				reached.Add(1)
				fmt.Fprint(w, marker)
			}
			fmt.Fprint(w, r.RequestURI)
		}))
	},
}

func serveShop(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	endWith(t, s)
	return s.URL
}

// decodeEverything reads a target in the widest way: decoded three times, "\" as
// "/", parameters and trailing dots and spaces cut, cut at "#", "?" and NUL, dots
// resolved, in lower case.
func decodeEverything(target string) string {
	p, _, _ := strings.Cut(target, "?")
	for range 3 {
		var b strings.Builder
		for len(p) > 0 {
			n := 1
			if len(p) >= 3 && p[0] == '%' {
				if s, err := url.PathUnescape(p[:3]); err == nil {
					b.WriteString(s)
					p = p[3:]
					continue
				}
			}
			b.WriteString(p[:n])
			p = p[n:]
		}
		p = b.String()
	}
	p = strings.ReplaceAll(p, `\`, "/")
	if i := strings.IndexAny(p, "#?\x00"); i >= 0 {
		p = p[:i]
	}
	segments := strings.Split(p, "/")
	for i, s := range segments {
		s, _, _ = strings.Cut(s, ";")
		if s = strings.TrimRight(s, " "); strings.Trim(s, ".") != "" {
			s = strings.TrimRight(s, ". ")
		}
		segments[i] = s
	}
	return strings.ToLower(path.Clean("/" + strings.Join(segments, "/")))
}

// TestNoSpellingReachesTheOrderOfAnyShop sends the same bytes through the gate to
// shops that read them differently. Nobody is admitted, so no shop may serve its
// /order; and what nobody guards has to arrive byte for byte.
func TestNoSpellingReachesTheOrderOfAnyShop(t *testing.T) {
	t.Parallel()
	for name, start := range readers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var reached atomic.Int64
			shop := start(t, &reached)
			direct, err := sendRaw(strings.TrimPrefix(shop, "http://"), routetest.Raw("GET /order/1"))
			require.NoError(t, err)
			require.Equal(t, marker+"/order/1", string(direct.body), "the shop does serve /order")
			reached.Store(0)

			config := writeConfig(t, plan{
				rooms: "  - {name: sale, protect: [{paths: [/order]}], total_active_users: 1, queue_all: true}\n" +
					"  - {name: drop, protect: [{paths: [/drop]}], total_active_users: 1, queue_all: true}\n",
				timeout: "5s",
			}, shop, "")
			g := startGate(t, config)
			address := strings.TrimPrefix(g.url, "http://")
			open := 0
			for _, c := range corpus() {
				if strings.HasPrefix(c.Want, "exempt") { // a true preflight is the shop's to answer
					continue
				}
				got, err := sendRaw(address, routetest.Raw(c.Head))
				require.NoError(t, err, "%q", c.Head)
				require.NotContains(t, string(got.body), marker, "%q reaches /order", c.Head)
				require.Zero(t, reached.Load(), "%q reaches /order", c.Head)
				if c.Want != routetest.Open || strings.HasPrefix(c.Head, "GET http") {
					continue
				}
				open++
				line, _, _ := strings.Cut(c.Head, "\t")
				_, target, _ := strings.Cut(line, " ")
				if name == "a Go ServeMux" && got.code/100 == 3 {
					continue // it mends the path by a redirect
				}
				require.Equal(t, target, string(got.body), "%q", c.Head)
			}
			require.Greater(t, open, 20)
		})
	}
}

// corpus are the cases and, with nothing wanted of them, the spellings.
func corpus() []routetest.Case {
	list := routetest.Cases()
	for _, s := range routetest.Spellings() {
		list = append(list, routetest.Case{Name: s, Head: "GET " + s}, routetest.Case{Name: s, Head: "POST " + s})
	}
	return list
}
