package proxy

import (
	"container/heap"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

const (
	// shadowMost bounds the doubles of one room at one gate, about 50 MB of them.
	// Whoever comes beyond it is let through uncounted.
	shadowMost = 100_000
	// shadowAsks is how many doubles ask the line at once: enough to fill its batches.
	shadowAsks = 100
	// shadowRetry is after how long a double asks again that got no answer.
	shadowRetry = time.Second
)

// shadow plays, in a room that diverts nobody, the part of everybody who would be
// diverted: for each a double joins the room's line, polls as told, takes the pass up
// in turn, and keeps it for as long as its person goes on. So the line, and whatever
// tells of it, shows the numbers that a sale would have. No request waits for a double,
// and nothing that a double is told reaches anybody.
type shadow struct {
	line    Line
	log     *slog.Logger
	room    string
	observe func(Observation)
	gates   atomic.Int32 // that use it, see Options.After

	mu     sync.Mutex
	people map[string]*double
	due    doubles
	wake   chan struct{}
	end    context.CancelFunc // of its goroutine; nil before the first double
	idle   sync.WaitGroup
	full   sync.Once
}

// part is what a double does next.
type part int

const (
	joins    part = iota // asks for a place
	waits                // polls
	admitted             // has got in with its first request, and takes the pass up with the next
	enters               // it is its turn: takes the pass up
	shops                // has the pass, and renews it while its person comes
	refused              // there is no place to be had
)

// double is one person's.
type double struct {
	visitor string
	part    part
	at      time.Time // when it is up next
	place   int       // in doubles; -1 while it asks
	came    bool      // its person came since it asked
	ends    queue.Why // why its stay is to end; empty: it is not
	sign    queue.Sign
	pass    queue.Holding
	renewed time.Time
}

func newShadow(room string, line Line, log *slog.Logger, observe func(Observation)) *shadow {
	return &shadow{room: room, line: line, log: log, observe: observe, people: map[string]*double{}, wake: make(chan struct{}, 1)}
}

// came notes a request of a visitor, and tells what would have become of it as far as
// that is known.
func (s *shadow) came(visitor string) Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.people[visitor]
	if d == nil {
		if len(s.people) >= shadowMost {
			s.full.Do(func() {
				s.log.Warn("as many visitors are followed in shadow as may be; more pass uncounted", "room", s.room, "most", shadowMost)
			})
			return ReasonShadowUnknown
		}
		d = &double{visitor: visitor, place: -1, at: time.Now()}
		s.people[visitor] = d
		s.schedule(d, d.at)
		return ReasonShadowUnknown
	}
	d.came = true
	switch {
	case d.place < 0: // asks at this moment, and looks at came after it
	case d.part == admitted:
		d.part = enters
		s.schedule(d, time.Now())
	case d.part == shops && s.renewalDue(d):
		s.schedule(d, time.Now())
	}
	return d.would()
}

// would is what would become of a request of its person.
func (d *double) would() Reason {
	switch d.part {
	case joins:
		return ReasonShadowUnknown
	case waits, refused:
		return ReasonShadowQueued
	default:
		return ReasonShadowPassed
	}
}

// wouldNow is what came tells, without a request.
func (s *shadow) wouldNow(visitor string) Reason {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.people[visitor]; d != nil {
		return d.would()
	}
	return ReasonShadowUnknown
}

// concluded notes that the shop's answer would have ended the stay.
func (s *shadow) concluded(visitor string, why queue.Why) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.people[visitor]; d != nil && d.part == shops {
		d.ends = why
		if d.place >= 0 {
			s.schedule(d, time.Now())
		}
	}
}

func (s *shadow) renewalDue(d *double) bool {
	in := s.line.Settings()
	return !in.DisableRenewal && time.Since(d.renewed) >= in.Session/4
}

// schedule sets when a double is up. The caller holds mu.
func (s *shadow) schedule(d *double, at time.Time) {
	d.at = at
	if d.place >= 0 {
		heap.Fix(&s.due, d.place)
	} else {
		heap.Push(&s.due, d)
	}
	if s.end == nil {
		var ctx context.Context
		ctx, s.end = context.WithCancel(context.Background())
		s.idle.Go(func() { s.run(ctx) })
	}
	if d.place == 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// close ends all doubles and returns when none asks any more.
func (s *shadow) close() {
	s.mu.Lock()
	if s.end == nil {
		s.end = func() {} // none begins any more
	}
	s.end()
	s.mu.Unlock()
	s.idle.Wait()
}

// run has each double asked when it is up.
func (s *shadow) run(ctx context.Context) {
	asks := make(chan struct{}, shadowAsks)
	var asking sync.WaitGroup
	defer asking.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		for {
			d, asked, wait := s.next()
			if d == nil {
				timer.Reset(wait)
				break
			}
			select {
			case asks <- struct{}{}:
			case <-ctx.Done():
				return
			}
			asking.Go(func() {
				s.ask(ctx, d, asked)
				<-asks
			})
		}
	}
}

// next takes out the double that is up, and how it is then, or tells for how long
// none is.
func (s *shadow) next() (d *double, asked double, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) == 0 {
		return nil, double{}, time.Hour
	}
	if wait := time.Until(s.due[0].at); wait > 0 {
		return nil, double{}, wait
	}
	d = heap.Pop(&s.due).(*double)
	d.came = false
	return d, *d, 0
}

