package queuetest

import (
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Hand has words of one direction in it before they arrive: what it returns goes on
// instead of them, however late; not ok breaks the connection.
type Hand func(words []byte) (told []byte, ok bool)

// Weather is what a Relay does to those who speak through it. The zero Weather is a
// good network.
type Weather struct {
	Refuse   bool // no connection is taken
	Requests Hand // nil: they go on as they are. They do so as well when the caller has gone.
	Replies  Hand // nil: they go on as they are
}

// Relay is a network between callers and one server, good or bad. It is safe for use
// by several goroutines.
type Relay struct {
	Addr    string // where callers find it; always the same
	mu      sync.Mutex
	target  string
	ln      net.Listener
	weather Weather
	conns   map[net.Conn]bool
	dialled int64
}

// NewRelay starts a relay to a server. It ends with the test.
func NewRelay(t testing.TB, target string) *Relay {
	t.Helper()
	r := &Relay{Addr: net.JoinHostPort("127.0.0.1", FreePort(t)), target: target, conns: map[net.Conn]bool{}}
	require.NoError(t, r.Set(Weather{}))
	t.Cleanup(func() {
		_ = r.Set(Weather{Refuse: true})
		r.Drop()
	})
	return r
}

// Set changes the weather, for connections that stand as well; what a Hand of the
// weather before has in it stays there until that Hand returns. The error is that the
// relay's port cannot be listened on again.
func (r *Relay) Set(w Weather) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.weather = w
	switch {
	case w.Refuse && r.ln != nil:
		_ = r.ln.Close()
		r.ln = nil
	case !w.Refuse && r.ln == nil:
		ln, err := net.Listen("tcp", r.Addr)
		if err != nil {
			return err
		}
		r.ln = ln
		go r.accept(ln)
	}
	return nil
}

// Drop breaks every connection that stands.
func (r *Relay) Drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // as a reset
		}
		_ = conn.Close()
	}
}

// Dialled is how many connections were taken so far.
func (r *Relay) Dialled() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dialled
}

func (r *Relay) accept(ln net.Listener) {
	for {
		caller, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the descriptors of this process, which others give back
		}
		if !r.keep(caller, true) {
			continue
		}
		go r.serve(caller)
	}
}

// keep notes a connection that Drop is to break; false when none is taken any more.
func (r *Relay) keep(conn net.Conn, fromCaller bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.weather.Refuse {
		_ = conn.Close()
		return false
	}
	if fromCaller {
		r.dialled++
	}
	r.conns[conn] = true
	return true
}

func (r *Relay) forget(conn net.Conn) {
	_ = conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}

func (r *Relay) now() Weather {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.weather
}

func (r *Relay) serve(caller net.Conn) {
	defer r.forget(caller)
	server, err := net.Dial("tcp", r.target)
	if err != nil || !r.keep(server, false) {
		return
	}
	go func() {
		pass(caller, server, func() Hand { return r.now().Requests })
		r.forget(server)
	}()
	pass(server, caller, func() Hand { return r.now().Replies })
}

// pass carries words from one end to the other, through the hand of the moment.
func pass(from, to net.Conn, hand func() Hand) {
	buffer := make([]byte, 256<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		told, ok := buffer[:n], true
		if h := hand(); h != nil {
			told, ok = h(append([]byte(nil), buffer[:n]...))
		}
		if !ok {
			return
		}
		if _, err := to.Write(told); err != nil {
			return
		}
	}
}
