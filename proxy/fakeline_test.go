package proxy_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
)

var _ proxy.Line = (*fakeLine)(nil)

// fakeLine is a line in memory. Its clock stands still unless a test moves it,
// and starts at the wall clock so that both ways to judge a pass agree.
type fakeLine struct {
	mu         sync.Mutex
	now        time.Time
	slots      int
	session    time.Duration
	claim      time.Duration
	state      queue.RoomState
	full       bool
	undrawn    bool // places are drawn by lot, and nobody's is yet
	generation int64
	down       error // what every call answers while Redis is away
	mute       bool  // no answer of Redis was ever seen
	seq        int64
	stays      map[string]*stay
	line       []string // visitors who wait, in order
	ended      map[string]queue.Why
	calls      []string
	arrivals   []queue.Arrival
	signs      []queue.Sign
	holdings   []queue.Holding
	kinds      []string // of the holdings: claim or renew
	epoch      int64
	barred     map[string]bool
	healing    bool
	far        bool        // glances are enough
	hints      chan string // visitors whose stay took a turn
	disobey    error       // what Obey answers
	settings   queue.Settings
}

type stay struct {
	place int64
	state queue.State
	lease queue.Lease
}

func newFakeLine(slots int) *fakeLine {
	return &fakeLine{
		now: time.Now().Truncate(time.Millisecond), slots: slots, session: 5 * time.Minute, claim: 90 * time.Second,
		state: queue.Open, generation: 1, epoch: 1, stays: map[string]*stay{}, ended: map[string]queue.Why{},
		barred: map[string]bool{}, settings: queue.Settings{Session: 5 * time.Minute},
	}
}

func (l *fakeLine) call(name string) error {
	l.calls = append(l.calls, name)
	return l.down
}

// take returns the names of the calls since the last take.
func (l *fakeLine) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

// change runs f while no call is under way.
func (l *fakeLine) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *fakeLine) lose() {
	l.change(func() { l.down = fmt.Errorf("%w: connection refused", queue.ErrUnavailable) })
}
func (l *fakeLine) heal() { l.change(func() { l.down = nil }) }

func (l *fakeLine) advance(d time.Duration) { l.change(func() { l.now = l.now.Add(d) }) }

// setSlots changes the limit.
func (l *fakeLine) setSlots(n int) { l.change(func() { l.slots = n }) }

// giveOn ends every lease that has run out and gives its slot on.
func (l *fakeLine) giveOn() {
	l.change(func() {
		for v, s := range l.stays {
			if s.lease.End != 0 && s.lease.End <= l.now.UnixMilli() {
				delete(l.stays, v)
			}
		}
	})
}

func key(visitor string, place int64) string { return fmt.Sprintf("%s/%d", visitor, place) }

func (l *fakeLine) holding() (n int) {
	for _, s := range l.stays {
		if s.state == queue.Ready || s.state == queue.Active {
			n++
		}
	}
	return n
}

func (l *fakeLine) room() queue.Room {
	return queue.Room{
		State: l.state, Now: l.now.UnixMilli(), Clock: l.now, Generation: l.generation, Epoch: l.epoch,
		Waiting: int64(len(l.line)), Holding: int64(l.holding()), Limits: queue.Limits{Slots: int64(l.slots)},
	}
}

func (l *fakeLine) standing(visitor string) queue.Standing {
	st := queue.Standing{Visitor: visitor, Room: l.room(), Ahead: -1}
	s, ok := l.stays[visitor]
	if !ok {
		return st
	}
	st.State, st.Place, st.Lease, st.Joined, st.Poll = s.state, s.place, s.lease, l.now, 2*time.Second
	if i := slices.Index(l.line, visitor); i >= 0 {
		st.Ahead, st.Behind, st.Waiting = int64(i), int64(len(l.line)-i-1), int64(len(l.line))
		st.Wait, st.WaitKnown = time.Duration(i+1)*30*time.Second, true
		if l.undrawn {
			st.Ahead, st.Behind, st.Wait, st.WaitKnown = -1, 0, 0, false
		}
	}
	return st
}

func (l *fakeLine) grant(s *stay, state queue.State, life time.Duration) {
	if s.lease.Admission == "" {
		s.lease.Admission = fmt.Sprintf("adm%d", s.place)
	}
	s.state = state
	s.lease.Place, s.lease.End, s.lease.Until = s.place, l.now.Add(life).UnixMilli(), l.now.Add(life)
}

