package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// flights are the requests that run, and which of them have no end of their own:
// upgraded connections and event streams. Nobody waits for those when the process
// ends. http.Server forgets a connection once it is hijacked: Shutdown returns at
// once and the tunnel lives on (https://github.com/golang/go/issues/17721).
type flights struct {
	n       atomic.Int64
	waited  atomic.Bool // somebody has waited: changes are of interest
	mu      sync.Mutex
	endless map[any]func() // how to end each; nil: it is closed at once
	closed  bool           // no more of them
	changed chan struct{}  // closed at the next change, while somebody waits
}

// add counts a request that begins (1) or ends (-1). Whoever waits has said so before
// counting, so either they see this one or they are told.
func (f *flights) add(d int64) {
	f.n.Add(d)
	if f.waited.Load() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.change()
	}
}

func (f *flights) change() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

func (f *flights) count() int { return int(f.n.Load()) }

// tell notes that a running request, known by key, has no end of its own and how
// to end it. After endAll it is ended at once.
func (f *flights) tell(key any, end func()) {
	f.mu.Lock()
	closed := f.closed
	if !closed {
		if f.endless == nil {
			f.endless = make(map[any]func())
		}
		f.endless[key] = end
		f.change()
	}
	f.mu.Unlock()
	if closed {
		end()
	}
}

func (f *flights) forget(key any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, told := f.endless[key]; told {
		delete(f.endless, key)
		f.change()
	}
}

// endAll ends all requests without an end of their own, and from then on each
// new one. It returns how many there were.
func (f *flights) endAll() int {
	f.mu.Lock()
	f.closed = true
	endless := f.endless
	f.endless = nil
	f.mu.Unlock()
	for _, end := range endless {
		end()
	}
	return len(endless)
}

// wait returns when no request runs, or none but those without an end of their
// own, or when ctx ends.
func (f *flights) wait(ctx context.Context, butEndless bool) {
	for {
		f.mu.Lock()
		f.waited.Store(true)
		left := f.count()
		if butEndless {
			left -= len(f.endless)
		}
		if left <= 0 {
			f.mu.Unlock()
			return
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// flightsKey is where the context of a request has the flights it is one of.
type flightsKey struct{}

// streams tells the server that the request of ctx answers with a stream that
// does not end by itself, and how to end it. over is called when it has ended.
func streams(ctx context.Context, end func()) (over func()) {
	f, ok := ctx.Value(flightsKey{}).(*flights)
	if !ok { // another server than ours
		return func() {}
	}
	key := new(byte)
	f.tell(key, end)
	return func() { f.forget(key) }
}

// watch is a ConnState hook.
func (f *flights) watch(c net.Conn, state http.ConnState) {
	if state != http.StateHijacked {
		return
	}
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = over.NetConn()
	}
	if own, ok := c.(*conn); ok {
		f.tell(own, func() { _ = own.Close() })
	}
}

// listener hands out connections that tell when they are closed.
type listener struct {
	net.Listener
	running *flights
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err // as it is: http.Server backs off when it is a passing one
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c, nil
	}
	return &conn{TCPConn: tcp, running: l.running}, nil
}

// conn embeds the concrete type to keep what net/http and io look for in it:
// ReadFrom, CloseWrite, SyscallConn.
type conn struct {
	*net.TCPConn
	running *flights
	// outlives is set when the connection counts as a request that runs although
	// its handler has returned.
	outlives atomic.Bool
}

// outlive has the hijacked connection count as a request until it is closed.
func outlive(c net.Conn) {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = over.NetConn()
	}
	if own, ok := c.(*conn); ok && !own.outlives.Swap(true) {
		own.running.add(1)
	}
}

// Close closes the connection and forgets it.
func (c *conn) Close() error {
	c.running.forget(c)
	if c.outlives.Swap(false) {
		c.running.add(-1)
	}
	return c.TCPConn.Close()
}
