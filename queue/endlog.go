package queue

import (
	"maps"
	"strconv"
	"strings"
	"sync"
)

// end is one stay that is over.
type end struct {
	visitor   string
	place     int64
	why       Why
	admission string // of the pass that ended, "-" when there was none
}

// endLog is this gate's copy of the ends that can still refute a ticket or a
// token. It is filled by the ticks and by what this gate ended itself.
type endLog struct {
	mu     sync.RWMutex
	byID   map[string]loggedEnd
	cursor int64 // number of the last end fetched
	epoch  int64 // in which numbers of ends compare with it
	swept  int64 // room time of the last sweep
}

type loggedEnd struct {
	end
	at int64 // room time in milliseconds of the end
}

func (e *endLog) add(over end, now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byID == nil {
		e.byID = make(map[string]loggedEnd)
	}
	if known, ok := e.byID[over.visitor]; !ok || known.place <= over.place {
		e.byID[over.visitor] = loggedEnd{end: over, at: now}
	}
}

func (e *endLog) find(visitor string, place int64) (Why, bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	over, ok := e.byID[visitor]
	if !ok || over.place < place {
		return "", false
	}
	return over.why, true
}

// used tells when a visitor's last stay ended with a successful order.
func (e *endLog) used(visitor string) (at int64, ok bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	over, known := e.byID[visitor]
	return over.at, known && over.why == Consumed
}

// sweep forgets what ended before the given room time, at most once a
// minute of it.
func (e *endLog) sweep(now, before int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now-e.swept < 60_000 {
		return
	}
	e.swept = now
	for visitor, over := range e.byID {
		if over.at < before {
			delete(e.byID, visitor)
		}
	}
}

// void forgets the ends of before a reset.
func (e *endLog) void(generation int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.byID, func(_ string, over loggedEnd) bool { return over.place < generation })
}

// all lists every end still kept.
func (e *endLog) all() []end {
	e.mu.RLock()
	defer e.mu.RUnlock()
	list := make([]end, 0, len(e.byID))
	for _, over := range e.byID {
		list = append(list, over.end)
	}
	return list
}

// last is the number of the last end fetched in an epoch; 0 in a new one, whose
// numbers may begin anew.
func (e *endLog) last(epoch int64) int64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.epoch != epoch {
		return 0
	}
	return e.cursor
}

// advance moves the cursor.
func (e *endLog) advance(epoch, to int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.epoch, e.cursor = epoch, to
}

// parseEnd reads "place why admission".
func parseEnd(visitor, record string) (end, bool) {
	parts := strings.Fields(record)
	if len(parts) != 3 {
		return end{}, false
	}
	place, err := strconv.ParseInt(parts[0], 10, 64)
	return end{visitor: visitor, place: place, why: Why(parts[1]), admission: parts[2]}, err == nil
}
