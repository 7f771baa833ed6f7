package queue_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// The property test draws the same lives every time, so that a change is judged by
// what it changes; -rapid.seed draws others, and -rapid.checks more of them. Whatever a
// test starts has ended with it: no goroutine of a line outlives its tests.
func TestMain(m *testing.M) {
	flag.Parse()
	if seed := flag.Lookup("rapid.seed"); seed.Value.String() == "0" {
		if err := seed.Value.Set("20"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(patient{m})
}

// patient waits for what is about to end after the last test: on a busy machine that
// takes longer than the moment for which it is looked for.
type patient struct{ *testing.M }

func (m patient) Run() int {
	code := m.M.Run()
	for end := time.Now().Add(time.Minute); code == 0 && goleak.Find() != nil && time.Now().Before(end); {
	}
	return code
}

// steered lets a test say how far Redis's TIME moved since the call before: a
// script runs with the clock stood still, or with one second gone by. It keeps
// the TIME that each answer tells.
type steered struct {
	redis.Scripter
	rdb     *redis.Client
	room    string // key of the room
	moves   bool   // the next call finds that TIME moved
	written int    // calls that wrote control values, or tried to
	clocks  []int64
}

func (s *steered) steer(ctx context.Context) error {
	known, err := s.rdb.HExists(ctx, s.room, "now").Result()
	if err != nil || !known {
		return err
	}
	clock := int64(1) << 52
	if s.moves {
		clock = 0
	}
	return s.rdb.HSet(ctx, s.room, "clock", clock).Err()
}

// keep notes the TIME that an answer tells, and whether it was a call that writes
// control values: it ends with their record.
func (s *steered) keep(cmd *redis.Cmd, args []any) *redis.Cmd {
	raw, err := cmd.Slice()
	if err != nil {
		return cmd
	}
	s.moves = false
	if _, record := args[len(args)-1].([]byte); record {
		s.written++
	}
	if header, ok := raw[0].([]any); ok {
		if clock, ok := header[2].(int64); ok {
			s.clocks = append(s.clocks, clock)
		}
	}
	return cmd
}

func (s *steered) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if err := s.steer(ctx); err != nil {
		return redis.NewCmdResult(nil, err)
	}
	return s.keep(s.Scripter.EvalSha(ctx, sha, keys, args...), args)
}

func (s *steered) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	if err := s.steer(ctx); err != nil {
		return redis.NewCmdResult(nil, err)
	}
	return s.keep(s.Scripter.Eval(ctx, script, keys, args...), args)
}

// containers is what Redis holds of the room, every visitor's entry as text.
type containers struct {
	Waiting, Fresh, Away, Leases, Lapses, Ends map[string]string
	Unproven                                   []string
}

// person is one visitor as outside Redis: what they hold and were told.
type person struct {
	ticket, pass queue.Standing
	last         queue.Standing // the last answer
	ended        int64          // the highest place whose end was told
	spent        int64          // the highest place of a pass that an order or the shop has ended, heard of or not
}

type gate struct {
	line  *queue.Line
	model modelGate
	rest  *queue.Holding // an order whose pass another one holds: not settled yet
}

// world is one run: the same calls go to the line and to the model.
type world struct {
	t       *rapid.T
	rdb     *redis.Client
	scripts *steered
	keys    []string
	gates   []*gate
	made    int
	model   *modelRoom
	people  map[string]*person
	limits  queue.Limits // of the gate configured last
	inForce queue.Limits // in Redis, at the last call

	held     map[string]string // admission by visitor, as of the last step
	acting   string            // whose pass the last call was about
	lastGate *gate             // who made the last call
	gone     map[string]bool   // visitor + admission given on or ended since the last loss
	admitted []int64           // moments of admissions by the rate since the limits changed
	orders   int               // to let people in
	aside    bool              // the last call let people in by the operator's hand
	blind    bool              // an older copy came back and nobody knows: what had happened may happen again
	unsure   int64             // room time until which slots may be over the limit: nobody knew of the loss
	saved    func()            // brings back an older copy
	savedAt  int64             // its room time
}

