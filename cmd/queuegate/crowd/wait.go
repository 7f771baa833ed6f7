package crowd

import (
	"time"
)

// Shown is a wait that a visitor was told, as the range the queue page makes of it,
// and when.
type Shown struct {
	At       At
	From, To time.Duration // To is left out of the range
}

// shownRange is what the queue page makes of a wait: below a minute, between two of a
// few minutes, more than some hours.
func shownRange(wait time.Duration) (from, to time.Duration) {
	if wait < time.Minute {
		return 0, time.Minute
	}
	minutes := [...]time.Duration{1, 2, 3, 5, 10, 15, 20, 30, 45, 60}
	for i := 1; i < len(minutes); i++ {
		if wait < minutes[i]*time.Minute {
			return minutes[i-1] * time.Minute, minutes[i] * time.Minute
		}
	}
	from = time.Hour
	for _, h := range [...]time.Duration{1, 2, 3, 6, 12, 24} {
		if wait >= h*time.Hour {
			from = h * time.Hour
		}
	}
	return from, 1 << 62
}

// Waits are the ranges shown, judged.
type Waits struct {
	Inside, Shorter, Longer int // than the range said
	Open                    int // the run ended before anybody could say
}

// Waits judges every range that was shown to somebody who was let in or still waited
// when the run ended. The turn came between the last poll that found them waiting and
// the one that did not: a range is missed when all of that time is outside.
func (e *Evidence) Waits() (w Waits) {
	for _, p := range e.People {
		for _, s := range p.Shown {
			after, known := p.turn(s.At)
			switch {
			case known == 0 && after-s.At >= s.To:
				w.Longer++
			case known == 0:
				w.Open++
			case after-s.At >= s.To:
				w.Longer++
			case known-s.At < s.From:
				w.Shorter++
			default:
				w.Inside++
			}
		}
	}
	return w
}

// turn tells between which two moments the turn came to somebody who waited at one;
// known is 0 when it did not, and after then the last that they were found waiting.
func (h *History) turn(since At) (after, known At) {
	after = since
	for _, a := range h.Heard {
		switch {
		case a.Got < since:
		case len(a.Passes) > 0:
			return after, a.Got
		case a.Status == "waiting":
			after = a.Sent
		case a.Status != "" && a.Code != 0: // the stay is over
			return after, 0
		}
	}
	return after, 0
}
