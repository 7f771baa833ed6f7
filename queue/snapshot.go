package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// snapshotAge is how old what a gate answers from may be, by room time.
const snapshotAge = time.Second

// snapshot is the line as tick.lua described it, the same for all gates.
type snapshot struct {
	made  int64 // room time in milliseconds
	top   int64 // the highest place admitted
	index []mark
}

// mark says how many people are ahead of a place.
type mark struct {
	place, ahead int64
}

func (l *Line) keepSnapshot(text string) error {
	words := strings.Fields(text)
	numbers := make([]int64, len(words))
	for i, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < -exact || exact < n {
			return fmt.Errorf("%w: snapshot", ErrReply)
		}
		numbers[i] = n
	}
	if len(numbers) < 2 || len(numbers)%2 != 0 {
		return fmt.Errorf("%w: snapshot of %d numbers", ErrReply, len(numbers))
	}
	s := &snapshot{made: numbers[0], top: numbers[1]}
	for i := 2; i < len(numbers); i += 2 {
		s.index = append(s.index, mark{numbers[i], numbers[i+1]})
	}
	slices.SortFunc(s.index, func(a, b mark) int { return int(min(1, max(-1, a.place-b.place))) })
	for i := 1; i < len(s.index); i++ {
		s.index[i].ahead = max(s.index[i].ahead, s.index[i-1].ahead)
	}
	l.snapshot.Store(s)
	return nil
}

// ahead estimates how many people are ahead of a place; false when the place is
// in front of everything the snapshot knows. Between two marks, two per cent of
// the rank apart, it interpolates.
func (s *snapshot) ahead(place int64) (int64, bool) {
	i, exact := slices.BinarySearchFunc(s.index, place, func(m mark, p int64) int { return int(min(1, max(-1, m.place-p))) })
	switch {
	case exact:
		return s.index[i].ahead, true
	case i == 0:
		return 0, false
	case i == len(s.index):
		return s.index[i-1].ahead, true
	}
	low, high := s.index[i-1], s.index[i]
	share := float64(place-low.place) / float64(high.place-low.place)
	return low.ahead + int64(share*float64(high.ahead-low.ahead)), true
}

// fromSnapshot answers a poll without Redis: of somebody far back whose last
// sign of life is recent enough and who can have been neither admitted nor ended.
// Redis awaits the next sign by the flow of the last one: when the line has become
// slower since, and signs seldomer, it must still come before that.
func (l *Line) fromSnapshot(sign Sign) (Standing, bool) {
	snap, now, ok := l.recent()
	if !ok || sign.Seen == 0 {
		return Standing{}, false
	}
	s, people, ok := l.far(sign, snap, now)
	if !ok {
		return Standing{}, false
	}
	every := l.signFor(people, s.Room.Flow)
	recorded := every > 0 && now-sign.Seen < every.Milliseconds()
	return s, recorded && now+l.longestPoll(s.Poll).Milliseconds() <= sign.Due
}

// longestPoll is how long the next poll may take to come, jitter included, with the
// presence window.
func (l *Line) longestPoll(poll time.Duration) time.Duration {
	return poll + poll/5 + l.opts().PresenceWindow
}

// drawEvery is the time between two draws, in microseconds of room time, as in
// lua/people.lua.
const drawEvery = 60_000_000

// undrawn tells whether a place's draw is still to come.
func (l *Line) undrawn(place, now int64) bool {
	return l.opts().Method == Random && place-place%drawEvery > now*1000
}
