package main_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnswersSuitWhoAsksInBothVersionsOfHTTP: what the gate answers by itself is
// understood by its reader, kept by nobody, and gives a place only to who waits.
func TestAnswersSuitWhoAsksInBothVersionsOfHTTP(t *testing.T) {
	t.Parallel()
	const html, json, problem, text = "text/html; charset=utf-8", "application/json", "application/problem+json", "text/plain; charset=utf-8"
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), more: "h2c: true"})
	g := f.gates[0]
	newApp(t).enter(t, g)
	line := f.redis.Client(t)
	places := func() (n int64) {
		for _, part := range []string{"waiting", "fresh", "away"} {
			m, err := line.ZCard(t.Context(), "qg:{checkout}:"+part).Result()
			require.NoError(t, err)
			n += m
		}
		return n
	}
	older := newClient(t)
	newer := newClient(t)
	newer.Transport = &http.Transport{Protocols: new(http.Protocols)}
	newer.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(newer.CloseIdleConnections)
	page := browse()
	with := func(more ...string) map[string]string {
		h := maps.Clone(page)
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	for _, tc := range []struct {
		name, method string
		header       map[string]string
		kind         string
		place        bool
	}{
		{"a browser that opens a page", "GET", page, html, true},
		{"a browser that knows no Sec-Fetch", "GET", map[string]string{"Accept": page["Accept"]}, html, true},
		{"a form", "POST", with("Content-Type", "application/x-www-form-urlencoded"), html, true},
		{"a search engine", "GET", map[string]string{"Accept": page["Accept"], "User-Agent": "Mozilla/5.0 (compatible; Googlebot/2.1)"}, html, true},
		{"a probe by its name", "GET", map[string]string{"User-Agent": "kube-probe/1.30"}, json, true},
		{"another probe, and nothing else said", "GET", map[string]string{"User-Agent": "GoogleHC/1.0", "Accept": "*/*"}, json, true},
		{"axios", "POST", map[string]string{"Accept": "application/json, text/plain, */*"}, json, true},
		{"an API client of a kind of its own", "POST", map[string]string{"Accept": "application/vnd.api+json"}, json, true},
		{"fetch", "PUT", map[string]string{"Accept": "*/*", "Sec-Fetch-Mode": "cors"}, json, true},
		{"jQuery", "GET", map[string]string{"Accept": "*/*", "X-Requested-With": "XMLHttpRequest"}, json, true},
		{"an event source", "GET", map[string]string{"Accept": "text/event-stream"}, json, true},
		{"a method nobody knows", "FOO", map[string]string{"Accept": "*/*"}, json, true},
		{"an OPTIONS that is no preflight", "OPTIONS", nil, json, true},
		{"a prefetch", "GET", with("Sec-Purpose", "prefetch;prerender"), problem, false},
		{"an older prefetch", "GET", with("Purpose", "prefetch"), problem, false},
		{"a picture", "GET", map[string]string{"Accept": "image/avif,*/*;q=0.8", "Sec-Fetch-Dest": "image"}, problem, false},
		{"a style sheet", "GET", map[string]string{"Accept": "text/css,*/*;q=0.1", "Sec-Fetch-Dest": "style"}, problem, false},
		{"HEAD of a program", "HEAD", map[string]string{"Accept": "*/*"}, problem, false},
		{"HEAD of a browser", "HEAD", map[string]string{"Accept": page["Accept"]}, html, false},
		{"a WebSocket", "GET", map[string]string{"Connection": "Upgrade", "Upgrade": "websocket"}, text, false},
	} {
		for version, client := range map[string]*http.Client{"HTTP/1.1": older, "HTTP/2": newer} {
			if tc.kind == text && client == newer {
				continue // there is none in HTTP/2
			}
			name, before := version+": "+tc.name, places()
			got := mustSend(t, client, request{method: tc.method, url: g.url + "/checkout/x", header: tc.header})
			require.Equal(t, http.StatusTooManyRequests, got.code, name)
			h := got.header
			require.Equal(t, tc.kind, h.Get("Content-Type"), name)
			require.Equal(t, "no-store", h.Get("Cache-Control"), name)
			require.Equal(t, "noindex", h.Get("X-Robots-Tag"), name)
			require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), name)
			require.Regexp(t, `^[1-9]\d*$`, h.Get("Retry-After"), name)
			for _, none := range []string{"Location", "Etag", "Last-Modified", "Expires", "Content-Encoding", "Access-Control-Allow-Origin"} {
				require.Empty(t, h.Get(none), "%s: %s", name, none)
			}
			if tc.method == http.MethodHead {
				require.Empty(t, got.body, name)
			} else {
				require.Equal(t, strconv.Itoa(len(got.body)), h.Get("Content-Length"), name)
			}
			if tc.kind == html && tc.method != http.MethodHead {
				require.Regexp(t, `script-src 'nonce-[\w+/=-]{16,}'`, h.Get("Content-Security-Policy"), name)
				require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors", name)
			}
			require.Equal(t, tc.place, places() > before, "%s: a place", name)
			require.Equal(t, tc.place, h.Get("Set-Cookie") != "", "%s: a cookie", name)
		}
	}
	require.Empty(t, f.shop.got("/checkout/x"))

	// A true preflight is the shop's, and nobody's place.
	before := places()
	got := mustSend(t, newClient(t), request{method: "OPTIONS", url: g.url + "/checkout/x", header: map[string]string{
		"Origin": "https://app.example", "Access-Control-Request-Method": "POST",
	}})
	require.Equal(t, "the shop's answer to OPTIONS /checkout/x", string(got.body))
	require.Empty(t, got.header.Get("Set-Cookie"))
	require.Equal(t, before, places())
}

