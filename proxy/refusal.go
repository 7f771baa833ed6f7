package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// refusalGlance is how often a shop that refuses is tried, while the lines ask.
const refusalGlance = time.Second

// backAfter is how long connections must have been made before the shop is told to be
// back: one that takes every other connection would be a line in the log each time.
const backAfter = 2 * time.Second

// refusal knows whether the shop takes connections. A connection that could not be
// made is the sign that it does not, whoever wanted it; after that it is tried once
// a second, for as long as anybody asks, until one can be made.
type refusal struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	log  *slog.Logger

	mu       sync.Mutex
	refusing bool
	addr     [2]string // network and address that refused
	trying   bool
	tried    time.Time
	told     bool      // the log has it that the shop takes none
	well     time.Time // since when it does, while told is set
}

// DialContext is the dialer's, watched.
func (r *refusal) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := r.dial(ctx, network, addr)
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) { // whoever gave up tells nothing of the shop
		r.heard(network, addr, err)
	}
	return conn, err
}

// heard notes how the last attempt ended.
func (r *refusal) heard(network, addr string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried = time.Now()
	if now := err != nil; now != r.refusing {
		r.refusing, r.addr, r.well = now, [2]string{network, addr}, r.tried
	}
	if r.refusing && !r.told {
		r.told = true
		r.log.Warn("the shop takes no connections: nobody new is let in until it does", "error", err.Error())
	}
	r.tellBack()
}

// tellBack says in the log that the shop is back when it has been for a while. The
// caller holds mu.
func (r *refusal) tellBack() {
	if r.told && !r.refusing && time.Since(r.well) >= backAfter {
		r.told = false
		r.log.Info("the shop takes connections again")
	}
}

// refuses tells whether the shop takes no connections, as far as is known, and sees
// to it that it is tried again.
func (r *refusal) refuses() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusing && !r.trying && time.Since(r.tried) >= refusalGlance {
		r.trying = true
		go r.try(r.addr[0], r.addr[1])
	}
	r.tellBack()
	return r.refusing
}

// try makes one connection, which the dialer bounds.
func (r *refusal) try(network, addr string) {
	conn, err := r.dial(context.Background(), network, addr)
	if err == nil {
		_ = conn.Close()
	}
	r.heard(network, addr, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trying = false
}
