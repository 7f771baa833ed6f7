package proxy_test

import (
	"net/http"
	"net/http/httptest"
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

// The hot paths allocate no more than they were brought down to: a number that does not
// depend on the machine.
func TestHotPathsAllocateNoMoreThanTheyDid(t *testing.T) {
	for _, c := range []struct {
		name string
		hot  func(*testing.T) hot
		most float64
	}{
		{"a poll by header", func(t *testing.T) hot { return hotPoll(t, "header") }, 15},
		{"a poll by cookie", func(t *testing.T) hot { return hotPoll(t, "cookie") }, 22},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := c.hot(t)
			got := testing.AllocsPerRun(1000, h.serve)
			require.LessOrEqual(t, got, c.most)
		})
	}
}
