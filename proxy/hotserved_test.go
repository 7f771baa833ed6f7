package proxy_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// busyConn is a client that asks the same again as soon as it is answered, some times
// over, and then leaves. It stands for a connection without what the system does for one.
type busyConn struct {
	net.Conn // what nobody calls
	request  []byte
	mu       sync.Mutex
	changed  *sync.Cond
	left     int       // how often it asks
	owed     bool      // it waits for an answer
	until    time.Time // when reading gives up; only whether that is over counts
	over     chan struct{}
}

func newBusyConn(request string, times int) *busyConn {
	c := &busyConn{request: []byte(request), left: times, over: make(chan struct{})}
	c.changed = sync.NewCond(&c.mu)
	return c
}

func (c *busyConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.owed || len(p) == 1 { // one byte: the server looks whether it is still there
		if !c.until.IsZero() && c.until.Before(time.Unix(1000, 0)) {
			return 0, os.ErrDeadlineExceeded
		}
		c.changed.Wait()
	}
	if c.left == 0 {
		return 0, io.EOF
	}
	c.left, c.owed = c.left-1, true
	return copy(p, c.request), nil
}

func (c *busyConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owed = false
	return len(p), nil
}

func (c *busyConn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = at
	c.changed.Broadcast()
	return nil
}

func (c *busyConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil {
		close(c.over)
		c.over = nil
	}
	return nil
}

func (*busyConn) SetDeadline(time.Time) error      { return nil }
func (*busyConn) SetWriteDeadline(time.Time) error { return nil }
func (*busyConn) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (*busyConn) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1234} }

// oneConn is a listener that has one connection.
type oneConn struct{ conns chan net.Conn }

func (l oneConn) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (oneConn) Close() error   { return nil }
func (oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// BenchmarkServed is a poll of the crowd with what net/http does of it, but for the
// system's part, and a handler that only writes the same bytes.
func BenchmarkServed(b *testing.B) {
	h := hotPoll(b, "header")
	answer := httptest.NewRecorder()
	h.handler.ServeHTTP(answer, h.request)
	require.Equal(b, http.StatusOK, answer.Code)
	same := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		own := w.Header()
		for name, values := range answer.Header() {
			own[name] = values
		}
		_, _ = w.Write(answer.Body.Bytes())
	})
	request := "GET /_queue/sale/status HTTP/1.1\r\nHost: shop\r\nX-Queue-Ticket: " + h.request.Header.Get("X-Queue-Ticket") + "\r\n\r\n"
	for _, side := range []struct {
		name    string
		handler http.Handler
	}{{"same bytes", same}, {"poll", h.handler}} {
		b.Run(side.name, func(b *testing.B) {
			b.ReportAllocs()
			c := newBusyConn(request, b.N)
			over, l := c.over, oneConn{make(chan net.Conn, 1)}
			l.conns <- c
			close(l.conns)
			server := &http.Server{Handler: side.handler, ReadHeaderTimeout: time.Minute}
			_ = server.Serve(l)
			<-over
		})
	}
}
