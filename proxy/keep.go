package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/felixge/httpsnoop"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// flightLease is how far ahead of now a request in flight keeps its slot; it is
// renewed after half of it.
const flightLease = 30 * time.Second

// keeper keeps the slot of one admitted request while it is at the shop: also
// past the session's maximum and with renewal off, but never after the pass was
// given back or while the gate does not reach Redis. A stream is not work in
// flight: its slot lasts as long as its client says something.
type keeper struct {
	x     *exchange
	mu    sync.Mutex
	timer *time.Timer // nil once the request is over
	// tunnel is set when the connection became a stream, spoke when its client
	// has said something since the last renewal.
	tunnel, spoke atomic.Bool
}

// keepSlot begins to keep the slot of x's pass. stop ends it.
func (x *exchange) keepSlot() (k *keeper, stop func()) {
	k = &keeper{x: x}
	if x.admitted == nil {
		return k, func() {}
	}
	// Not before half of what is left has passed: most requests are over by then.
	left := x.lease(x.admitted.pass)
	k.timer = time.AfterFunc(max(left/2, left-flightLease/2), k.renew)
	return k, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.timer.Stop()
		k.timer = nil
	}
}

// renew extends the lease and sets the timer again.
func (k *keeper) renew() {
	next := k.extend()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Reset(next)
	}
}

// extend renews the lease once and tells after which time to do it again.
func (k *keeper) extend() time.Duration {
	x := k.x
	h := holding(x.admitted.pass)
	next := flightLease / 2
	switch {
	case !k.tunnel.Load():
		h.Flight = flightLease
	case x.room.DisableSessionRenewal || !k.spoke.Swap(false):
		return x.room.SessionDuration / 4
	default:
		next = x.room.SessionDuration / 4
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), x.g.redisTimeout)
	defer cancel()
	if _, err := x.room.Line.Renew(ctx, h); err != nil {
		return time.Second // Redis away: soon again
	}
	return next
}

// becameStream tells that the shop answered with a stream: from now on only what
// the client says keeps the slot.
func (k *keeper) becameStream() {
	k.tunnel.Store(true)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Reset(k.x.room.SessionDuration / 4)
	}
}

// hear returns a writer whose connection, should it be upgraded, tells when the
// client says something.
func (k *keeper) hear(w http.ResponseWriter) http.ResponseWriter {
	if k.x.admitted == nil || !isWebSocket(k.x.r) {
		return w
	}
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					conn = heardConn{Conn: conn, spoke: &k.spoke}
				}
				return conn, rw, err
			}
		},
	})
}

// heardConn notes that something was read from the client.
type heardConn struct {
	net.Conn
	spoke *atomic.Bool
}

func (c heardConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.spoke.Store(true)
	}
	return n, err
}

// restored registers the lease of a running pass whose epoch's history Redis has
// lost, and lets the request through. Redis away: the pass is good until its end.
func (x *exchange) restored(h held) bool {
	st, err := x.ask(func(ctx context.Context, l Line) (queue.Standing, error) { return l.Claim(ctx, holding(h.pass)) })
	switch {
	case err != nil && x.room.OnRedisError != OnRedisErrorStrict:
		return x.enter(h, ReasonPass)
	case err != nil || st.State != queue.Active:
		return false
	}
	return x.enterWith(st, token.Active, ReasonRestored)
}

// ofLostEpoch reports whether Redis has lost its history since the pass was
// signed.
func (x *exchange) ofLostEpoch(epoch int64) bool {
	known, ok := x.room.Line.Room()
	return ok && epoch < known.Epoch
}