// TestFormsAfterTheEndAreNotAcceptedAndLeadBack: who fills in a form for longer
// than the pass lasts is told so, and no address of a form is opened as a page.
func TestFormsAfterTheEndAreNotAcceptedAndLeadBack(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1")})
	g := f.gates[0]
	browser, next := newBrowser(t), newApp(t)
	require.Equal(t, http.StatusOK, mustSend(t, browser, request{method: "GET", url: g.url + "/checkout/form?step=2", header: browse()}).code)
	require.Equal(t, http.StatusOK, mustSend(t, browser, request{method: "GET", url: g.url + "/checkout/form?step=2", header: browse()}).code)
	_, err := next.join(g, nil)
	require.NoError(t, err)
	mustSend(t, browser, request{method: "POST", url: g.url + "/_queue/checkout/release"})
	next.await(t, g)
	for _, follow := range []bool{false, true} {
		header := browse()
		header["Content-Type"], header["Referer"] = "application/x-www-form-urlencoded", g.url+"/checkout/form?step=2"
		if follow {
			browser.CheckRedirect = nil
		}
		got := mustSend(t, browser, request{method: "POST", url: g.url + "/checkout/order", header: header, body: "a=1&b=2&c=3"})
		require.Equal(t, http.StatusTooManyRequests, got.code)
		require.Contains(t, string(got.body), `href="/checkout/form?step=2"`)
		require.NotContains(t, string(got.body), "/checkout/order")
	}
	require.Empty(t, f.shop.got("/checkout/order"))
}

// TestShopThatIsAwayIsToldApartFromOneThatIsLate: 502, 504, 503 and nobody to
// tell; the pass is kept in each, and the log and the answer say which it was.
func TestShopThatIsAwayIsToldApartFromOneThatIsLate(t *testing.T) {
	t.Parallel()
	address := freeAddress(t) // nobody listens there yet
	g := startGate(t, writeConfig(t, plan{
		rooms: room("total_active_users: 5, max_in_flight: 50"), upstream: ", response_timeout: 5s, max_request: 6s",
	}, "http://"+address, ""))
	g.waitReady(t)
	// The record is written when the answer is out.
	said := func(upstream string, n int) {
		t.Helper()
		eventually(t, "the log tells", func() bool { return strings.Count(g.stderr.String(), fmt.Sprintf(`"upstream":%q`, upstream)) == n })
	}
	holder := newApp(t)
	_, err := holder.join(g, nil)
	require.NoError(t, err)

	got, err := holder.open(g) // the pass is taken up all the same
	require.NoError(t, err)
	require.Equal(t, http.StatusBadGateway, got.code)
	require.Equal(t, "no-store", got.header.Get("Cache-Control"))
	require.Contains(t, string(got.body), "pass is kept")
	require.Equal(t, http.StatusBadGateway, mustSend(t, newClient(t), request{method: "GET", url: g.url + "/about", header: browse()}).code)
	said("unreachable", 2)

	newcomer := newApp(t) // there is room, but nowhere to go
	first, err := newcomer.join(g, nil)
	require.NoError(t, err)
	require.Equal(t, "waiting", first.doc.Status)
	require.Equal(t, "paused", first.doc.RoomState)
	newcomer.waits(t, g)

	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	shop := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/checkout/late":
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		case "/checkout/reset":
			reset(w, r)
		case "/checkout/nonsense":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "what?\r\n\r\n")
				_ = conn.Close()
			}
		default:
			takeOrder(w, r)
		}
	}), ReadHeaderTimeout: patience}
	go func() { _ = shop.Serve(listener) }()
	t.Cleanup(func() { _ = shop.Close() })
	eventually(t, "the shop is back, and who waited is let in", func() bool {
		got, err := newcomer.poll(g)
		return err == nil && got.doc.Status == "ready"
	})
	for _, tc := range []struct {
		path, upstream string
		code, said     int
	}{{"/checkout/late", "timeout", 504, 1}, {"/checkout/reset", "unreachable", 502, 3}, {"/checkout/nonsense", "unreachable", 502, 4}} {
		got, err := holder.send(request{method: "POST", url: g.url + tc.path, body: "x"})
		require.NoError(t, err)
		require.Equal(t, tc.code, got.code, tc.path)
		require.Equal(t, "application/problem+json", got.header.Get("Content-Type"))
		said(tc.upstream, tc.said)
	}
	// Nobody is there to be told, and the shop is not to blame.
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "POST /checkout/late HTTP/1.1\r\nHost: h\r\nX-Entry-Token: %s\r\nContent-Length: 5\r\n\r\nab", holder.pass)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	said("client_gone", 1)
	require.Contains(t, g.stderr.String(), `"status":499`)
	said("unreachable", 4)

	got, err = holder.order(g)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.code, "the pass was kept through all of it")
	require.NotContains(t, g.stderr.String(), `"level":"ERROR"`)
}
