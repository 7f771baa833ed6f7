package queue

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Line is one room's line as one gate sees it. Its methods may be called from
// any number of goroutines; each ends within Options.Timeout, whatever Redis
// does, and returns an error that wraps ErrUnavailable when it did not answer.
type Line struct {
	options atomic.Pointer[Options] // see Prepare
	keys    []string
	scripts scripts
	breaker breaker

	joins    *batch[Arrival, Standing]
	signs    *batch[Sign, Standing]
	claims   *batch[Holding, Standing]
	renewals *batch[Holding, Standing]
	ends     *batch[ending, Standing]
	moves    *batch[moving, Standing]

	up       atomic.Bool           // whether the last call was answered
	problem  atomic.Pointer[Fault] // of the last call that failed
	known    atomic.Pointer[knowledge]
	snapshot atomic.Pointer[snapshot]
	lost     atomic.Bool // Redis lost its history and this gate has not written back yet
	log      endLog
	holders  holders
	rest     unsettled
	// controlling keeps one goroutine at a time writing the room's values.
	controlling sync.Mutex
	control     atomic.Pointer[control]
	stored      atomic.Int64 // the version of them in Redis, as heard last
	refiled     atomic.Bool  // the file's values are others and Redis has still to be told
	// hurry has Run tick at once, changed tells Hints of other values; both hold one
	// signal.
	hurry, changed chan struct{}
	wishes         wishes
	record         recorder
}

// knowledge is the room at the last answer and when, on this host's monotonic
// clock, the question for it was sent.
type knowledge struct {
	room Room
	sent time.Time
}

// ending is one stay to be ended.
type ending struct {
	Holding
	why Why
}

const (
	// batchMost bounds one script call: so many signs of life take Redis about 1 ms,
	// and more in one call would save hardly anything.
	batchMost = 40
	// joinMost is more, for a newcomer costs less than half of that.
	joinMost = 100
	// passMost bounds a call about passes and moves, each of which changes many
	// keys.
	passMost = 30
	// batchFlights: where one call is full a second one in flight hides the round trip
	// of the first.
	batchFlights = 2
)

// New returns the line of one room. It does not call Redis: a gate starts, and
// says so, also while Redis is away.
func New(opts Options) (*Line, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	l := &Line{keys: keys(opts.Prefix, opts.Room), scripts: newScripts(), breaker: breaker{patience: opts.Timeout}}
	l.options.Store(&opts)
	l.hurry, l.changed = make(chan struct{}, 1), make(chan struct{}, 1)
	l.joins = newBatch(l, l.sendJoins)
	l.signs = newBatch(l, l.sendSigns)
	l.claims = newBatch(l, l.sendClaims)
	l.renewals = newBatch(l, l.sendRenewals)
	l.ends = newBatch(l, l.sendEndings)
	l.moves = newBatch(l, l.sendMoves)
	l.joins.most = joinMost
	l.claims.most, l.renewals.most, l.ends.most, l.moves.most = passMost, passMost, passMost, passMost
	file := opts.fileValues()
	settings, err := file.settings()
	if err != nil {
		return nil, err
	}
	l.control.Store(&control{controls: Controls{File: file}, settings: settings})
	return l, nil
}

func newBatch[Q, A any](l *Line, send func(context.Context, []Q) ([]A, error)) *batch[Q, A] {
	return &batch[Q, A]{send: send, allow: l.breaker.allow, timeout: l.opts().Timeout, most: batchMost, flights: batchFlights}
}

// Join gives a newcomer the next place (Away until the first sign of life), or,
// when nobody waits and there is room, the pass at once (Ready). Who has a place
// or a pass already gets it again.
func (l *Line) Join(ctx context.Context, a Arrival) (Standing, error) {
	s, err := l.joins.ask(ctx, a)
	if err != nil {
		return Standing{}, err
	}
	s.Visitor = a.Visitor
	s.Joined = joined(s)
	return l.told(s, -1), nil
}

// joined is when a place was taken, as far as the place tells: it is room time in
// microseconds unless lots are drawn or the sequence ran ahead.
func joined(s Standing) time.Time {
	ago := time.Duration(s.Room.Now-s.Place/1000) * time.Millisecond
	return s.Room.Clock.Add(-max(0, ago))
}