// ask has a double do what it is up for. The line bounds by itself how long that may
// take.
func (s *shadow) ask(ctx context.Context, d *double, as double) {
	var (
		st  queue.Standing
		err error
	)
	switch {
	case as.ends != "":
		s.line.Settle(ctx, as.pass, as.ends)
		st.State = queue.Ended
	case as.part == joins:
		st, err = s.line.Join(ctx, queue.Arrival{Visitor: as.visitor})
	case as.part == waits:
		st, err = s.line.Touch(ctx, as.sign)
	case as.part == enters:
		st, err = s.line.Claim(ctx, as.pass)
	case as.part == shops && s.renews(as):
		st, err = s.line.Renew(ctx, as.pass)
	default: // the session is over, the pass was never taken up, or there was no place
		st.State = queue.Ended
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.schedule(d, time.Now().Add(jitter(shadowRetry)))
		return
	}
	s.heard(d, st)
	if d.ends != "" && d.part == shops && d.place >= 0 { // the shop has answered meanwhile
		s.schedule(d, time.Now())
	}
}

// renews tells whether a double that is up inside has come for its renewal, and not
// for its end.
func (s *shadow) renews(d double) bool {
	now, ok := s.line.Now()
	return ok && now < d.pass.End
}

// heard goes on by an answer of the line. The caller holds mu.
func (s *shadow) heard(d *double, st queue.Standing) {
	now := time.Now()
	switch st.State {
	case queue.Away, queue.Waiting:
		first := d.part == joins
		d.part, d.sign = waits, signOf(d.sign, st)
		if first { // a page polls as soon as it is there
			s.schedule(d, now)
			return
		}
		s.schedule(d, now.Add(jitter(st.Poll)))
	case queue.Ready, queue.Active:
		s.hasPass(d, st, now)
	case queue.Unknown:
		if st.Refusal != "" {
			d.part = refused
			s.schedule(d, now.Add(jitter(st.Poll)))
			return
		}
		d.part, d.sign = joins, queue.Sign{} // of before a reset, or a loss that is being healed
		s.schedule(d, now.Add(jitter(shadowRetry)))
	default:
		delete(s.people, d.visitor)
	}
}

// hasPass goes on with an admission.
func (s *shadow) hasPass(d *double, st queue.Standing, now time.Time) {
	before := d.part
	d.pass = queue.Holding{
		Visitor: d.visitor, Admission: st.Lease.Admission, Place: st.Lease.Place, Generation: st.Room.Generation,
		Epoch: st.Room.Epoch, Active: st.State == queue.Active, End: st.Lease.End,
	}
	over := now.Add(time.Duration(st.Lease.End-st.Room.Now) * time.Millisecond)
	switch {
	case st.State == queue.Active:
		d.part, d.renewed = shops, now
		if before == enters {
			waited := max(0, time.Duration(st.Room.Now-st.Lease.Place/1000)*time.Millisecond)
			s.observe(Observation{Decision: Decision{Room: s.room}, TookUp: true, Waited: waited})
		}
		s.schedule(d, over)
	case before == joins && !d.came:
		d.part = admitted
		s.schedule(d, over)
	default:
		d.part = enters
		s.schedule(d, now)
	}
}

// signOf is the next sign of life of somebody who is told st, by the one before.
func signOf(before queue.Sign, st queue.Standing) queue.Sign {
	next := queue.Sign{
		Visitor: st.Visitor, Place: st.Place, Generation: st.Room.Generation, Epoch: st.Room.Epoch,
		Seen: st.Seen, Due: st.Due, Ahead: st.Ahead, Joined: st.Joined,
	}
	if next.Seen == 0 && before.Place == next.Place { // nothing was recorded: what was still holds
		next.Due = before.Due
		if before.Epoch == next.Epoch {
			next.Seen = before.Seen
		}
	}
	return next
}

// double has the request noted in a room that diverts nobody. Whoever the shop has no
// name for is told apart by address and User-Agent: an estimate, which is kept nowhere
// and used for nothing else.
func (x *exchange) double(consumes bool) {
	if x.caller == passive || x.caller == socket {
		x.record.would = ReasonShadowQueued // they get no place, and have no pass to show here
	}
	visitor := x.identify()
	if visitor == "" {
		visitor = token.VisitorFromKey(x.g.secret, x.room.Name, "shadow", x.client.String()+" "+x.r.UserAgent())
	}
	s := x.room.shadow
	if x.record.would == "" {
		x.record.would = s.came(visitor)
	} else if now := s.wouldNow(visitor); now != ReasonShadowUnknown {
		x.record.would = now
	}
	x.doubled, x.consumes = visitor, consumes
}

// wouldHave puts what would have become of the request into its record. The line has
// mostly answered by now what it had not when the request came.
func (x *exchange) wouldHave() {
	if x.doubled == "" {
		return
	}
	if x.record.would == ReasonShadowUnknown {
		x.record.would = x.room.shadow.wouldNow(x.doubled)
	}
	x.record.decision.Reason = x.record.would
}

// doubleConcludes has a double's stay end as the answer of the shop would have ended it.
func (x *exchange) doubleConcludes(status int, said word) {
	switch {
	case x.doubled == "":
	case x.consumes && x.room.Consume.succeeded(status):
		x.room.shadow.concluded(x.doubled, queue.Consumed)
	case said.release:
		x.room.shadow.concluded(x.doubled, queue.Released)
	}
}

// doubles are those who are up, the next one first.
type doubles []*double

// Len implements heap.Interface.
func (h doubles) Len() int { return len(h) }

// Less implements heap.Interface.
func (h doubles) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

// Swap implements heap.Interface.
func (h doubles) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *doubles) Push(x any) {
	d := x.(*double)
	d.place = len(*h)
	*h = append(*h, d)
}

// Pop implements heap.Interface.
func (h *doubles) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	d.place = -1
	return d
}
