package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http/httpguts"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/proxy/route/routetest"
)

// Whatever is sent without a pass, the shop never sees it in a place that it could
// serve from a protected route, nor a header, a cookie or a chain of addresses that
// is not the client's to write; the answer is of one of the known kinds, and the log
// says it in whole lines. Nobody is let in, so nothing that arrives has a pass.
func FuzzRequest(f *testing.F) {
	for i, s := range routetest.Spellings() {
		f.Add("GET", s, fuzzedHeads[i%len(fuzzedHeads)], "", i%2 == 0)
	}
	for _, c := range routetest.Cases() {
		line, fields, _ := strings.Cut(c.Head, "\t")
		method, target, _ := strings.Cut(line, " ")
		f.Add(method, target, strings.ReplaceAll(fields, "\t", "\n"), "x", false)
	}
	for _, head := range fuzzedHeads {
		f.Add("POST", "/public?a;b", head, "a=1", true)
		f.Add("POST", "/order", head, "a=1", false)
		f.Add("GET", "/_queue/sale/status", head, "", true)
	}
	b := newFuzzed(f)
	f.Fuzz(func(t *testing.T, method, target, head, body string, trusted bool) {
		b.check(t, method, target, head, body, trusted)
	})
}

// fuzzedHeads are header lines by which gates have been walked around or fooled.
var fuzzedHeads = []string{
	"", "Host: SHOP.TEST.:8080", "Host: evil.test", "Host:", "X-Forwarded-Uri: /public\nX-Original-URL: /public\nX-Rewrite-URL: /public",
	"X-HTTP-Method-Override: POST\nX-Method: GET", "X_Queuegate_Visitor: admin\nX-Queuegate-Visitor: admin\nX.Queuegate.Room: sale",
	"Connection: close, X-Queuegate-Visitor, X-Forwarded-For, Cookie", "X-Forwarded-For: 127.0.0.1, 9.9.9.9\nX-Real-IP: 127.0.0.1\nForwarded: for=127.0.0.1",
	"X_Forwarded_For: 127.0.0.1\nX-Forwarded-Proto: javascript\nX-Forwarded-Host: evil.test", "Origin: https://evil.test\nAccess-Control-Request-Method: POST",
	"Cookie: a=1; queuegate_entry_sale=x.y.z; b=2\nCookie: __Host-queuegate_ticket_sale=t; c=\"3\"", "X-Entry-Token: a.b.c\nX-Queue-Ticket: x\nAuthorization: Bearer x",
	"Upgrade: h2c\nConnection: Upgrade, HTTP2-Settings\nHTTP2-Settings: AAMAAABkAAQAAP__", "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
	"Transfer-Encoding: chunked\nTrailer: X-Entry-Token", "Transfer_Encoding: chunked\nContent_Length: 7", "Expect: 100-continue", "Accept: text/html\nSec-Fetch-Mode: navigate\nAccept-Language: und",
	"Sec-Purpose: prefetch;prerender\nPurpose: prefetch", "User-Agent: kube-probe/1.30", "Referer: //evil.test/\nAccept: text/html", "X-Queuegate-Command: release\nX-Queuegate-Stock: 0",
	"Idempotency-Key: 0123456789abcdef", "Range: bytes=0-1\nIf-None-Match: *\nAccept-Encoding: gzip",
}

// fuzzed are two gates before one shop: one believes the proxy in front of it, the
// other nobody.
type fuzzed struct {
	*bench
	believes *bench
}

func newFuzzed(t testing.TB) *fuzzed {
	noExempt := func(o *proxy.Options) { o.Rooms[0].Exempt = nil }
	b := &fuzzed{bench: newBench(t, noExempt), believes: newBench(t, noExempt, trustLoopback)}
	b.fill()
	b.other.setSlots(0)
	b.believes.fill()
	b.believes.other.setSlots(0)
	return b
}

// forgetAll empties line, shop and log, which else grow with every input.
func (b *bench) forgetAll() (seen []shopRequest, log string) {
	for _, l := range []*fakeLine{b.line, b.other} {
		l.change(func() {
			clear(l.stays)
			clear(l.ended)
			l.line, l.calls, l.arrivals, l.signs, l.holdings, l.kinds = nil, nil, nil, nil, nil, nil
		})
	}
	b.shop.mu.Lock()
	defer b.shop.mu.Unlock()
	seen, b.shop.seen = b.shop.seen, nil
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	log = b.log.b.String()
	b.log.b.Reset()
	return seen, log
}

// endedStream ends a stream of the gate's at its first byte.
type endedStream struct {
	*httptest.ResponseRecorder
	end context.CancelFunc
}

func (w *endedStream) Write(p []byte) (int, error) {
	if w.Header().Get("Content-Type") == "text/event-stream" {
		w.end()
	}
	return w.ResponseRecorder.Write(p)
}

// parsed reads a request as net/http's server does; nil when the server refuses it.
func parsed(method, target, head, body string) *http.Request {
	text := method + " " + target + " HTTP/1.1\r\n"
	if !strings.Contains(strings.ToLower("\n"+head), "\nhost:") {
		text += "Host: shop.test\r\n"
	}
	if head = strings.Trim(strings.ReplaceAll(head, "\r", ""), "\n"); head != "" {
		text += strings.ReplaceAll(head, "\n", "\r\n") + "\r\n"
	}
	if body != "" && !strings.Contains(strings.ToLower(head), "transfer-encoding:") {
		text += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text + "\r\n" + body)))
	if err != nil || !httpguts.ValidHostHeader(r.Host) || r.Header.Get("Expect") != "" {
		return nil
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) || !allValid(values) {
			return nil
		}
	}
	delete(r.Header, "Host")
	return r
}

