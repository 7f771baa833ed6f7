package proxy

import (
	"net"
	"net/http"
	"sync"
)

// tunnels are the upgraded connections. http.Server forgets a connection once
// it is hijacked: Shutdown returns at once and the tunnel lives on
// (https://github.com/golang/go/issues/17721).
type tunnels struct {
	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool // no more of them
}

// watch is a ConnState hook.
func (t *tunnels) watch(c net.Conn, state http.ConnState) {
	if state != http.StateHijacked {
		return
	}
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = over.NetConn()
	}
	own, ok := c.(*conn)
	if !ok {
		return
	}
	t.mu.Lock()
	closed := t.closed
	if !closed {
		if t.open == nil {
			t.open = make(map[*conn]struct{})
		}
		t.open[own] = struct{}{}
	}
	t.mu.Unlock()
	if closed {
		_ = own.Close()
	}
}

func (t *tunnels) forget(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, c)
}

// closeAll closes all upgraded connections, and from then on each new one. It
// returns how many there were.
func (t *tunnels) closeAll() int {
	t.mu.Lock()
	t.closed = true
	open := t.open
	t.open = nil
	t.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
	return len(open)
}

// listener hands out connections that tell when they are closed.
type listener struct {
	net.Listener
	tunnels *tunnels
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
	return &conn{TCPConn: tcp, tunnels: l.tunnels}, nil
}

// conn embeds the concrete type to keep what net/http and io look for in it:
// ReadFrom, CloseWrite, SyscallConn.
type conn struct {
	*net.TCPConn
	tunnels *tunnels
}

// Close closes the connection and forgets it.
func (c *conn) Close() error {
	c.tunnels.forget(c)
	return c.TCPConn.Close()
}
