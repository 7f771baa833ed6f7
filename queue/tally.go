package queue

import (
	"context"
	"fmt"
	"time"
)

// Tally is what a room has counted in Redis since its history began: the same at
// every gate, and from zero again after a loss.
type Tally struct {
	Joined   int64 // places given
	Admitted int64 // passes given, again after a lapse included
	Claimed  int64 // passes taken up
	Lapsed   int64 // passes that nobody took up within the claim window and that fell back to their place
	Returned int64 // times that somebody who was away came back to the place
	Stepped  int64 // times that somebody who was here fell silent and stepped aside
	Dropped  int64 // places of people who stayed away for the waiting timeout
	Restored int64 // passes that Redis had lost and their holders brought back
	Resets   int64
	// Ended are stays that ended, by why. Expired are sessions that were over and
	// passes not taken up for the third time.
	Ended map[Why]int64

	// Oldest is how long ago the first of those who are here got the place; 0 when
	// nobody is here.
	Oldest time.Duration
	// Gates are those that have called within the last four seconds.
	Gates int64
}

// Whys are the reasons that a stay ends for.
func Whys() []Why { return []Why{Consumed, Released, Left, Moved, Expired} }

// counters are the names in Redis of what Tally counts.
func (t *Tally) counters() []struct {
	name string
	into *int64
} {
	return []struct {
		name string
		into *int64
	}{
		{"joined", &t.Joined}, {"admitted", &t.Admitted}, {"claimed", &t.Claimed}, {"lapsed", &t.Lapsed},
		{"returned", &t.Returned}, {"stepped", &t.Stepped}, {"dropped", &t.Dropped}, {"restored", &t.Restored},
		{"resets", &t.Resets},
	}
}

// Tally asks Redis what the room has counted, by a call that changes nothing. It
// ends within Options.Timeout; the error wraps ErrUnavailable when Redis did not
// answer.
func (l *Line) Tally(ctx context.Context) (Tally, error) {
	t := Tally{Ended: map[Why]int64{}}
	var names []any
	for _, c := range t.counters() {
		names = append(names, c.name)
	}
	for _, why := range Whys() {
		names = append(names, string(why))
	}
	raw, err := l.look(ctx, l.scripts.tally, []string{l.keys[0], l.keys[1], l.keys[12]}, names...)
	if err != nil {
		return Tally{}, err
	}
	f := &fields{values: raw}
	now, first := f.number(), f.number()
	t.Gates = f.number()
	if first > 0 {
		t.Oldest = time.Duration(max(0, now-first/1000)) * time.Millisecond
	}
	for _, c := range t.counters() {
		*c.into = f.number()
	}
	for _, why := range Whys() {
		t.Ended[why] = f.number()
	}
	if f.err != nil {
		return Tally{}, f.err
	}
	return t, nil
}

// look runs a script that has no part in the line's work and tells operators
// something. It ends within Options.Timeout.
func (l *Line) look(ctx context.Context, script script, keys []string, args ...any) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts().Timeout)
	defer cancel()
	asked := time.Now()
	raw, err := script.Run(ctx, l.opts().Redis, keys, args...).Slice()
	l.opts().Observe(script.name, time.Since(asked), err)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return raw, nil
}