func newWorld(t *rapid.T, rdb *redis.Client) *world {
	w := &world{
		t: t, rdb: rdb, people: map[string]*person{}, held: map[string]string{}, gone: map[string]bool{},
		model: newModelRoom(rapid.SampledFrom([]int64{0, 0, 3}).Draw(t, "max waiting")),
	}
	w.must(rdb.FlushAll(context.Background()).Err())
	w.scripts = &steered{Scripter: rdb, rdb: rdb, room: "qg:{checkout}:room"}
	w.limits = drawLimits(t)
	for range 3 {
		w.gates = append(w.gates, w.newGate())
	}
	w.keys = w.gates[0].line.Keys()
	for _, g := range w.gates {
		w.configure(g)
	}
	return w
}

func drawLimits(t *rapid.T) queue.Limits {
	l := queue.Limits{
		Slots:     rapid.SampledFrom([]int64{0, 1, 1, 2, 4, 8}).Draw(t, "slots"),
		PerMinute: rapid.SampledFrom([]int64{0, 0, 1, 6, 60}).Draw(t, "rate"),
	}
	if l.Slots+l.PerMinute == 0 {
		l.Slots = 2
	}
	if l.PerMinute > 0 {
		l.Burst = min(l.PerMinute, rapid.SampledFrom([]int64{1, 2, 5}).Draw(t, "burst"))
	}
	return l
}

func (w *world) must(err error) {
	w.t.Helper()
	require.NoError(w.t, err)
}

func (w *world) newGate() *gate {
	w.made++
	name := fmt.Sprintf("gate-%d", w.made)
	line, err := queue.New(queue.Options{
		Redis: w.scripts, Room: "checkout", Gate: name, Timeout: queuetest.Timeout, Limits: w.limits,
		Session: modelSession * time.Millisecond, SessionMax: modelSessionMax * time.Millisecond,
		MaxRequest:  modelMaxRequest * time.Millisecond,
		ClaimWindow: modelClaimWindow * time.Millisecond, PresenceWindow: modelPresence * time.Millisecond,
		WaitingTimeout: modelWaitingTimeout * time.Millisecond, MaxWaiting: w.model.maxWaiting,
	})
	w.must(err)
	return &gate{line: line, model: modelGate{name: name, limits: w.limits}}
}

// call runs the model's side of the script calls that the line just made, one
// step for each of them.
func (w *world) call(g *gate, shown proof, moved bool, steps ...func()) {
	w.t.Helper()
	require.Len(w.t, w.scripts.clocks, len(steps), "script calls")
	for i, step := range steps {
		movedBy := int64(0)
		if moved && i == 0 {
			movedBy = 1000
		}
		epoch := w.model.epoch
		w.model.begin(&g.model, movedBy, w.scripts.clocks[i], shown)
		if w.model.epoch != epoch {
			w.forget()
		}
		step()
		w.model.finish(&g.model)
	}
	w.scripts.clocks = nil
	w.lastGate = g
	room, ok := g.line.Room()
	require.True(w.t, ok)
	m := w.model
	require.Equal(w.t, m.now, room.Now, "room time")
	require.Equal(w.t, m.epoch, room.Epoch, "epoch")
	require.Equal(w.t, m.generation, room.Generation, "generation")
	require.Equal(w.t, m.people(), room.Waiting, "people")
	require.Equal(w.t, m.holding(), room.Holding, "slots taken")
	require.Equal(w.t, m.limits, room.Limits)
	require.Equal(w.t, max(0, m.healed-m.now), room.Healing.Milliseconds(), "healing")
	w.check()
}

// forget begins the comparison with what was held before anew: it was lost.
func (w *world) forget() {
	w.blind = false
	clear(w.gone)
	clear(w.held)
	for visitor, lease := range w.model.leases {
		w.held[visitor] = lease.admission
	}
}

func (w *world) configure(g *gate) {
	moved := w.scripts.moves
	w.must(g.line.Configure(context.Background()))
	w.call(g, proof{}, moved, w.configured(g)...)
}

// configured are the steps of writing a gate's file: the calls before the last one
// found values that it did not know.
func (w *world) configured(g *gate) []func() {
	steps := slices.Repeat([]func(){func() {}}, w.scripts.written)
	steps[len(steps)-1] = func() { w.model.configure(g.model.limits) }
	w.scripts.written = 0
	return steps
}

