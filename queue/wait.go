package queue

import (
	"math"
	"time"
)

// longestWait: beyond a week a number helps nobody.
const longestWait = 7 * 24 * time.Hour

// told completes what a visitor is told: a number ahead that never grows, the
// people behind, and the wait. shown is the number told before, negative when
// there was none.
func (l *Line) told(s Standing, shown int64) Standing {
	l.holders.see(s)
	return numbered(s, shown)
}

// numbered fills in the numbers that follow from the people ahead.
func numbered(s Standing, shown int64) Standing {
	if s.State != Away && s.State != Waiting {
		return s
	}
	people := s.Ahead
	if people < 0 { // before the draw
		return s
	}
	switch {
	case s.Room.Healing > 0:
		// The line is not complete yet: what was told before stands.
		s.Ahead = shown
	case shown >= 0 && !lowers(s.Ahead, shown):
		s.Ahead = shown
	}
	s.Behind = max(0, s.Waiting-people-1)
	s.Wait, s.WaitKnown = wait(people, s.Room)
	return s
}

// lowers tells whether a number is so much below the one shown that it is worth
// a new ticket: any fall below a hundred, one per cent above.
func lowers(ahead, shown int64) bool {
	return ahead < shown && (shown <= 100 || ahead <= shown-shown/100)
}

// WaitFor estimates how long somebody with so many people ahead waits; false when
// there is no ground for a number.
func (r Room) WaitFor(ahead int64) (time.Duration, bool) { return wait(ahead, r) }

// wait estimates the time until the one with so many people ahead is admitted:
// they move at the measured flow, or before there is a measure at the configured
// rate where nothing but the rate holds them back, while those ahead thin out by the measured share a second. False when
// there is no ground for a number.
func wait(ahead int64, room Room) (time.Duration, bool) {
	if room.State != Open || room.Healing > 0 {
		return 0, false
	}
	flow := room.Flow
	if flow == 0 && room.Limits.Slots == 0 {
		flow = float64(room.Limits.PerMinute) / 60
	}
	if flow <= 0 {
		return 0, false
	}
	n := float64(ahead + 1)
	seconds := n / flow
	if room.Thinning > 0 {
		seconds = math.Log1p(room.Thinning*n/flow) / room.Thinning
	}
	if seconds > longestWait.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}
