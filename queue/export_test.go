package queue

import "time"

// Advance lets the next call carry a room time that is later by d, which the
// room then obeys: the tests' way to move time on any server.
func (l *Line) Advance(d time.Duration) {
	k := l.known.Load()
	if k == nil {
		panic("Advance before the first answer")
	}
	moved := *k
	moved.room.Now += d.Milliseconds()
	l.known.Store(&moved)
}

// Keys are the keys of this line's room.
func (l *Line) Keys() []string { return l.keys }