func (l *fakeLine) Join(_ context.Context, a queue.Arrival) (queue.Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("join"); err != nil {
		return queue.Standing{}, err
	}
	l.arrivals = append(l.arrivals, a)
	if _, known := l.stays[a.Visitor]; known {
		return l.standing(a.Visitor), nil
	}
	refusal := map[queue.RoomState]queue.Refusal{queue.RoomClosed: queue.Closed, queue.RoomSoldOut: queue.SoldOut}[l.state]
	if l.full {
		refusal = queue.Full
	}
	if refusal != "" {
		return queue.Standing{Visitor: a.Visitor, Refusal: refusal, Room: l.room(), Ahead: -1}, nil
	}
	l.seq = max(l.seq, a.Highest) + 1
	s := &stay{place: l.seq, state: queue.Away}
	l.stays[a.Visitor] = s
	if len(l.line) == 0 && l.holding() < l.slots && l.state == queue.Open {
		l.grant(s, queue.Ready, l.claim)
	} else {
		l.line = append(l.line, a.Visitor)
	}
	return l.standing(a.Visitor), nil
}

// Reckon knows nothing: the fake is asked each time.
func (l *fakeLine) Reckon(queue.Sign) (queue.Standing, bool) { return queue.Standing{}, false }

func (l *fakeLine) Touch(_ context.Context, sign queue.Sign) (queue.Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("touch"); err != nil {
		return queue.Standing{}, err
	}
	l.signs = append(l.signs, sign)
	if why, ok := l.ended[key(sign.Visitor, sign.Place)]; ok {
		return queue.Standing{Visitor: sign.Visitor, State: queue.Ended, Why: why, Room: l.room(), Ahead: -1}, nil
	}
	if sign.Generation < l.generation {
		return queue.Standing{Visitor: sign.Visitor, Room: l.room(), Ahead: -1}, nil
	}
	s, ok := l.stays[sign.Visitor]
	if !ok { // restored from the ticket
		s = &stay{place: sign.Place}
		l.stays[sign.Visitor] = s
		l.line = append(l.line, sign.Visitor)
		slices.SortFunc(l.line, func(a, b string) int { return int(l.stays[a].place - l.stays[b].place) })
	}
	if s.place > sign.Place { // of an earlier stay
		return queue.Standing{Visitor: sign.Visitor, State: queue.Ended, Why: queue.Expired, Room: l.room(), Ahead: -1}, nil
	}
	if s.state != queue.Ready && s.state != queue.Active {
		s.state = queue.Waiting
		if l.line[0] == sign.Visitor && l.holding() < l.slots && l.state == queue.Open {
			l.line = l.line[1:]
			l.grant(s, queue.Ready, l.claim)
		}
	}
	return l.standing(sign.Visitor), nil
}

func (l *fakeLine) Move(_ context.Context, sign queue.Sign, to string) (queue.Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("move"); err != nil {
		return queue.Standing{}, err
	}
	l.move(sign, to)
	return l.standing(to), nil
}

func (l *fakeLine) move(sign queue.Sign, to string) {
	_, ended := l.ended[key(sign.Visitor, sign.Place)]
	from, owner := l.stays[sign.Visitor], l.stays[to]
	if sign.Visitor == to || ended || sign.Generation < l.generation || from != nil && from.lease.Admission != "" {
		return
	}
	place := sign.Place
	if from != nil {
		place = min(place, from.place)
	}
	l.ended[key(sign.Visitor, sign.Place)] = queue.Moved
	delete(l.stays, sign.Visitor)
	l.line = slices.DeleteFunc(l.line, func(v string) bool { return v == sign.Visitor })
	if owner != nil && (owner.lease.Admission != "" || owner.place <= place) {
		return
	}
	l.stays[to] = &stay{place: place, state: queue.Waiting}
	l.line = append(slices.DeleteFunc(l.line, func(v string) bool { return v == to }), to)
	slices.SortFunc(l.line, func(a, b string) int { return int(l.stays[a].place - l.stays[b].place) })
}

func (l *fakeLine) lease(h queue.Holding) (*stay, queue.Standing) {
	if why, ok := l.ended[key(h.Visitor, h.Place)]; ok {
		return nil, queue.Standing{Visitor: h.Visitor, State: queue.Ended, Why: why, Room: l.room(), Ahead: -1}
	}
	s, ok := l.stays[h.Visitor]
	if !ok || s.lease.Admission == "" || s.lease.Admission != h.Admission {
		return nil, l.standing(h.Visitor)
	}
	return s, queue.Standing{}
}

