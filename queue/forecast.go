package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Plan is what an operator thinks of doing: one of its fields is set.
type Plan struct {
	Change  *Change // values
	Admit   int64   // so many are let in now
	Release string  // this visitor's stay is ended
	Reset   bool    // the room begins anew
}

// ErrPlan is returned for a plan that is none, or several at once.
var ErrPlan = errors.New("queue: a plan is one of change, admit, release and reset")

// Forecast is what a plan would do, as far as it can be told by what was measured of
// late. What cannot is missing, never guessed.
type Forecast struct {
	Version   int64 // of the values it was made from
	Changes   []Foreseen
	Now, Then Outlook
	// AtOnce is how many would be let in at once, at most.
	AtOnce int64
	// Over is how many more hold slots than the new limit has; nobody is let in until
	// so many are done. Drain is how long that takes; nil when nobody can say.
	Over  int64
	Drain *Span
	// Places and Passes are how many people would lose theirs; Places is nil when it
	// is not known how many are away.
	Places *int64
	Passes int64
	// Visitor is whose stay would be ended; set for Release alone.
	Visitor *Standing
}

// Foreseen is one value that would be another one.
type Foreseen struct {
	Setting  Setting
	Old, New string
	Origin   Origin // of the new one
}

// Outlook is a room as those in line have it.
type Outlook struct {
	State   RoomState
	Limits  Limits
	Waiting int64
	Holding int64
	// Flow is how many a second are let in; 0 when it is not known.
	Flow float64
	// Typical is the wait of one in the middle of the line from now on and Last that of
	// the one at its end; nil when nobody waits, nobody is let in or nobody can say.
	Typical, Last *Span
}

// Span is between what a time is expected to be.
type Span struct{ From, To time.Duration }

const (
	// unsure is how far the flow may be off what was measured: a fifth either way.
	unsure = 0.2
	// lookBack is how far back a forecast measures how long people hold their slots.
	lookBack = 10 * time.Minute
	// fewestEnds is how many must have given theirs back in that time for a measure.
	fewestEnds = 5
)

// Foresee tells what a plan would do and changes nothing. The error wraps ErrPlan,
// ErrSetting when the change could not be made, and ErrUnavailable when Redis did
// not answer.
func (l *Line) Foresee(ctx context.Context, p Plan) (Forecast, error) {
	room, known := l.Room()
	if !known {
		return Forecast{}, unavailable(errSilent)
	}
	points, err := l.History(ctx, l.clock().Add(-lookBack))
	if err != nil {
		return Forecast{}, err
	}
	s := sight{room: room, now: l.Controls(), stay: stayOf(points), refused: l.opts().Hold()}
	if len(points) > 0 && l.clock().Sub(points[len(points)-1].At) < 4*PointEvery {
		s.away = &points[len(points)-1].Away
	}
	switch {
	case p.Change != nil && p.Admit == 0 && p.Release == "" && !p.Reset:
		return s.change(*p.Change, l.clock())
	case p.Change == nil && p.Admit != 0 && p.Release == "" && !p.Reset:
		return s.admit(p.Admit)
	case p.Change == nil && p.Admit == 0 && p.Release != "" && !p.Reset:
		found, err := l.Find(ctx, p.Release)
		if err != nil {
			return Forecast{}, err
		}
		return s.release(found), nil
	case p.Change == nil && p.Admit == 0 && p.Release == "" && p.Reset:
		return s.reset(), nil
	default:
		return Forecast{}, ErrPlan
	}
}

// stayOf is how long people hold their slots: those held over the points, by those
// given back; 0 when too few were.
func stayOf(points []Point) time.Duration {
	var held float64
	var back int64
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		in := b.Tally.Admitted - a.Tally.Admitted
		if a.Epoch != b.Epoch || a.Generation != b.Generation || in < 0 {
			continue
		}
		held += float64(a.Holding+b.Holding) / 2 * b.At.Sub(a.At).Seconds()
		back += in - (b.Holding - a.Holding)
	}
	if back < fewestEnds || held <= 0 {
		return 0
	}
	return time.Duration(held / float64(back) * float64(time.Second))
}

// sight is what a forecast is made from.
type sight struct {
	room    Room
	now     Controls
	stay    time.Duration // that people hold their slots; 0: not known
	away    *int64
	refused bool // the shop takes no connections
}

// begin is a forecast in which nothing changes.
func (s sight) begin() Forecast {
	now := s.outlook(s.room.State, s.room.Limits, s.room.Waiting, s.room.Holding, nil)
	return Forecast{Version: s.now.Version, Now: now, Then: now}
}

func (s sight) change(c Change, at time.Time) (Forecast, error) {
	f := s.begin()
	if err := named(c.By); err != nil {
		return Forecast{}, err
	}
	next, err := s.now.with(c, at)
	if err != nil {
		return Forecast{}, err
	}
	settings, err := next.inForce()
	if err != nil {
		return Forecast{}, err
	}
	before, after := s.now.InForce(), next.InForce()
	for _, name := range AllSettings() {
		if a, b := before[name], after[name]; a.Value != b.Value || a.Origin != b.Origin {
			f.Changes = append(f.Changes, Foreseen{name, a.Value, b.Value, b.Origin})
		}
	}
	f.AtOnce = s.atOnce(settings)
	if limit := settings.Limits.Slots; limit > 0 {
		f.Over = max(0, s.room.Holding-limit)
	}
	if f.Over > 0 && s.stay > 0 {
		f.Drain = new(about(s.stay.Seconds() * math.Log(float64(s.room.Holding)/float64(settings.Limits.Slots))))
	}
	f.Then = s.outlook(settings.State, settings.Limits, s.room.Waiting, s.room.Holding, f.Drain)
	if f.Over > 0 && f.Drain == nil {
		f.Then.Typical, f.Then.Last = nil, nil
	}
	return f, nil
}