// step is one turn of a gate's Run.
func (w *world) step(g *gate) {
	if room, known := g.line.Room(); !known || room.State == queue.Unconfigured {
		w.configure(g)
	}
	if g.line.Lost() {
		moved := w.scripts.moves
		ends, leases := g.line.Remembered(g.model.now)
		w.must(g.line.Heal(context.Background()))
		steps := w.configured(g)
		if len(w.scripts.clocks) > len(steps) {
			steps = append(steps, func() {
				w.model.heal(ends, slices.DeleteFunc(leases, func(h queue.Holding) bool { return h.End <= w.model.now }))
			})
		}
		w.call(g, proof{}, moved, steps...)
	}
	w.settleRest(g)
	moved := w.scripts.moves
	_, err := g.line.Tick(context.Background())
	w.must(err)
	w.call(g, proof{}, moved, w.model.tick)
}

// look reads the containers, and checks what room.lua says holds between them.
func (w *world) look() containers {
	ctx := context.Background()
	pipe := w.rdb.Pipeline()
	waiting, fresh := pipe.ZRangeWithScores(ctx, w.keys[1], 0, -1), pipe.ZRangeWithScores(ctx, w.keys[2], 0, -1)
	due, away := pipe.HGetAll(ctx, w.keys[3]), pipe.ZRangeWithScores(ctx, w.keys[4], 0, -1)
	place, slots := pipe.HGetAll(ctx, w.keys[5]), pipe.ZRangeWithScores(ctx, w.keys[6], 0, -1)
	leases, unproven := pipe.HGetAll(ctx, w.keys[7]), pipe.SMembers(ctx, w.keys[8])
	lapses, ended := pipe.HGetAll(ctx, w.keys[9]), pipe.ZCard(ctx, w.keys[10])
	ends := pipe.HGetAll(ctx, w.keys[11])
	_, err := pipe.Exec(ctx)
	w.must(err)

	where, dues := map[string]string{}, len(due.Val())
	only := func(part, visitor string) {
		require.Empty(w.t, where[visitor], "%s is in %s, too", visitor, part)
		where[visitor] = part
	}
	line := func(part string, members []redis.Z) map[string]string {
		out := map[string]string{}
		for _, z := range members {
			visitor := z.Member.(string)
			only(part, visitor)
			require.Contains(w.t, due.Val(), visitor)
			out[visitor] = fmt.Sprintf("%.0f %s", z.Score, due.Val()[visitor])
		}
		return out
	}
	c := containers{
		Waiting: line("waiting", waiting.Val()), Fresh: line("fresh", fresh.Val()),
		Away: map[string]string{}, Leases: map[string]string{}, Lapses: lapses.Val(), Ends: ends.Val(),
		Unproven: slices.Sorted(slices.Values(unproven.Val())),
	}
	require.Equal(w.t, dues, len(c.Waiting)+len(c.Fresh), "due")
	for _, z := range away.Val() {
		visitor := z.Member.(string)
		only("away", visitor)
		require.Contains(w.t, place.Val(), visitor)
		c.Away[visitor] = fmt.Sprintf("%s %.0f", place.Val()[visitor], z.Score)
	}
	require.Len(w.t, place.Val(), len(c.Away), "place")
	for _, z := range slots.Val() {
		visitor := z.Member.(string)
		only("slots", visitor)
		require.Contains(w.t, leases.Val(), visitor)
		c.Leases[visitor] = fmt.Sprintf("%s %.0f", locked(leases.Val()[visitor], w.model.now), z.Score)
	}
	require.Len(w.t, leases.Val(), len(c.Leases), "leases")
	for _, visitor := range c.Unproven {
		require.Contains(w.t, c.Leases, visitor, "unproven is a part of slots")
	}
	require.EqualValues(w.t, ended.Val(), len(c.Ends), "ends")
	return c
}

// locked is a lease record without an order lock that has run out.
func locked(record string, now int64) string {
	fields := strings.Fields(record)
	if len(fields) == 6 {
		if until, _ := strconv.ParseInt(fields[5], 10, 64); until <= now {
			fields = fields[:4]
		}
	}
	return strings.Join(fields, " ")
}