func (l *fakeLine) Claim(_ context.Context, h queue.Holding) (queue.Standing, error) {
	return l.extend("claim", h)
}

func (l *fakeLine) Renew(_ context.Context, h queue.Holding) (queue.Standing, error) {
	return l.extend("renew", h)
}

func (l *fakeLine) extend(name string, h queue.Holding) (queue.Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call(name); err != nil {
		return queue.Standing{}, err
	}
	l.holdings = append(l.holdings, h)
	l.kinds = append(l.kinds, name)
	s, instead := l.lease(h)
	if s == nil {
		return instead, nil
	}
	life := l.session
	if h.Flight > 0 { // never less than it was
		life = max(h.Flight, time.UnixMilli(s.lease.End).Sub(l.now))
	}
	l.grant(s, queue.Active, life)
	if h.Order != "" && s.lease.Order == "" && !l.healing {
		s.lease.Order = h.Order
	}
	return l.standing(h.Visitor), nil
}

func (l *fakeLine) Leave(_ context.Context, h queue.Holding) (queue.Standing, error) {
	return l.end("leave", h, queue.Left)
}

func (l *fakeLine) Release(_ context.Context, h queue.Holding) (queue.Standing, error) {
	return l.end("release", h, queue.Released)
}

func (l *fakeLine) end(name string, h queue.Holding, why queue.Why) (queue.Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call(name); err != nil {
		return queue.Standing{}, err
	}
	if s := l.stays[h.Visitor]; s != nil && h.Place == 0 { // whatever there is
		h.Place = s.place
	}
	l.ended[key(h.Visitor, h.Place)] = why
	delete(l.stays, h.Visitor)
	l.line = slices.DeleteFunc(l.line, func(v string) bool { return v == h.Visitor })
	return queue.Standing{Visitor: h.Visitor, State: queue.Ended, Why: why, Room: l.room()}, nil
}

func (l *fakeLine) Settle(_ context.Context, h queue.Holding, why queue.Why) {
	if why != queue.Failed {
		_, _ = l.end("settle "+string(why), h, why)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.call("settle failed")
	if s := l.stays[h.Visitor]; s != nil && s.lease.Order == h.Order {
		s.lease.Order = ""
	}
}

func (l *fakeLine) Obey(_ context.Context, set map[queue.Setting]string, cleared ...queue.Setting) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, value := range set {
		l.calls = append(l.calls, fmt.Sprintf("obey %s=%s", name, value))
	}
	for _, name := range cleared {
		l.calls = append(l.calls, fmt.Sprintf("obey clear %s", name))
	}
	return l.disobey
}

func (l *fakeLine) Settings() queue.Settings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settings
}

func (l *fakeLine) Barred(visitor string) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Hour, l.barred[visitor]
}

func (l *fakeLine) Ended(visitor string, place int64) (queue.Why, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	why, ok := l.ended[key(visitor, place)]
	return why, ok
}

func (l *fakeLine) Glance(s queue.Sign) (queue.Standing, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if why, ok := l.ended[key(s.Visitor, s.Place)]; ok {
		return queue.Standing{Visitor: s.Visitor, State: queue.Ended, Why: why, Room: l.room()}, true
	}
	st := l.standing(s.Visitor)
	inside := st.State == queue.Ready || st.State == queue.Active
	st.State, st.Place, st.Lease = queue.Waiting, s.Place, queue.Lease{}
	return st, l.far && !inside
}

func (l *fakeLine) Look(_ context.Context, s queue.Sign) (queue.Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("look"); err != nil {
		return queue.Standing{}, err
	}
	return l.standing(s.Visitor), nil
}

func (l *fakeLine) Hints(ctx context.Context, tell func([]string)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case visitor := <-l.hints:
			tell([]string{visitor})
		}
	}
}

func (l *fakeLine) Now() (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.UnixMilli(), !l.mute
}

func (l *fakeLine) Up() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down == nil
}

func (l *fakeLine) Room() (queue.Room, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mute {
		return queue.Room{}, false
	}
	return l.room(), true
}

// panicLine is a line with a fault in it.
type panicLine struct{ proxy.Line }

func (panicLine) Join(context.Context, queue.Arrival) (queue.Standing, error) { panic("a fault") }
