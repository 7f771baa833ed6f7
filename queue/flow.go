package queue

import (
	"sync"
	"time"
)

// flow measures how many people a second are admitted, over about the last
// minute of room time. Every gate sees the same counter, so all measure alike.
type flow struct {
	mu      sync.Mutex
	samples []sample // oldest first, one a second at most
}

type sample struct {
	now      int64 // room time, ms
	admitted int64
}

const (
	flowWindow = 60_000 // ms
	flowLeast  = 5_000  // ms of samples before the measure counts
)

// observe adds one reading of the counter of admissions.
func (f *flow) observe(now, admitted int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.samples); n > 0 {
		last := f.samples[n-1]
		if admitted < last.admitted || now < last.now {
			f.samples = f.samples[:0] // history lost: measure anew
		} else if now-last.now < 1000 {
			return
		}
	}
	f.samples = append(f.samples, sample{now, admitted})
	keep := 0
	for keep < len(f.samples)-1 && now-f.samples[keep+1].now >= flowWindow {
		keep++
	}
	f.samples = f.samples[keep:]
}

// perSecond is the measured flow; false before there is enough to measure.
func (f *flow) perSecond() (float64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.samples) < 2 {
		return 0, false
	}
	first, last := f.samples[0], f.samples[len(f.samples)-1]
	if last.now-first.now < flowLeast {
		return 0, false
	}
	return float64(last.admitted-first.admitted) / (float64(last.now-first.now) / 1000), true
}

// told completes what a visitor is told: numbers that never grow, the people
// behind, and the wait.
func (l *Line) told(s Standing, shown int64) Standing {
	trueAhead := s.Ahead
	if shown >= 0 && shown < s.Ahead {
		s.Ahead = shown
	}
	if s.State == Away || s.State == Waiting {
		s.Behind = max(0, s.Waiting-trueAhead-1)
		s.Wait, s.WaitKnown = l.wait(trueAhead, s.Room)
	}
	return s
}

// wait estimates the time until the one with so many people ahead is admitted:
// at the measured flow, or at the configured rate before there is a measure.
func (l *Line) wait(ahead int64, room Room) (time.Duration, bool) {
	if room.State != Open {
		return 0, false
	}
	perSecond, measured := l.flow.perSecond()
	if !measured {
		perSecond = float64(room.Limits.PerMinute) / 60
	}
	if perSecond <= 0 {
		return 0, false
	}
	seconds := float64(ahead+1) / perSecond
	const longest = 7 * 24 * 3600 // beyond a week a number helps nobody
	if seconds > longest {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}