// expected is what the model says the containers hold.
func (w *world) expected() containers {
	m := w.model
	line := func(part map[string]spot) map[string]string {
		out := map[string]string{}
		for visitor, s := range part {
			out[visitor] = fmt.Sprintf("%d %d", s.place, s.due)
		}
		return out
	}
	c := containers{
		Waiting: line(m.waiting), Fresh: line(m.fresh), Away: line(m.away), Leases: map[string]string{},
		Lapses: map[string]string{}, Ends: map[string]string{}, Unproven: slices.Sorted(maps.Keys(m.unproven)),
	}
	for visitor, l := range m.leases {
		lock := ""
		if l.locked > m.now {
			lock = fmt.Sprintf(" %s %d", l.order, l.locked)
		}
		c.Leases[visitor] = fmt.Sprintf("%s %s %d %d%s %d", l.stage, l.admission, l.place, l.started, lock, l.ends)
	}
	for visitor, n := range m.lapses {
		c.Lapses[visitor] = strconv.FormatInt(n, 10)
	}
	for visitor, e := range m.ends {
		c.Ends[visitor] = fmt.Sprintf("%d %s %s", e.place, e.why, e.admission)
	}
	return c
}

// check compares the line with the model, and with the promises, which know
// nothing of the model.
func (w *world) check() {
	w.t.Helper()
	c := w.look()
	now, limits := w.model.now, w.model.limits
	if limits != w.inForce {
		w.inForce, w.admitted = limits, nil
	}
	held := map[string]string{}
	var newly []string
	for visitor, lease := range c.Leases {
		words := strings.Fields(lease)
		held[visitor] = words[1]
		require.False(w.t, w.gone[visitor+words[1]] && !w.blind, "%s: a slot given on was revived", visitor)
		restored := w.people[visitor] != nil && w.people[visitor].pass.Lease.Admission == words[1]
		if w.held[visitor] != words[1] && !restored {
			newly = append(newly, visitor)
		}
	}
	for visitor, admission := range w.held {
		if held[visitor] != admission {
			w.gone[visitor+admission] = true
		}
	}
	w.held = held
	for _, visitor := range newly {
		place, _ := strconv.ParseInt(strings.Fields(c.Leases[visitor])[2], 10, 64)
		if !w.aside {
			w.admitted = append(w.admitted, now)
		}
		for other, p := range w.people {
			_, inside := held[other]
			if _, here := c.Waiting[other]; other == w.acting && !here {
				continue // left in this call
			}
			if s := p.last; s.State == queue.Waiting && s.Due >= now && !inside && s.Place < place {
				require.Failf(w.t, "out of order", "%s at %d was admitted before %s at %d, who is here",
					visitor, place, other, s.Place)
			}
		}
		if slices.Contains(c.Unproven, visitor) && limits.Slots > 0 {
			require.LessOrEqual(w.t, int64(len(c.Unproven)), max(1, limits.Slots/4), "passes of one-shot clients")
		}
	}
	if len(newly) > 0 && limits.Slots > 0 && now >= w.unsure {
		inside := int64(len(newly))
		for visitor, p := range w.people {
			s := p.last
			if _, inside := held[visitor]; visitor == w.acting && !inside {
				continue // gave the pass back in this call
			}
			over := s.Lease.Place <= p.ended // an order has used the pass up, and nobody was told
			if holds(s) && s.Lease.End > now && !over && !slices.Contains(newly, visitor) {
				inside++
			}
		}
		require.LessOrEqual(w.t, inside, limits.Slots, "more people inside than slots")
		require.LessOrEqual(w.t, int64(len(c.Leases)), limits.Slots, "more leases than slots")
	}
	if limits.PerMinute > 0 {
		require.Empty(w.t, overRate(w.admitted, limits.PerMinute, limits.Burst))
	}
	require.Equal(w.t, w.expected(), c)
}

