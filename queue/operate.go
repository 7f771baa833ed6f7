package queue

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
)

// What an operator does once, as Controls.History tells it.
const (
	ActionAdmit   Setting = "admit"   // New: how many were let in
	ActionRelease Setting = "release" // New: whose stay was ended
	ActionReset   Setting = "reset"   // Old and New: the generation
)

// MostAdmitted bounds one Admit.
const MostAdmitted = 10_000

// ErrConflict is returned when the room's values are no longer those of
// Change.Version.
var ErrConflict = errors.New("queue: the room's values have changed meanwhile")

// Admit lets up to count people in from the front of the line, in whatever state
// the room is and beside its rate, never beyond its slots, and tells how many; they
// are fewer when there are no more people here, no more slots, or while Room.Healing
// is not over. The error wraps ErrUnavailable when Redis did not answer: so many are
// in then, and maybe more.
func (l *Line) Admit(ctx context.Context, by string, count int64) (admitted int64, err error) {
	if err := named(by); err != nil {
		return 0, err
	}
	if count < 1 || count > MostAdmitted {
		return 0, &SettingError{Setting: "count", Problem: fmt.Sprintf("must be from 1 to %d (got %d)", MostAdmitted, count)}
	}
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	order := rand.Text()
	for again := true; again; {
		if admitted, again, err = l.sendAdmit(ctx, order, count, admitted); err != nil {
			return admitted, err
		}
	}
	l.note(ctx, Changed{Setting: ActionAdmit, New: strconv.FormatInt(admitted, 10), By: by})
	return admitted, nil
}

// sendAdmit is one call of an order to let count people in, of whom so many are.
func (l *Line) sendAdmit(ctx context.Context, order string, count, in int64) (admitted int64, again bool, err error) {
	r, err := l.run(ctx, l.scripts.admit, shown{}, order, count, in)
	if err != nil {
		return in, false, err
	}
	f := &fields{values: r.rest}
	admitted, again = f.number(), f.number() == 1
	return admitted, again, f.err
}

// Find looks a visitor up: where they stand, or how their stay has ended as far as
// this gate remembers. It is no sign of life. The state is Unknown when nobody
// knows them.
func (l *Line) Find(ctx context.Context, visitor string) (Standing, error) {
	s, err := l.Look(ctx, Sign{Visitor: visitor, Ahead: -1})
	if err != nil {
		return Standing{}, err
	}
	if why, over := l.log.find(visitor, 0); over && s.State == Unknown {
		s.State, s.Why = Ended, why
	}
	if s.Place > 0 {
		s.Joined = joined(s)
	}
	return s, nil
}

// Dismiss ends a visitor's stay, place or pass, by an operator's hand; the next
// person gets the slot in the same call. Of somebody who has neither it tells what
// Find does, and changes nothing.
func (l *Line) Dismiss(ctx context.Context, by, visitor string) (Standing, error) {
	if err := named(by); err != nil {
		return Standing{}, err
	}
	s, err := l.Find(ctx, visitor)
	if err != nil || s.State == Unknown || s.State == Ended {
		return s, err
	}
	if s, err = l.end(ctx, Holding{Visitor: visitor}, Released); err == nil {
		l.note(ctx, Changed{Setting: ActionRelease, New: visitor, By: by})
	}
	return s, err
}

// Reset begins the room anew: every place and every pass is void, at all gates
// within a second, and whoever comes stands in a new line. Values, live ones too,
// stay. It tells the room after it. The error wraps ErrUnavailable when Redis did
// not answer: Room.Generation tells then whether the reset was carried out.
func (l *Line) Reset(ctx context.Context, by string) (Room, error) {
	if err := named(by); err != nil {
		return Room{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	before, known := l.Room()
	if !known {
		return Room{}, unavailable(errSilent)
	}
	r, err := l.run(ctx, l.scripts.reset, shown{}, before.Generation)
	if err != nil {
		return Room{}, err
	}
	l.note(ctx, Changed{
		Setting: ActionReset, Old: strconv.FormatInt(before.Generation, 10), New: strconv.FormatInt(r.room.Generation, 10), By: by,
	})
	return r.room, nil
}

// named checks who makes a change.
func named(by string) error {
	if n := len(by); n == 0 || n > 64 {
		return fmt.Errorf("%w: By must say in 1 to 64 characters who makes it", ErrSetting)
	}
	return nil
}

// note adds what was done to the room's history. It was done, whether this succeeds
// or not.
func (l *Line) note(ctx context.Context, done Changed) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tickTimeout)
	defer cancel()
	l.controlling.Lock()
	defer l.controlling.Unlock()
	_, err := l.rewrite(ctx, func(base Controls) (Controls, error) {
		done.At = l.clock()
		return base.noted(done), nil
	})
	if err != nil {
		l.opts().Log.WarnContext(ctx, "not kept in the room's history", "room", l.opts().Room, "done", string(done.Setting),
			"by", done.By, "old", done.Old, "new", cmp.Or(done.New, "-"), "error", err.Error())
	}
}
