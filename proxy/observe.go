package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// Observation is what became of one request, for those who count. Its words are
// those of this package and of the configuration, never a request's. One without an
// outcome is of no request: in a room in shadow somebody would have taken a pass up.
type Observation struct {
	Decision
	// Context is the request's, with what whoever called the gate keeps there; nil
	// when it is of no request.
	Context context.Context
	// Status is what the client was answered; 0 when it left before.
	Status int
	// Took is how long it took until the answer was sent, and of a stream or tunnel
	// until that was over: Lasting tells these apart.
	Took    time.Duration
	Lasting bool
	// Shop is what the shop did with it; zero when it was not asked.
	Shop ShopObservation
	// TookUp is set when the visitor took a pass up, after having waited for so
	// long since the place was given.
	TookUp bool
	Waited time.Duration
	// Issued is set when the answer handed a pass out.
	Issued bool
	// Denied says why a newcomer got no place, empty when one was given or none wanted.
	Denied queue.Refusal
	// Rejected says why a pass that the request brought is worth nothing, empty
	// when it brought none or one that is good.
	Rejected Rejection
}

// ShopObservation is how the shop answered one request.
type ShopObservation struct {
	Asked  bool
	Status int           // 0 without an answer
	Took   time.Duration // until the answer began
	// Failure is how it failed, empty when it did not.
	Failure ShopFailure
}

// ShopFailure is how the shop failed a request.
type ShopFailure string

// The failures of the shop.
const (
	ShopTimeout     ShopFailure = "timeout"     // no answer in time
	ShopUnreachable ShopFailure = "unreachable" // no connection, or closed without an answer
	ShopBroke       ShopFailure = "broke_off"   // an answer that was not finished
)

// ShopFailures are all of them.
func ShopFailures() []ShopFailure { return []ShopFailure{ShopTimeout, ShopUnreachable, ShopBroke} }

// Rejection is why a pass is worth nothing.
type Rejection string

// The rejections.
const (
	RejectedMalformed Rejection = "malformed" // no entry token of ours by its form
	RejectedSignature Rejection = "signature" // not signed by a key in use
	RejectedRoom      Rejection = "room"      // of another room or installation
	RejectedEnded     Rejection = "ended"     // its stay has ended
	RejectedReset     Rejection = "reset"     // the room was reset since
)

// Rejections are all of them.
func Rejections() []Rejection {
	return []Rejection{RejectedMalformed, RejectedSignature, RejectedRoom, RejectedEnded, RejectedReset}
}

// rejection is what a failed verification is counted as.
func rejection(err error) Rejection {
	switch {
	case errors.Is(err, token.ErrSignature):
		return RejectedSignature
	case errors.Is(err, token.ErrRoom):
		return RejectedRoom
	default:
		return RejectedMalformed
	}
}

// tookUp notes that the pass of st was taken up with this request.
func (x *exchange) tookUp(st queue.Standing) {
	x.record.tookUp = true
	x.record.waited = max(0, time.Duration(st.Room.Now-st.Lease.Place/1000)*time.Millisecond) // a place is room time in microseconds
}

// issued tells whether the answer handed a pass out.
func (x *exchange) issued() bool { return x.handed && x.given != nil }

// observe tells what became of the request.
func (x *exchange) observe() {
	rec := &x.record
	shop := rec.shop
	switch ShopFailure(rec.upstream) {
	case ShopTimeout, ShopUnreachable, ShopBroke:
		shop.Failure = ShopFailure(rec.upstream)
	}
	seen := Observation{
		Decision: rec.decision, Context: x.r.Context(), Status: rec.status, Took: x.g.now().Sub(rec.start), Lasting: rec.lasting, Shop: shop,
		TookUp: rec.tookUp, Waited: rec.waited, Issued: x.issued(), Denied: rec.denied,
	}
	if x.admitted == nil {
		seen.Rejected = rec.rejected
	}
	x.g.observe(seen)
}

// Load is what a gate has in hand in one room at one moment.
type Load struct {
	Room     string
	InFlight int // protected requests at the shop
	Streams  int // open streams of people in line
	// Refuses: the shop takes no connections, so nobody new is let in.
	Refuses bool
}

// Loads are those of all rooms.
func (g *Gate) Loads() []Load {
	list := make([]Load, 0, len(g.rooms))
	for name, r := range g.rooms {
		load := Load{Room: name, InFlight: r.inFlight.count(), Refuses: r.shop.refusal.refuses()}
		if r.streams != nil {
			load.Streams = r.streams.Count()
		}
		list = append(list, load)
	}
	return list
}