// Touch records a sign of life of a ticket's holder and tells the standing. It
// brings in whoever was away or unknown, at the ticket's own place, and admits
// in the same answer when it is their turn.
//
// The poll of somebody far back is answered from the snapshot, without Redis;
// Seen is 0 then, as nothing was recorded.
func (l *Line) Touch(ctx context.Context, sign Sign) (Standing, error) {
	if s, ok := l.Reckon(sign); ok {
		return s, nil
	}
	s, err := l.signs.ask(ctx, sign)
	if err != nil {
		return Standing{}, err
	}
	s.Visitor, s.Joined = sign.Visitor, sign.Joined
	if s.State == Waiting {
		s.Seen = s.Room.Now
	}
	return l.told(s, sign.Ahead), nil
}

// Reckon is the part of Touch that needs no Redis: the poll of somebody far back whose
// last recorded sign of life is recent enough. ok is false where Touch would ask.
func (l *Line) Reckon(sign Sign) (s Standing, ok bool) {
	if s, ok = l.fromSnapshot(sign); !ok {
		return Standing{}, false
	}
	return l.told(s, sign.Ahead), true
}

// Claim takes a ready pass into use (Active). Repeated, it gives the same lease
// again. A pass whose token has died is exchanged when this very admission still
// holds a lease; else the standing tells what became of it, and nothing of a lease
// that its visitor was given since.
//
// With Order set it also takes the order lock for that request: Lease.Order tells
// who has it. It is free again 15 s of room time after the last Renew that named
// it, and the slot is not given on before. For the time of Room.Healing nobody
// gets one.
func (l *Line) Claim(ctx context.Context, h Holding) (Standing, error) {
	return l.hold(ctx, l.claims, h)
}

// Renew extends an active lease after its holder did something: to one session
// from now, never past SessionMax; or, with Flight set, as long as a request in
// flight needs it. It also brings back the lease of a token whose epoch's history
// was lost. With Order set it takes or keeps the order lock as Claim does; in
// flight it only keeps it, and brings it back after a loss.
func (l *Line) Renew(ctx context.Context, h Holding) (Standing, error) {
	return l.hold(ctx, l.renewals, h)
}

func (l *Line) hold(ctx context.Context, b *batch[Holding, Standing], h Holding) (Standing, error) {
	s, err := b.ask(ctx, h)
	if err != nil {
		return Standing{}, err
	}
	s.Visitor = h.Visitor
	return l.told(s, -1), nil
}

// Leave ends a visitor's stay for good, place or pass; the next person gets the
// slot in the same call.
func (l *Line) Leave(ctx context.Context, h Holding) (Standing, error) {
	h.Admission, h.Order = "", ""
	return l.end(ctx, h, Left)
}

// Release gives a pass back, named by its admission.
func (l *Line) Release(ctx context.Context, h Holding) (Standing, error) {
	h.Order = ""
	return l.end(ctx, h, Released)
}

func (l *Line) end(ctx context.Context, h Holding, why Why) (Standing, error) {
	s, err := l.ends.ask(ctx, ending{Holding: h, why: why})
	if err != nil {
		return Standing{}, err
	}
	s.Visitor = h.Visitor
	if s.State == Ended {
		l.log.add(end{visitor: h.Visitor, place: s.Place, why: s.Why, admission: cmp.Or(h.Admission, "-")}, s.Room.Now)
	}
	return l.told(s, -1), nil
}

// Ended tells whether, as far as this gate has heard, the stay of a visitor at
// that place is over, and why. It asks nobody; it is at most about a second
// behind Redis, and knows at once what this gate ended itself.
func (l *Line) Ended(visitor string, place int64) (Why, bool) {
	return l.log.find(visitor, place)
}

// Barred tells how much longer a visitor whose order has succeeded may not queue
// again (Options.RejoinAfter); false when they may. Like Ended it asks nobody.
func (l *Line) Barred(visitor string) (time.Duration, bool) {
	at, used := l.log.used(visitor)
	now, ok := l.Now()
	left := l.opts().RejoinAfter - time.Duration(now-at)*time.Millisecond
	return max(0, left), used && ok && left > 0
}

// Now estimates room time in milliseconds: what Redis said last and what this
// host's monotonic clock has moved since the question was sent, so never less
// than what Redis would say. It is false before the first answer.
func (l *Line) Now() (int64, bool) {
	k := l.known.Load()
	if k == nil {
		return 0, false
	}
	return k.room.Now + time.Since(k.sent).Milliseconds(), true
}

// Room is the room at Redis's last answer; false before the first one.
func (l *Line) Room() (Room, bool) {
	k := l.known.Load()
	if k == nil {
		return Room{}, false
	}
	return k.room, true
}

