package proxy_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

// blankWriter takes an answer and keeps nothing but its headers.
type blankWriter struct{ header http.Header }

func (w *blankWriter) Header() http.Header            { return w.header }
func (w *blankWriter) Write(b []byte) (int, error)    { return len(b), nil }
func (w *blankWriter) WriteHeader(int)                {}
func (*blankWriter) SetWriteDeadline(time.Time) error { return nil }
func (*blankWriter) SetReadDeadline(time.Time) error  { return nil }

// hot is one request that comes again and again, as the crowd or the admitted send it.
type hot struct {
	handler http.Handler
	request *http.Request
	writer  *blankWriter
}

func (h hot) serve() {
	clear(h.writer.header)
	h.handler.ServeHTTP(h.writer, h.request)
}

// newHot prepares the request of a target with some headers, and sees that it is
// answered with the status.
func newHot(t testing.TB, h http.Handler, target string, header http.Header, status int) hot {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RequestURI, r.Header = target, header
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	require.Equal(t, status, answer.Code, answer.Body.String())
	return hot{handler: h, request: r, writer: &blankWriter{header: http.Header{}}}
}

// hotPoll is the poll of somebody far back with the ticket last handed out.
func hotPoll(t testing.TB, by string) hot {
	var clock atomic.Int64 // nobody polls too fast
	b, _ := newDeepBench(t, func(o *proxy.Options) {
		o.Log, o.Now = nil, func() time.Time { return time.Unix(clock.Add(1), 0) }
	})
	ticket := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+b.ticketFor(7)).Header.Get("X-Queue-Ticket")
	require.NotEmpty(t, ticket)
	header := http.Header{"X-Queue-Ticket": {ticket}}
	if by == "cookie" {
		header = http.Header{"Cookie": {"theme=dark; queuegate_ticket_sale=" + ticket + "; cart=7"}, "Accept": {"application/json"}}
	}
	h := newHot(t, b.gate, "/_queue/sale/status", header, http.StatusOK)
	h.serve()
	require.Empty(t, h.writer.header["Set-Cookie"], "the ticket is the one last handed out")
	return h
}

// hotJoin is somebody new who joins.
func hotJoin(t testing.TB) hot {
	b, _ := newDeepBench(t, func(o *proxy.Options) { o.Log = nil })
	r := httptest.NewRequest(http.MethodPost, "/_queue/sale/join", nil)
	h := hot{handler: b.gate, request: r, writer: &blankWriter{header: http.Header{}}}
	h.serve()
	require.NotEmpty(t, h.writer.header["Set-Cookie"])
	return h
}

// BenchmarkJoin is what a place costs beside the line and net/http's part.
func BenchmarkJoin(b *testing.B) {
	h := hotJoin(b)
	b.ReportAllocs()
	for b.Loop() {
		h.serve()
	}
}

// BenchmarkPoll is what the crowd costs: the handler alone, without net/http's part.
func BenchmarkPoll(b *testing.B) {
	for _, by := range []string{"header", "cookie"} {
		b.Run(by, func(b *testing.B) {
			h := hotPoll(b, by)
			b.ReportAllocs()
			for b.Loop() {
				h.serve()
			}
		})
	}
}

// hotShop answers a page of a kilobyte, as fast as anything can.
func hotShop(t testing.TB) *url.URL {
	page := bytes.Repeat([]byte("x"), 1024)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"text/html; charset=utf-8"}
		_, _ = w.Write(page)
	}))
	t.Cleanup(shop.Close)
	at, err := url.Parse(shop.URL)
	require.NoError(t, err)
	return at
}

// browsing are the headers that a browser sends with every request.
func browsing(cookie string) http.Header {
	return http.Header{
		"Accept": {"text/html,application/xhtml+xml"}, "Accept-Encoding": {"gzip"}, "Accept-Language": {"en"},
		"User-Agent": {"Mozilla/5.0"}, "Sec-Fetch-Mode": {"navigate"}, "Cookie": {cookie},
	}
}

// hotPass is the request of somebody admitted, on a route that is protected or not.
func hotPass(t testing.TB, target string) hot {
	shop := hotShop(t)
	b := newBench(t, func(o *proxy.Options) { o.Log, o.Upstream = nil, proxy.Upstream{URL: shop} })
	return newHot(t, b.gate, target, browsing(b.enter(t)), http.StatusOK)
}

// enter takes up a pass and returns its cookie.
func (b *bench) enter(t testing.TB) string {
	t.Helper()
	var cookies []string
	for range 2 { // admitted at once, then taken up
		for _, c := range b.call("GET", "/order", "", "Sec-Fetch-Mode: navigate", "Cookie: "+strings.Join(cookies, "; ")).Cookies() {
			if strings.HasPrefix(c.Name, "queuegate_entry") {
				cookies = []string{c.Name + "=" + c.Value}
			}
		}
	}
	require.NotEmpty(t, cookies)
	return cookies[0]
}

// hotBare is the same by httputil.ReverseProxy alone, tuned as the gate's is.
func hotBare(t testing.TB) hot {
	shop := hotShop(t)
	pool := &sync.Pool{New: func() any { return new([32 << 10]byte) }}
	bare := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(shop)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport:  &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 512, DisableCompression: true},
		BufferPool: hotBuffers{pool},
	}
	return newHot(t, bare, "/order", browsing("theme=dark"), http.StatusOK)
}

type hotBuffers struct{ *sync.Pool }

func (b hotBuffers) Get() []byte  { return b.Pool.Get().(*[32 << 10]byte)[:] }
func (b hotBuffers) Put(p []byte) { b.Pool.Put((*[32 << 10]byte)(p)) }

// BenchmarkPass is one request at a time to a shop in the same process: by a bare
// reverse proxy, and through the gate on a route that nobody protects and with a pass.
func BenchmarkPass(b *testing.B) {
	for name, start := range map[string]func(testing.TB) hot{
		"bare":        hotBare,
		"unprotected": func(t testing.TB) hot { return hotPass(t, "/") },
		"pass":        func(t testing.TB) hot { return hotPass(t, "/order") },
	} {
		b.Run(name, func(b *testing.B) {
			h := start(b)
			b.ReportAllocs()
			for b.Loop() {
				h.serve()
			}
		})
	}
}
