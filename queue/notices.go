package queue

import (
	"context"
	"log/slog"
	"time"
)

const (
	// calm is how long something must have been over before that is told. A room that
	// is full has a slot free each time somebody leaves, until the next one takes it:
	// without this there would be two lines for every admission.
	calm = 30 * time.Second
	// backAfter is how long Redis must have answered before it is told to be back: one
	// that answers every other call is away and back at every tick.
	backAfter = 2 * time.Second
	// surgeWithin is the time in which a surge comes, surgeLeast how many it is at
	// least.
	surgeWithin, surgeLeast = 10 * time.Second, 60
)

// spell is something that begins at once, and is over when it has not been for calm.
type spell struct {
	on   bool
	last time.Time // when it was so
}

// turn takes what is at one moment, and tells what has begun or is over by it.
func (s *spell) turn(now time.Time, is bool) (began, over bool) {
	switch {
	case is:
		began = !s.on
		s.on, s.last = true, now
	case s.on && now.Sub(s.last) >= calm:
		s.on, over = false, true
	}
	return began, over
}

// notices tells in the log what has changed in a room: once for each change, however
// often it is looked at, and whoever made it, at every gate.
type notices struct {
	known                    bool
	state                    RoomState
	limits                   Limits
	full, line, ended, surge spell
	samples                  []sample // of the last surgeWithin, the oldest first
}

// sample is how many waited at a moment.
type sample struct {
	at      time.Time
	waiting int64
}

// look compares a room with what was told of it. most is max_waiting, 0 for none.
func (n *notices) look(ctx context.Context, log *slog.Logger, now time.Time, room Room, most int64) {
	if room.State == Unconfigured { // the next tick writes the values
		return
	}
	if n.known && room.State != n.state {
		log.InfoContext(ctx, "the room's state changed", "from", string(n.state), "to", string(room.State))
	}
	if n.known && room.Limits != n.limits {
		log.InfoContext(ctx, "the room's limits changed", "total_active_users", room.Limits.Slots,
			"new_users_per_minute", room.Limits.PerMinute, "burst", room.Limits.Burst)
	}
	n.known, n.state, n.limits = true, room.State, room.Limits
	if room.Healing > 0 { // who waited before shows up again: that is no surge
		n.samples = nil
		return
	}
	numbers := []any{"active", room.Holding, "waiting", room.Waiting}
	tell := func(s *spell, is bool, level slog.Level, begins, ends string, more ...any) {
		switch began, over := s.turn(now, is); {
		case began:
			log.Log(ctx, level, begins, append(more, numbers...)...)
		case over:
			log.InfoContext(ctx, ends, numbers...)
		}
	}
	slots := room.Limits.Slots
	tell(&n.full, slots > 0 && room.Holding >= slots, slog.LevelInfo,
		"the room is full: all slots are taken", "the room has free slots again", "total_active_users", slots)
	tell(&n.line, room.Waiting > 0, slog.LevelInfo, "a line has formed", "nobody waits any more")
	tell(&n.ended, most > 0 && room.Waiting >= most, slog.LevelWarn,
		"the line is full: newcomers get no place", "the line has room for newcomers again", "max_waiting", most)
	came := n.growth(now, room.Waiting)
	tell(&n.surge, came > usual(room.Limits), slog.LevelWarn,
		"a surge: more came in ten seconds than the room lets in in a minute", "the surge is over", "came", came)
}

// growth is by how much the line has grown within surgeWithin.
func (n *notices) growth(now time.Time, waiting int64) int64 {
	for len(n.samples) > 0 && now.Sub(n.samples[0].at) > surgeWithin {
		n.samples = n.samples[1:]
	}
	if k := len(n.samples); k == 0 || now.Sub(n.samples[k-1].at) >= surgeWithin/20 {
		n.samples = append(n.samples, sample{now, waiting})
	}
	return waiting - n.samples[0].waiting
}

// usual is how many may come in ten seconds without a word: as many as get in in a
// minute, or where nothing bounds that, as many as there are slots.
func usual(l Limits) int64 {
	if l.PerMinute > 0 {
		return max(surgeLeast, l.PerMinute)
	}
	return max(surgeLeast, l.Slots)
}