// MaxWaiting is how many may wait by this gate's options before newcomers get no
// place; 0 means any number.
func (l *Line) MaxWaiting() int64 { return l.opts().MaxWaiting }

// Up tells whether Redis answered the last call.
func (l *Line) Up() bool { return l.up.Load() }

// Problem is what kind of failure the last call that failed met.
func (l *Line) Problem() Fault {
	if fault := l.problem.Load(); fault != nil {
		return *fault
	}
	return Fault{}
}

// learn keeps the newest answer.
func (l *Line) learn(r reply, sent time.Time) {
	l.up.Store(true)
	next := &knowledge{room: r.room, sent: sent}
	for {
		last := l.known.Load()
		if last != nil && (last.room.Epoch > r.room.Epoch || last.room.Now > r.room.Now) {
			return
		}
		if l.known.CompareAndSwap(last, next) {
			if last != nil && last.room.Epoch < r.room.Epoch {
				l.lost.Store(true)
			}
			if last != nil && last.room.Generation < r.room.Generation {
				l.log.void(r.room.Generation)
				l.holders.void(r.room.Generation)
			}
			return
		}
	}
}

func (l *Line) callHeader(show shown) call {
	in := l.Settings()
	c := call{
		ID:   strconv.FormatUint(rand.Uint64(), 36), //nolint:gosec // tells calls apart, keeps no secret
		Gate: l.opts().Gate, Method: string(l.opts().Method), DrawKey: hex.EncodeToString(l.opts().DrawKey), Highest: show.highest, Latest: show.latest, Earliest: show.earliest,
		Reached: show.reached, Seen: show.seen,
		Session: in.Session.Milliseconds(), SessionMax: in.SessionMax.Milliseconds(),
		ClaimWindow: l.opts().ClaimWindow.Milliseconds(), PresenceWindow: l.opts().PresenceWindow.Milliseconds(),
		WaitingTimeout: l.opts().WaitingTimeout.Milliseconds(), MaxWaiting: l.opts().MaxWaiting, Renewal: !in.DisableRenewal,
		MaxRequest: l.opts().MaxRequest.Milliseconds(), Hold: l.opts().Hold(),
	}
	c.Generation = show.generation
	if k := l.known.Load(); k != nil {
		c.Now, c.Epoch, c.Holding = k.room.Now, k.room.Epoch, k.room.Holding
		c.Generation = max(c.Generation, k.room.Generation)
	}
	return c
}

func (l *Line) sendJoins(ctx context.Context, asked []Arrival) ([]Standing, error) {
	args := make([]any, 0, len(asked))
	first := make(map[string]int, len(asked)) // who asks twice in one call is one newcomer
	var show shown
	for _, a := range asked {
		if _, again := first[a.Visitor]; !again {
			first[a.Visitor] = len(args)
			args = append(args, a.Visitor)
		}
		show.highest = max(show.highest, a.Highest)
	}
	r, err := l.run(ctx, l.scripts.join, show, args...)
	if err != nil {
		return nil, err
	}
	told, err := l.standings(r, len(args))
	if err != nil || len(args) == len(asked) {
		return told, err
	}
	out := make([]Standing, len(asked))
	for i, a := range asked {
		out[i] = told[first[a.Visitor]]
	}
	return out, nil
}

// showTicket adds what a ticket shows.
func (l *Line) showTicket(show *shown, s Sign) {
	show.prove(s.Place, l.stillProves(s.Epoch, s.Due), s.Seen)
	show.generation = max(show.generation, s.Generation)
}

// stillProves is the epoch that a ticket or pass proves, good until the given room
// time. One that is over proves none: else somebody could keep one for the minute a
// sale opens.
func (l *Line) stillProves(epoch, until int64) int64 {
	if now, ok := l.Now(); ok && until+l.opts().WaitingTimeout.Milliseconds() < now {
		return 0
	}
	return epoch
}

func (l *Line) sendSigns(ctx context.Context, asked []Sign) ([]Standing, error) {
	args := make([]any, 0, 4*len(asked))
	var show shown
	for _, s := range asked {
		args = append(args, s.Visitor, s.Place, s.Due, s.Epoch)
		l.showTicket(&show, s)
	}
	r, err := l.run(ctx, l.scripts.touch, show, args...)
	if err != nil {
		return nil, err
	}
	return l.standings(r, len(asked))
}

// unavailable wraps why Redis gave no answer.
func unavailable(cause error) error {
	if errors.Is(cause, ErrUnavailable) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, cause)
}