// told checks one visitor's answer and keeps it.
func (w *world) told(visitor string, want modelAnswer, got queue.Standing, shown int64) {
	w.t.Helper()
	p := w.person(visitor)
	w.t.Logf("at %d %s is told %s %s%s, place %d, ahead %d, pass %s to %d", w.model.now, visitor, got.State, got.Why,
		got.Refusal, got.Place, got.Ahead, got.Lease.Admission, got.Lease.End)
	require.Equal(w.t, want.state, got.State, "state of %s", visitor)
	require.Equal(w.t, want.why, got.Why)
	require.Equal(w.t, want.refusal, got.Refusal)
	require.Equal(w.t, want.place, got.Place, "place of %s", visitor)
	if holds(got) {
		require.Equal(w.t, want.lease, modelLease{
			got.State, got.Lease.Admission, got.Lease.Place, got.Lease.Started, got.Lease.End, got.Lease.Order, want.lease.locked,
		})
	}
	if got.State == queue.Away || got.State == queue.Waiting {
		require.Equal(w.t, want.due, got.Due, "due of %s", visitor)
		ahead := want.ahead
		switch {
		case w.model.healing():
			ahead = shown
		case shown >= 0:
			ahead = min(ahead, shown)
		}
		require.Equal(w.t, ahead, got.Ahead, "people ahead of %s", visitor)
		if before := p.ticket; before.Place == got.Place && before.Ahead >= 0 && shown >= 0 {
			require.LessOrEqual(w.t, got.Ahead, before.Ahead, "the number shown grew")
		}
	}
	if got.State != queue.Ended && got.State != queue.Unknown {
		require.Greater(w.t, got.Place, p.ended, "an ended stay came back")
	}
	switch got.State {
	case queue.Away, queue.Waiting:
		p.ticket = got
	case queue.Ready, queue.Active:
		p.pass = got
		if got.State == queue.Ready && p.ticket.Place == got.Place && rapid.Bool().Draw(w.t, "heard of it") {
			p.ticket.Due = got.Lease.End // of the ticket that goes with a pass
		}
	case queue.Ended:
		// A ticket that is merely too old leaves no record of an end.
		if end, recorded := w.model.endOf(visitor, got.Place); recorded {
			p.ended = end.place
		}
	}
	p.last = got
}

func (w *world) person(visitor string) *person {
	p := w.people[visitor]
	if p == nil {
		p = &person{}
		w.people[visitor] = p
	}
	return p
}

// holds tells whether a standing holds a pass.
func holds(s queue.Standing) bool { return s.State == queue.Ready || s.State == queue.Active }

func (w *world) anyone() string {
	return fmt.Sprintf("visitor-%d", rapid.IntRange(1, 9).Draw(w.t, "visitor"))
}

func (w *world) anyGate() *gate {
	return w.gates[rapid.IntRange(0, len(w.gates)-1).Draw(w.t, "gate")]
}

func (w *world) join(visitor string) {
	g, ticket, moved := w.anyGate(), w.person(visitor).ticket, w.scripts.moves
	var want modelAnswer
	got, err := g.line.Join(context.Background(), queue.Arrival{Visitor: visitor, Highest: ticket.Place})
	w.must(err)
	last := w.model.last
	w.call(g, proof{}, moved, func() { want = w.model.join(visitor, ticket.Place) })
	w.told(visitor, want, got, -1)
	if w.model.last != last && got.Place == w.model.last {
		require.Greater(w.t, got.Place, max(last, ticket.Place), "a newcomer stands behind everybody")
	}
}

func (w *world) touch(visitor string) {
	p := w.person(visitor)
	ticket := p.ticket
	if ticket.Place == 0 {
		return
	}
	g, moved, before, settled := w.anyGate(), w.scripts.moves, p.last, max(p.ended, p.spent)
	var want modelAnswer
	ticket.Visitor = visitor
	shown := proves(g, ticket.Due, proof{ticket.Room.Epoch, ticket.Place, ticket.Seen, ticket.Room.Generation})
	got, err := g.line.Touch(context.Background(), sign(ticket))
	w.must(err)
	w.call(g, shown, moved, func() { want = w.model.touch(visitor, ticket.Place, ticket.Due, ticket.Room.Epoch) })
	w.told(visitor, want, got, ticket.Ahead)
	if (before.State == queue.Away || before.State == queue.Waiting) && w.model.now <= ticket.Due+modelWaitingTimeout {
		require.NotEqual(w.t, queue.Unknown, got.State, "nobody is lost")
		if got.State == queue.Ended && ticket.Place > settled {
			require.Equal(w.t, queue.Expired, got.Why, "only lapses end a stay that polls")
		} else if got.State != queue.Ended && !holds(got) { // an older copy may bring back a pass of an earlier stay
			require.LessOrEqual(w.t, got.Place, ticket.Place)
		}
	}
}

// proves is what a gate takes a ticket or pass, good until the given time, to prove:
// one that is over proves no loss.
func proves(g *gate, until int64, shown proof) proof {
	if now, ok := g.line.Now(); ok && until+modelWaitingTimeout < now {
		return proof{generation: shown.generation}
	}
	return shown
}