func allValid(values []string) bool {
	return !slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) })
}

func (b *fuzzed) check(t *testing.T, method, target, head, body string, trusted bool) {
	r := parsed(method, target, head, body)
	if r == nil {
		return
	}
	gate, peer := b.bench, "192.0.2.7"
	if trusted {
		gate, peer = b.believes, "127.0.0.1"
	}
	chain := strings.Join(r.Header["X-Forwarded-For"], ", ")
	r.RemoteAddr = peer + ":1234"
	ctx, end := context.WithCancel(context.Background())
	defer end()
	w := &endedStream{httptest.NewRecorder(), end}
	gate.gate.ServeHTTP(w, r.Clone(ctx))
	seen, log := gate.forgetAll()

	require.LessOrEqual(t, len(seen), 1, "one request is sent at most once: %q", seen)
	require.Less(t, w.Code, 505)
	for _, req := range seen {
		requireHarmless(t, r, req)
		want := []string{peer}
		if trusted && chain != "" {
			want = []string{chain + ", " + peer}
		}
		require.Equal(t, want, req.header["X-Forwarded-For"], "of %q", head)
	}
	if len(seen) == 0 && w.Code/100 != 2 {
		require.Contains(t, []int{204, 400, 401, 403, 404, 405, 406, 409, 410, 413, 414, 415, 421, 422, 426, 429, 431, 501, 502, 503}, w.Code)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"), "%d", w.Code)
		require.Empty(t, w.Header().Get("Location"))
	}
	for line := range strings.Lines(log) {
		require.True(t, json.Valid([]byte(line)), "a line of the log is not whole: %q", line)
	}
}

var oursFolded = regexp.MustCompile(`^(x-queuegate-.*|x-entry-token|x-queue-ticket|http2-settings|x-original-(url|uri|path|method|host)|x-rewrite-(url|uri|path)|x-(http-)?method(-override)?|x-forwarded-(uri|url|prefix|path|method))$`)

// requireHarmless fails when the shop was sent what only somebody with a pass may
// send, or what a client may not write.
func requireHarmless(t *testing.T, r *http.Request, req shopRequest) {
	target := req.target()
	require.True(t, strings.HasPrefix(target, "/"), "the shop was sent %q", req.line)
	sent := r.RequestURI
	if i := strings.Index(sent, "://"); i >= 0 && !strings.HasPrefix(sent, "/") {
		sent = sent[i+3:]
		sent = sent[strings.IndexAny(sent+"?", "/?#"):]
		if !strings.HasPrefix(sent, "/") { // no path is "/"
			sent = "/" + sent
		}
	}
	require.Equal(t, sent, target, "the target arrives byte for byte")
	if !isPreflight(r) {
		raw, _, _ := strings.Cut(target, "?")
		first, _, _ := strings.Cut(strings.TrimPrefix(widestPath(raw), "/"), "/")
		require.NotContains(t, []string{"order", "drop", "_queue"}, first, "the shop was sent %q", req.line)
	}
	if r.Host != "" { // net/http sends no empty one
		require.Equal(t, []string{r.Host}, req.header["Host"])
	}
	for name, values := range req.header {
		folded := strings.Map(func(c rune) rune {
			if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
				return c
			}
			return '-'
		}, strings.ToLower(name))
		require.NotRegexp(t, oursFolded, folded, "the shop was sent %q", name)
		require.False(t, folded == "upgrade" && !strings.EqualFold(strings.TrimSpace(values[0]), "websocket"), "an upgrade to %q", values)
		require.False(t, folded == "x-forwarded-for" && name != "X-Forwarded-For", "a twin %q", name)
	}
	shop := &http.Request{Header: http.Header{"Cookie": req.header["Cookie"]}}
	for _, c := range shop.Cookies() {
		require.NotRegexp(t, `^(__Host-)?queuegate_(ticket|entry)_`, c.Name)
	}
}

func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// widestPath reads a path as the laxest of servers would.
func widestPath(p string) string {
	for range 3 {
		p = percent.ReplaceAllStringFunc(p, func(s string) string { return string([]byte{unhex(s[1])<<4 | unhex(s[2])}) })
	}
	p = strings.ReplaceAll(p, `\`, "/")
	p, _, _ = strings.Cut(p, "#")
	p, _, _ = strings.Cut(p, "\x00")
	segments := strings.Split(p, "/")
	for i, s := range segments {
		s, _, _ = strings.Cut(s, ";")
		if trimmed := strings.TrimRight(s, ". "); trimmed != "" {
			s = trimmed
		}
		segments[i] = s
	}
	return strings.ToLower(path.Clean("/" + strings.Join(segments, "/")))
}

var percent = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// The corpus of a fuzz target is a test as well, and it must say something: of the
// seeds some arrive and some do not.
func TestSeedsOfRequestsArriveAndDoNot(t *testing.T) {
	b := newFuzzed(t)
	arrived, stopped := 0, 0
	for _, target := range routetest.Spellings() {
		r := parsed("GET", target, "", "")
		if r == nil {
			continue
		}
		r.RemoteAddr = "192.0.2.7:1234"
		b.gate.ServeHTTP(httptest.NewRecorder(), r)
		seen, _ := b.bench.forgetAll()
		arrived, stopped = arrived+len(seen), stopped+1-len(seen)
	}
	require.Greater(t, arrived, 5)
	require.Greater(t, stopped, 40)
	_, refusal := route.Parse(parsed("GET", "/public", "", ""))
	require.Nil(t, refusal)
}
