package proxy

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/felixge/httpsnoop"
)

// halfClosed is how long one side of a tunnel may go on after the other has
// closed its half. A WebSocket is over then; who does not notice would hold both
// connections for ever (https://github.com/golang/go/issues/75807).
const halfClosed = 30 * time.Second

// farewell is how long a client has to read why its tunnel ends.
const farewell = time.Second

// becameStream tells that the answer has no end of its own.
func (t *trip) becameStream() {
	t.timer.Stop()
	t.slot.becameStream()
	t.x.record.lasting = true
}

// ended notes why the gate ended a stream.
func (t *trip) ended(why error) {
	if t.over != nil {
		t.over()
	}
	switch {
	case errors.Is(why, errPassEnded):
		t.x.record.upstream = "pass_ended"
	case errors.Is(why, errHalfClosed):
		t.x.record.upstream = "half_closed"
	case errors.Is(why, errStopping):
		t.x.record.upstream = "stopping"
	default:
		return
	}
	t.x.record.cause = why
}

// tunnel returns the writer of a request that asks for WebSocket. Its connection,
// should it be upgraded, tells when the client says something, and when either
// side stops to.
func (s *shop) tunnel(t *trip) http.ResponseWriter {
	return httpsnoop.Wrap(t.x.w, httpsnoop.Hooks{
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					conn = &tunnelConn{Conn: conn, t: t, patience: s.halfClosed}
				}
				return conn, rw, err
			}
		},
	})
}

// tunnelConn is the client's side of a tunnel.
type tunnelConn struct {
	net.Conn
	t        *trip
	patience time.Duration
	once     sync.Once
	timer    *time.Timer

	writing sync.Mutex
	said    frames // by the shop
}

// Write passes on what the shop says.
func (c *tunnelConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.Conn.Write(p)
	c.said.follow(p[:n])
	return n, err
}

// Read notes that the client has said something, or will say no more.
func (c *tunnelConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.t.slot.spoke.Store(true)
	}
	if err != nil {
		c.half()
	}
	return n, err
}

// CloseWrite passes on that the shop will say no more.
func (c *tunnelConn) CloseWrite() error {
	c.half()
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}

// half ends the tunnel some time after the first side has closed its half.
func (c *tunnelConn) half() {
	c.once.Do(func() {
		c.timer = time.AfterFunc(c.patience, func() { c.t.giveUp(errHalfClosed) })
	})
}

// Close closes the connection. A client whose pass has ended is told so first, unless
// the shop has left off in the middle of a frame.
func (c *tunnelConn) Close() error {
	c.once.Do(func() {}) // no timer from here on
	if c.timer != nil {
		c.timer.Stop()
	}
	if errors.Is(c.t.cause(), errPassEnded) && c.sayEnded() {
		time.AfterFunc(farewell, func() { _ = c.Conn.Close() })
		return nil
	}
	return c.Conn.Close()
}

// sayEnded says that the pass has ended and closes our half, so that whatever the
// client is sending does not have the kernel throw the word away. It reports whether
// that could be said.
func (c *tunnelConn) sayEnded() bool {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || !c.writing.TryLock() { // in the middle of something
		return false
	}
	defer c.writing.Unlock()
	if !c.said.between() || c.SetWriteDeadline(time.Now().Add(farewell)) != nil {
		return false
	}
	_, err := c.Conn.Write(closeFrame("the pass has ended"))
	return err == nil && half.CloseWrite() == nil
}