// pass runs one call about the pass a visitor holds, or held.
func (w *world) pass(visitor string, flight time.Duration, order string,
	ask func(*queue.Line, queue.Holding) (queue.Standing, error), model func(queue.Holding) modelAnswer,
) {
	held := w.person(visitor).pass
	if held.Lease.Admission == "" {
		return
	}
	g, moved := w.anyGate(), w.scripts.moves
	w.acting, held.Visitor = visitor, visitor
	h := holding(held)
	h.Flight, h.Order = flight, order
	var want modelAnswer
	shown := proves(g, h.End, proof{epoch: h.Epoch, place: h.Place, generation: h.Generation})
	got, err := ask(g.line, h)
	w.must(err)
	w.call(g, shown, moved, func() { want = model(h) })
	w.told(visitor, want, got, -1)
}

// order is a request that may be an order: none mostly.
func (w *world) order() string {
	return rapid.SampledFrom([]string{"", "", "order-1", "order-2"}).Draw(w.t, "order")
}

func (w *world) claim(visitor string) {
	w.pass(visitor, 0, w.order(), func(l *queue.Line, h queue.Holding) (queue.Standing, error) {
		return l.Claim(context.Background(), h)
	}, w.model.claim)
}

func (w *world) renew(visitor string) {
	flight := rapid.SampledFrom([]time.Duration{0, 0, 15 * time.Second, modelSession * time.Millisecond}).Draw(w.t, "flight")
	w.pass(visitor, flight, w.order(), func(l *queue.Line, h queue.Holding) (queue.Standing, error) {
		return l.Renew(context.Background(), h)
	}, w.model.renew)
}

func (w *world) release(visitor string) {
	w.pass(visitor, 0, "", func(l *queue.Line, h queue.Holding) (queue.Standing, error) {
		return l.Release(context.Background(), h)
	}, func(h queue.Holding) modelAnswer { return w.model.leave(h, queue.Released) })
}

// settle tells the line how an order ended. One that cannot be settled while
// another has the lock is left to the gate's next step.
func (w *world) settle(visitor string) {
	why := rapid.SampledFrom([]queue.Why{queue.Consumed, queue.Consumed, queue.Failed, queue.Released}).Draw(w.t, "why")
	held := w.person(visitor).pass
	g, moved := w.anyGate(), w.scripts.moves
	if held.Lease.Admission == "" || g.rest != nil {
		return
	}
	w.acting, held.Visitor = visitor, visitor
	h := holding(held)
	if why != queue.Released {
		h.Order = rapid.SampledFrom([]string{"order-1", "order-2"}).Draw(w.t, "order")
	}
	if why != queue.Failed {
		w.person(visitor).spent = max(w.person(visitor).spent, h.Place)
	}
	shown := proves(g, h.End, proof{epoch: h.Epoch, place: h.Place, generation: h.Generation})
	g.line.Settle(context.Background(), h, why)
	w.call(g, shown, moved, func() { w.settled(g, h, why, w.model.leave(h, why)) })
	require.Equal(w.t, g.rest != nil, g.line.Unsettled() > 0, "an order that has to wait for another one")
}

// settled keeps what comes of it.
func (w *world) settled(g *gate, h queue.Holding, why queue.Why, got modelAnswer) {
	p := w.person(h.Visitor)
	switch {
	case got.state == queue.Ended:
		p.ended = max(p.ended, got.place)
	case why == queue.Consumed && got.lease.admission == h.Admission && got.lease.order != "" && got.lease.order != h.Order:
		g.rest = &h
	}
}

// settleRest is what a gate does before it ticks, as Run does.
func (w *world) settleRest(g *gate) {
	h := g.rest
	if h == nil {
		return
	}
	g.rest, w.acting = nil, h.Visitor
	moved := w.scripts.moves
	shown := proves(g, h.End, proof{epoch: h.Epoch, place: h.Place, generation: h.Generation})
	w.must(g.line.SettleRest(context.Background()))
	w.call(g, shown, moved, func() { w.settled(g, *h, queue.Consumed, w.model.leave(*h, queue.Consumed)) })
	require.Equal(w.t, g.rest != nil, g.line.Unsettled() > 0)
}

