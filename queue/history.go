package queue

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// PointEvery is the time from one point of the history to the next, and
	// HistoryKept how long it goes back, as in lua/record.lua.
	PointEvery  = 5 * time.Second
	HistoryKept = time.Hour
	// pointForm is the form of the points that this program reads; those of another
	// version's form are left out.
	pointForm = 1
)

// Point is a room at one moment of its last hour.
type Point struct {
	At         time.Time // by Redis's TIME
	Epoch      int64
	Generation int64
	State      RoomState
	Healing    bool  // nobody was admitted because Redis had lost its history
	Waiting    int64 // people here or newly joined
	Away       int64 // places kept for people who are away
	Holding    int64 // slots taken
	Limits     Limits
	Refused    int64 // gates that let nobody in because the shop took no connections
	// Tally is what the room had counted by then, but for Oldest; it begins anew with
	// every Epoch.
	Tally Tally
	// Waits are the waits of all who had been admitted by then.
	Waits Waits
}

// waitBuckets is how many counters of waits there are, as in lua/slots.lua.
const waitBuckets = 68

// Waits count admissions by how long they took, from the place to the pass: those
// below a second, then four counts for each doubling up to a day.
type Waits [waitBuckets]int64

// Since are the waits of those who were admitted after earlier.
func (w Waits) Since(earlier Waits) Waits {
	for i := range w {
		w[i] = max(0, w[i]-earlier[i])
	}
	return w
}

// Quantile is the wait that a share of them, from 0 to 1, did not exceed, true to a
// tenth; false when there is none.
func (w Waits) Quantile(share float64) (time.Duration, bool) {
	var all int64
	for _, n := range w {
		all += n
	}
	if all == 0 {
		return 0, false
	}
	rank := share * float64(all)
	for i, n := range w {
		if n > 0 && rank <= float64(n) {
			from, to := bucketBounds(i)
			return from + time.Duration(float64(to-from)*rank/float64(n)), true
		}
		rank -= float64(n)
	}
	_, longest := bucketBounds(waitBuckets - 1)
	return longest, true
}

// bucketBounds are between what waits one counter counts.
func bucketBounds(i int) (from, to time.Duration) {
	if i == 0 {
		return 0, time.Second
	}
	return doublings(i - 1), doublings(i)
}

// doublings is a second doubled so many quarter times.
func doublings(quarters int) time.Duration {
	step := [4]float64{1, 1.189207, 1.414214, 1.681793}[quarters%4]
	return time.Duration(step * float64(int64(time.Second)<<(quarters/4)))
}

// History are the points of the last hour that were written at or after a moment,
// the oldest first. There is one for each PointEvery in which a gate reached Redis,
// written by the first that did. The error wraps ErrUnavailable when Redis did not
// answer.
func (l *Line) History(ctx context.Context, since time.Time) ([]Point, error) {
	history, _ := recordKeys(l.opts().Prefix, l.opts().Room)
	raw, err := l.look(ctx, l.scripts.history, []string{history}, max(0, since.UnixMilli()))
	if err != nil {
		return nil, err
	}
	points := make([]Point, 0, len(raw))
	for _, value := range raw {
		text, ok := value.(string)
		if !ok {
			return nil, fmt.Errorf("%w: a point is a %T", ErrReply, value)
		}
		p, known, err := parsePoint(text)
		if err != nil {
			return nil, err
		}
		if known && !p.At.Before(since) {
			points = append(points, p)
		}
	}
	slices.SortFunc(points, func(a, b Point) int { return a.At.Compare(b.At) })
	return points, nil
}

// parsePoint reads a point; known is false when it has the form of another version.
func parsePoint(text string) (p Point, known bool, err error) {
	words := strings.Fields(text)
	f := &fields{values: make([]any, len(words))}
	for i, w := range words {
		f.values[i] = w
	}
	if form := f.number(); f.err != nil || form != pointForm {
		return Point{}, false, f.err
	}
	f.number() // the slot
	p = Point{At: time.UnixMilli(f.number()).UTC(), Epoch: f.number(), Generation: f.number()}
	if p.State = RoomState(f.text()); p.State == "-" {
		p.State = Unconfigured
	}
	p.Healing = f.number() == 1
	p.Waiting, p.Away, p.Holding = f.number(), f.number(), f.number()
	p.Limits.Slots, p.Limits.PerMinute = f.number(), f.number()
	p.Tally.Gates, p.Refused = f.number(), f.number()
	for _, c := range p.Tally.counters() {
		*c.into = f.number()
	}
	p.Tally.Ended = map[Why]int64{}
	for _, why := range Whys() {
		p.Tally.Ended[why] = f.number()
	}
	for f.err == nil && f.at < len(f.values) {
		bucket, count, _ := strings.Cut(f.text(), ":")
		i, errI := strconv.Atoi(bucket)
		n, errN := strconv.ParseInt(count, 10, 64)
		if errI != nil || errN != nil || i < 0 || i >= waitBuckets {
			f.err = fmt.Errorf("%w: waits of a point", ErrReply)
			break
		}
		p.Waits[i] = n
	}
	return p, f.err == nil, f.err
}
