package proxy

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// wires are the connections to the shop that carry requests without a body, which is
// nearly all of them. The others, and all to a shop by TLS or in this process, go by
// http.Transport.
type wires struct {
	dial    func(context.Context) (net.Conn, error)
	timeout time.Duration // for the head of an answer

	mu      sync.Mutex // of what follows
	idle    []*wire    // the one used last is last
	waiting []*waiter  // who came first is first
	sweeper *time.Timer
	closed  bool // nothing is kept any more
}

// waiter is a request that waits for a wire: a new one, or one that comes back. For
// each that waits a dial is on its way.
type waiter struct {
	got chan *wire // has room for one; nil when the shop could not be reached
	err error
}

func newWires(addr string, dial func(context.Context, string, string) (net.Conn, error), timeout time.Duration) *wires {
	return &wires{
		dial:    func(ctx context.Context) (net.Conn, error) { return dial(ctx, "tcp", addr) },
		timeout: timeout,
	}
}

// wired tells where the wires of the shop lead, if there can be any.
func (u Upstream) wired() (addr string, ok bool) {
	if !canTellQuiet || u.Handler != nil || u.URL.Scheme != "http" {
		return "", false
	}
	port := u.URL.Port()
	if port == "" {
		port = "80"
	}
	host, err := httpguts.PunycodeHostPort(u.URL.Hostname())
	return net.JoinHostPort(host, port), err == nil
}

// RoundTrip implements http.RoundTripper for requests of a trip that have no body.
func (p *wires) RoundTrip(r *http.Request) (*http.Response, error) {
	t := tripOf(r.Context())
	for {
		w, err := p.get(t)
		if err != nil {
			return nil, t.because(err)
		}
		if !t.board(w) {
			_ = w.Conn.Close()
			return nil, t.because(context.Canceled)
		}
		resp, err := w.exchange(r, p.timeout)
		switch {
		case err == nil && resp.Body == http.NoBody:
			w.over(!resp.Close)
			return resp, nil
		case err == nil:
			resp.Body = &wiredBody{ReadCloser: resp.Body, wire: w, keep: !resp.Close}
			return resp, nil
		}
		again := w.again && !w.heard && repeatable(r.Method) && !isTimeout(t, err)
		w.over(false)
		if !again || t.Err() != nil {
			return nil, t.because(err)
		}
	}
}

// repeatable reports whether a request may be sent a second time when the shop closed
// the connection without a word, as it does with those it takes to be idle. With any
// other method the first one may have been carried out.
func repeatable(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// get returns a wire: one that was kept, or else the first that a dial makes or that
// another request leaves.
func (p *wires) get(ctx context.Context) (*wire, error) {
	for {
		w, waits := p.take()
		if w == nil {
			go p.make(context.WithoutCancel(ctx))
			return p.await(ctx, waits)
		}
		if w.quiet() {
			return w, nil
		}
		_ = w.Conn.Close() // the shop did before, or said something unasked
	}
}

// take returns the wire that was used last, or else a place among those that wait.
func (p *wires) take() (*wire, *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle) - 1; n >= 0 {
		w := p.idle[n]
		p.idle[n] = nil
		p.idle = p.idle[:n]
		return w, nil
	}
	waits := &waiter{got: make(chan *wire, 1)}
	p.waiting = append(p.waiting, waits)
	return nil, waits
}

func (p *wires) await(ctx context.Context, waits *waiter) (*wire, error) {
	select {
	case w := <-waits.got:
		return w, waits.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	at := slices.Index(p.waiting, waits)
	if at >= 0 {
		p.waiting = slices.Delete(p.waiting, at, at+1)
	}
	p.mu.Unlock()
	if at < 0 { // it has been served
		if w := <-waits.got; w != nil {
			p.put(w)
		}
	}
	return nil, ctx.Err()
}

// make dials for whoever waits longest. A request that ends meanwhile leaves the
// connection to the next one.
func (p *wires) make(ctx context.Context) {
	c, err := p.dial(ctx)
	if err == nil {
		p.put(newWire(c, p))
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if waits := p.first(); waits != nil {
		waits.err = err
		waits.got <- nil
	}
}

// first returns who has waited longest, who then waits no more; nil when nobody does.
// The caller holds mu.
func (p *wires) first() *waiter {
	if len(p.waiting) == 0 {
		return nil
	}
	waits := p.waiting[0]
	p.waiting = slices.Delete(p.waiting, 0, 1)
	return waits
}

// put hands a free wire on, or keeps it.
func (p *wires) put(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waits := p.first(); waits != nil {
		waits.got <- w
		return
	}
	if p.closed || len(p.idle) == idleConns {
		_ = w.Conn.Close()
		return
	}
	w.since = time.Now()
	p.idle = append(p.idle, w)
	if p.sweeper == nil {
		p.sweeper = time.AfterFunc(idleConnTimeout, p.sweep)
	}
}

// sweep closes what has been idle for too long, and comes again while anything is.
func (p *wires) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	long := time.Now().Add(-idleConnTimeout)
	old := slices.IndexFunc(p.idle, func(w *wire) bool { return w.since.After(long) })
	if old < 0 {
		old = len(p.idle)
	}
	p.drop(old)
	if p.sweeper = nil; len(p.idle) > 0 {
		p.sweeper = time.AfterFunc(p.idle[0].since.Sub(long), p.sweep)
	}
}

// drop closes those that have been idle longest. The caller holds mu.
func (p *wires) drop(n int) {
	for _, w := range p.idle[:n] {
		_ = w.Conn.Close()
	}
	p.idle = slices.Delete(p.idle, 0, n)
}

// close closes what is idle, and from then on each when it becomes so.
func (p *wires) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.drop(len(p.idle))
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
}
