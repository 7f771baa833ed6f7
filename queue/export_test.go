package queue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Advance moves the room's time forward, on any server.
func (l *Line) Advance(ctx context.Context, rdb redis.Cmdable, d time.Duration) error {
	return rdb.HIncrBy(ctx, l.keys[0], "now", d.Milliseconds()).Err()
}

// Keys are the keys of this line's room.
func (l *Line) Keys() []string { return l.keys }

// PollFor and SignFor are the intervals as the gate computes them.
func (l *Line) PollFor(ahead int64) time.Duration { return l.pollFor(ahead) }
func (l *Line) SignFor(ahead int64, flow float64) time.Duration {
	return l.signFor(ahead, flow)
}

// WaitFor is the estimated wait of the one with so many people ahead.
func WaitFor(ahead int64, room Room) (time.Duration, bool) { return wait(ahead, room) }

// StopClock makes Redis's TIME look as if it had been set back far: the next
// script moves the room's time not at all.
func (l *Line) StopClock(ctx context.Context, rdb redis.Cmdable) error {
	return rdb.HSet(ctx, l.keys[0], "clock", int64(1)<<52).Err()
}

// Step is one turn of Run.
func (l *Line) Step(ctx context.Context) (again bool, err error) { return l.step(ctx) }

// SettleRest is the part of Run that repeats what Redis did not take.
func (l *Line) SettleRest(ctx context.Context) error { return l.settleRest(ctx) }

// Unsettled is how much of it there is.
func (l *Line) Unsettled() int { return l.rest.size() }

// Lost tells whether this gate has still to write back what it knows.
func (l *Line) Lost() bool { return l.lost.Load() }

// RememberedEnd is an end of a stay in a gate's memory.
type RememberedEnd struct {
	Visitor   string
	Place     int64
	Why       Why
	Admission string
}

// Remembered is what this gate would write back after a loss.
func (l *Line) Remembered(now int64) ([]RememberedEnd, []Holding) {
	var ends []RememberedEnd
	for _, e := range l.log.all() {
		ends = append(ends, RememberedEnd{e.visitor, e.place, e.why, e.admission})
	}
	return ends, l.holders.all(now)
}

// JoinAll, TouchAll, ClaimAll, RenewAll, ReleaseAll and MoveAll are one script call
// each, about exactly these visitors.
func (l *Line) JoinAll(ctx context.Context, asked []Arrival) ([]Standing, error) {
	return l.sendJoins(ctx, asked)
}

func (l *Line) TouchAll(ctx context.Context, asked []Sign) ([]Standing, error) {
	return l.sendSigns(ctx, asked)
}

func (l *Line) ClaimAll(ctx context.Context, asked []Holding) ([]Standing, error) {
	return l.sendClaims(ctx, asked)
}

func (l *Line) RenewAll(ctx context.Context, asked []Holding) ([]Standing, error) {
	return l.sendRenewals(ctx, asked)
}

func (l *Line) ReleaseAll(ctx context.Context, asked []Holding) ([]Standing, error) {
	endings := make([]ending, len(asked))
	for i, h := range asked {
		endings[i] = ending{Holding: h, why: Released}
	}
	return l.sendEndings(ctx, endings)
}

func (l *Line) MoveAll(ctx context.Context, asked []Sign, to []string) ([]Standing, error) {
	movings := make([]moving, len(asked))
	for i, s := range asked {
		movings[i] = moving{Sign: s, to: to[i]}
	}
	return l.sendMoves(ctx, movings)
}

// LetIn is one call of Admit, by an order of that name.
func (l *Line) LetIn(ctx context.Context, order string, count int64) (int64, error) {
	admitted, _, err := l.sendAdmit(ctx, order, count, 0)
	return admitted, err
}

// ResetFrom is Reset without its history, for a generation that was seen before.
func (l *Line) ResetFrom(ctx context.Context, generation int64) error {
	_, err := l.run(ctx, l.scripts.reset, shown{}, generation)
	return err
}

// WriteBack is one call of what follows a loss.
func (l *Line) WriteBack(ctx context.Context, ends []RememberedEnd, leases []Holding) error {
	list := make([]end, len(ends))
	for i, e := range ends {
		list[i] = end{e.Visitor, e.Place, e.Why, e.Admission}
	}
	return l.writeBack(ctx, list, leases)
}

// The bounds of one call.
const (
	BatchMost = batchMost
	PassMost  = passMost
	HealMost  = healMost
)

// WritePoint offers a point of the history, and tells how much is left of its slot.
func (l *Line) WritePoint(ctx context.Context) (time.Duration, error) {
	return l.writePoint(ctx, gateHere)
}

// SignOff takes this gate off the list.
func (l *Line) SignOff(ctx context.Context) { l.signOff(ctx) }

// RecordKeys are the keys of the history and of the gates' versions.
func (l *Line) RecordKeys() (history, versions string) {
	return recordKeys(l.opts().Prefix, l.opts().Room)
}
