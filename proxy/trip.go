package proxy

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// trip is one request on its way to the shop: what the hooks of the reverse
// proxy need to know of it.
//
// It is the request's context too, which is how they find it.
type trip struct {
	context.Context
	cancel  context.CancelCauseFunc
	x       *exchange
	timer   *time.Timer
	body    *watchedBody
	slot    keeper
	over    func() // called when its stream has ended
	control *http.ResponseController

	patience time.Duration // how long a client may take to let go of it once it was broken off

	mu     sync.Mutex
	wire   *wire // what carries it, while one does
	broken bool  // it was broken off
	back   bool  // it is over
}

type tripKey struct{}

// Value implements context.Context.
func (t *trip) Value(key any) any {
	if key == (tripKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// cause tells why the request was broken off; nil when it was not.
func (t *trip) cause() error { return context.Cause(t.Context) }

func tripOf(ctx context.Context) *trip {
	t, _ := ctx.Value(tripKey{}).(*trip)
	return t
}

// giveUp breaks the request off.
func (t *trip) giveUp(why error) {
	t.cancel(why)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken = true; t.back {
		return
	}
	if t.wire != nil {
		_ = t.wire.Conn.Close()
	}
	// The wait ends for a client that neither reads its answer nor sends its body: else
	// it would be in flight for ever.
	t.deadline(time.Now().Add(t.patience))
}

// tooLong breaks off a request that has run as long as one may.
func (t *trip) tooLong() { t.giveUp(errMaxRequest) }

// left breaks off a request whose client has gone.
func (t *trip) left() { t.giveUp(context.Canceled) }

// home ends the trip. The client's connection may go on.
func (t *trip) home() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.back = true; t.broken {
		t.deadline(time.Time{})
	}
}

func (t *trip) deadline(at time.Time) {
	_ = t.control.SetWriteDeadline(at)
	_ = t.control.SetReadDeadline(at)
}

// board has w carry the request from now on: it is closed when the request is broken
// off. False when it already was.
func (t *trip) board(w *wire) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken {
		return false
	}
	t.wire, w.trip = w, t
	return true
}

// alight ends that, and tells whether the wire is as good as it was.
func (t *trip) alight() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wire.trip, t.wire = nil, nil
	return !t.broken
}

// because is why it failed: that it was broken off, which closes the wire, or err.
func (t *trip) because(err error) error {
	if t.Err() != nil {
		return t.cause()
	}
	return err
}

// flush sends what there is of the answer.
func (t *trip) flush() { _ = t.control.Flush() }