func (w *world) leave(visitor string) {
	ticket := w.person(visitor).ticket
	if ticket.Place == 0 {
		return
	}
	g, moved := w.anyGate(), w.scripts.moves
	w.acting = visitor
	h := queue.Holding{Visitor: visitor, Place: ticket.Place, Generation: ticket.Room.Generation, Epoch: ticket.Room.Epoch}
	var want modelAnswer
	shown := proves(g, h.End, proof{epoch: h.Epoch, place: h.Place, generation: h.Generation})
	got, err := g.line.Leave(context.Background(), h)
	w.must(err)
	w.call(g, shown, moved, func() { want = w.model.leave(h, queue.Left) })
	w.told(visitor, want, got, -1)
}

// letIn lets some in by the operator's hand.
func (w *world) letIn() {
	count := rapid.Int64Range(1, 5).Draw(w.t, "count")
	w.orders++
	w.aside = true
	defer func() { w.aside = false }()
	done := int64(0)
	for range rapid.IntRange(1, 2).Draw(w.t, "runs") { // a second run goes on where the first one ended
		g, moved := w.anyGate(), w.scripts.moves
		got, err := g.line.LetIn(context.Background(), "order-"+strconv.Itoa(w.orders), count)
		w.must(err)
		w.call(g, proof{}, moved, func() { done += w.model.letIn(count - done) })
		require.Equal(w.t, done, got, "let in")
	}
}

// reset begins the room anew. What anybody was told before is worth nothing.
func (w *world) reset() {
	g, moved := w.anyGate(), w.scripts.moves
	seen := g.model.generation
	w.must(g.line.ResetFrom(context.Background(), seen))
	for _, p := range w.people {
		p.last = queue.Standing{}
	}
	w.call(g, proof{}, moved, func() { w.model.reset(seen) })
}

func (w *world) advance() {
	by := rapid.SampledFrom([]time.Duration{
		37 * time.Millisecond, time.Second, 5 * time.Second, modelDue * time.Millisecond, 12 * time.Second,
		modelClaimWindow * time.Millisecond, 31 * time.Second, 61 * time.Second, 125 * time.Second,
	}).Draw(w.t, "by")
	if !w.model.exists {
		return
	}
	w.must(w.gates[0].line.Advance(context.Background(), w.rdb, by))
	w.model.now += by.Milliseconds()
}

// lose lets Redis lose its history: all of it or what came after the older copy.
// When the gates know each of them moves at once, as Run does within half a
// second; when not, they were all started anew and only tickets and tokens know.
func (w *world) lose(forget func()) {
	forget()
	w.forget()
	if rapid.Bool().Draw(w.t, "gates live on") {
		for _, g := range append([]*gate{w.lastGate}, w.gates...) {
			for again := true; again; again = g.line.Lost() {
				w.step(g)
			}
		}
		for visitor, p := range w.people {
			known := slices.ContainsFunc(w.gates, func(g *gate) bool {
				_, over := g.line.Ended(visitor, p.ended)
				return over
			})
			if !known {
				p.ended = 0
			}
		}
		return
	}
	w.blind = true
	w.admitted, w.unsure = nil, max(w.unsure, w.model.now+2*modelSession+modelSessionMax)
	for i := range w.gates {
		w.gates[i] = w.newGate()
	}
	for _, p := range w.people {
		p.last, p.ended = queue.Standing{}, 0
	}
}

func (w *world) flush() {
	w.lose(func() {
		w.must(w.rdb.FlushAll(context.Background()).Err())
		fresh := newModelRoom(w.model.maxWaiting)
		*w.model = *fresh
	})
}

// evict lets one key of the room vanish alone.
func (w *world) evict() {
	parts := []string{"room", "line", "line", "line", "away", "away", "slots", "slots", "", "", "ends", "ends", "gates"}
	n := rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12}).Draw(w.t, "key")
	if len(w.model.torn) > 0 || w.rdb.Exists(context.Background(), w.keys[n]).Val() == 0 {
		return
	}
	w.lose(func() {
		w.must(w.rdb.Del(context.Background(), w.keys[n]).Err())
		m := w.model
		switch parts[n] {
		case "room":
			fresh := newModelRoom(m.maxWaiting)
			fresh.waiting, fresh.fresh, fresh.away, fresh.leases = m.waiting, m.fresh, m.away, m.leases
			fresh.unproven, fresh.lapses, fresh.ends, fresh.gates = m.unproven, m.lapses, m.ends, m.gates
			*m = *fresh
		case "gates":
			clear(m.gates)
		default:
			m.torn[parts[n]] = true
		}
	})
}