func (s sight) admit(count int64) (Forecast, error) {
	if count < 1 || count > MostAdmitted {
		return Forecast{}, &SettingError{Setting: "count", Problem: fmt.Sprintf("must be from 1 to %d (got %d)", MostAdmitted, count)}
	}
	f := s.begin()
	if s.room.Healing == 0 { // the operator's word goes beside rate, state and a shop that refuses
		f.AtOnce = min(count, s.room.Waiting, s.free(s.room.Limits.Slots))
	}
	f.Then = s.outlook(s.room.State, s.room.Limits, s.room.Waiting-f.AtOnce, s.room.Holding+f.AtOnce, nil)
	return f, nil
}

func (s sight) release(v Standing) Forecast {
	f := s.begin()
	f.Visitor = &v
	waiting, holding := s.room.Waiting, s.room.Holding
	switch v.State {
	case Waiting:
		waiting--
		f.Places = new(int64(1))
	case Away:
		f.Places = new(int64(1))
	case Ready, Active:
		f.Passes = 1
		holding--
		if s.letsIn() && s.room.Limits.Slots > 0 && holding < s.room.Limits.Slots {
			f.AtOnce = min(1, waiting)
		}
	}
	f.Then = s.outlook(s.room.State, s.room.Limits, max(0, waiting-f.AtOnce), max(0, holding)+f.AtOnce, nil)
	return f
}

func (s sight) reset() Forecast {
	f := s.begin()
	f.Passes = s.room.Holding
	if s.away != nil {
		f.Places = new(s.room.Waiting + *s.away)
	}
	f.Then = s.outlook(s.room.State, s.room.Limits, 0, 0, nil)
	return f
}

// letsIn tells whether the room lets people in now.
func (s sight) letsIn() bool { return s.room.State == Open && s.room.Healing == 0 && !s.refused }

// free is how many slots are.
func (s sight) free(limit int64) int64 {
	if limit == 0 {
		return math.MaxInt64
	}
	return max(0, limit-s.room.Holding)
}

// atOnce is how many would be let in at once by other values: as many as there are
// people and slots, and no more than the bucket can hold. Nothing is saved up while
// nobody may come in, nor while the rate holds the line back, and other values add
// nothing to what was.
func (s sight) atOnce(in Settings) int64 {
	if in.State != Open || s.room.Healing > 0 || s.refused {
		return 0
	}
	n := min(s.room.Waiting, s.free(in.Limits.Slots))
	if in.Limits.PerMinute == 0 {
		return n
	}
	saved := min(in.Limits.Burst, s.room.Limits.Burst)
	switch {
	case s.room.Limits.PerMinute == 0: // a new bucket is full
		saved = in.Limits.Burst
	case s.room.State != Open, s.byRate():
		saved = 0
	}
	return min(n, saved)
}

// byRate tells whether it is the rate that holds the line back, as configure.lua
// sees it.
func (s sight) byRate() bool {
	rate := float64(s.room.Limits.PerMinute) / 60
	return rate > 0 && s.room.Flow >= 0.8*rate
}

// flow is how many a second would be let in; 0 when nobody can say.
func (s sight) flow(limits Limits) float64 {
	same := limits.Slots == s.room.Limits.Slots && limits.PerMinute == s.room.Limits.PerMinute
	if same && s.room.Flow > 0 {
		return s.room.Flow
	}
	var bounds []float64
	if limits.PerMinute > 0 {
		bounds = append(bounds, float64(limits.PerMinute)/60)
	}
	old := s.room.Limits
	switch {
	case limits.Slots == 0:
	case s.stay > 0:
		bounds = append(bounds, float64(limits.Slots)/s.stay.Seconds())
	case s.room.Flow > 0 && !s.byRate() && old.Slots > 0:
		bounds = append(bounds, s.room.Flow*float64(limits.Slots)/float64(old.Slots))
	case s.byRate() && limits.PerMinute > 0 && limits.PerMinute <= old.PerMinute && old.Slots > 0 && limits.Slots >= old.Slots:
	default: // nobody knows how fast slots become free
		return 0
	}
	return slices.Min(bounds)
}

// outlook is the room with such limits and so many people, after a time in which
// nobody is let in.
func (s sight) outlook(state RoomState, limits Limits, waiting, holding int64, after *Span) Outlook {
	o := Outlook{State: state, Limits: limits, Waiting: waiting, Holding: holding, Flow: s.flow(limits)}
	if state != Open || s.room.Healing > 0 || s.refused || o.Flow <= 0 {
		return o
	}
	if waiting > 0 {
		o.Typical, o.Last = s.wait(o.Flow, waiting/2, after), s.wait(o.Flow, waiting-1, after)
	}
	return o
}

// wait is that of somebody with so many people ahead: between that at a faster flow
// while people go away as they did, and that at a slower one while everybody stays.
func (s sight) wait(flow float64, ahead int64, after *Span) *Span {
	quick := Room{State: Open, Flow: flow * (1 + unsure), Thinning: s.room.Thinning}
	slow := Room{State: Open, Flow: flow * (1 - unsure)}
	from, known := wait(ahead, quick)
	to, certain := wait(ahead, slow)
	if !known || !certain {
		return nil
	}
	if after != nil {
		from, to = from+after.From, to+after.To
	}
	return &Span{from, to}
}

// about is so many seconds, not quite sure.
func about(seconds float64) Span {
	return Span{
		From: time.Duration(seconds * (1 - unsure) * float64(time.Second)),
		To:   time.Duration(seconds * (1 + unsure) * float64(time.Second)),
	}
}