// save keeps a copy of Redis and of the model, which rollBack brings back.
func (w *world) save() {
	ctx := context.Background()
	var parts []func(redis.Pipeliner)
	for _, key := range w.keys {
		kind, err := w.rdb.Type(ctx, key).Result()
		w.must(err)
		switch kind {
		case "hash":
			parts = append(parts, copyOf(w, w.rdb.HGetAll(ctx, key).Result, func(p redis.Pipeliner, v map[string]string) {
				p.HSet(ctx, key, v)
			}))
		case "zset":
			parts = append(parts, copyOf(w, w.rdb.ZRangeWithScores(ctx, key, 0, -1).Result, func(p redis.Pipeliner, v []redis.Z) {
				p.ZAdd(ctx, key, v...)
			}))
		case "set":
			parts = append(parts, copyOf(w, w.rdb.SMembers(ctx, key).Result, func(p redis.Pipeliner, v []string) {
				p.SAdd(ctx, key, v)
			}))
		case "string":
			parts = append(parts, copyOf(w, w.rdb.Get(ctx, key).Result, func(p redis.Pipeliner, v string) {
				p.Set(ctx, key, v, 0)
			}))
		}
	}
	model := w.model.clone()
	w.savedAt = model.now
	w.saved = func() {
		pipe := w.rdb.TxPipeline()
		pipe.FlushAll(ctx)
		for _, put := range parts {
			put(pipe)
		}
		_, err := pipe.Exec(ctx)
		w.must(err)
		*w.model = *model.clone()
	}
}

func copyOf[T any](w *world, read func() (T, error), put func(redis.Pipeliner, T)) func(redis.Pipeliner) {
	value, err := read()
	w.must(err)
	return func(p redis.Pipeliner) { put(p, value) }
}

func (w *world) rollBack() {
	// A copy of this very millisecond is no older one.
	if w.saved != nil && w.lastGate.model.now > w.savedAt {
		w.lose(w.saved)
	}
}

// restart replaces one gate by a new process, which knows nothing; reload gives
// it other limits as well.
func (w *world) restart(reload bool) {
	if reload {
		w.limits = drawLimits(w.t)
	}
	i := rapid.IntRange(0, len(w.gates)-1).Draw(w.t, "restarted")
	w.gates[i] = w.newGate()
	w.configure(w.gates[i])
}

func (w *world) run(steps int) {
	ops := []struct {
		name   string
		weight int
		do     func()
	}{
		{"touch", 24, func() { w.touch(w.anyone()) }},
		{"join", 12, func() { w.join(w.anyone()) }},
		{"claim", 8, func() { w.claim(w.anyone()) }},
		{"renew", 5, func() { w.renew(w.anyone()) }},
		{"release", 4, func() { w.release(w.anyone()) }},
		{"settle", 5, func() { w.settle(w.anyone()) }},
		{"leave", 2, func() { w.leave(w.anyone()) }},
		{"tick", 6, func() { w.step(w.anyGate()) }},
		{"let in", 2, w.letIn},
		{"reset", 1, w.reset},
		{"advance", 10, w.advance},
		{"time moves", 3, func() { w.scripts.moves = true }},
		{"restart", 1, func() { w.restart(false) }},
		{"reload", 1, func() { w.restart(true) }},
		{"save", 1, w.save},
		{"flush", 1, w.flush},
		{"roll back", 1, w.rollBack},
		{"evict", 1, w.evict},
	}
	var deck []int
	for i, op := range ops {
		deck = append(deck, slices.Repeat([]int{i}, op.weight)...)
	}
	for range steps {
		op := ops[rapid.SampledFrom(deck).Draw(w.t, "op")]
		w.t.Log(op.name)
		op.do()
	}
}

// TestTheLineBehavesAsTheModel drives random lives through the scripts and
// through the model side by side.
func TestTheLineBehavesAsTheModel(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		rapid.Check(t, func(t *rapid.T) {
			newWorld(t, rdb).run(rapid.IntRange(10, 120).Draw(t, "steps"))
		})
	})
}
