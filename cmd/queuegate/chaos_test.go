package main_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
)

// TestChaos is the short form, with a seed for each kind of Redis: real gates, real
// Redis and a shop, and everything that breaks on the day of a sale broken on purpose.
// What people and watchers met is judged by what is promised. The long form is
// `make chaos`.
func TestChaos(t *testing.T) {
	t.Parallel()
	for topology, plan := range map[chaos.Topology]chaos.Plan{
		chaos.Alone:    {Seed: 4, Length: 7 * time.Second},
		chaos.Sentinel: {Seed: 2, Length: 6 * time.Second},
		chaos.Cluster:  {Seed: 3, Length: 6 * time.Second},
	} {
		t.Run(string(topology), func(t *testing.T) {
			t.Parallel()
			plan.Topology = topology
			chaosRun{plan: plan, gates: 2, crowd: 10, recovery: patience}.start(t)
		})
	}
}

// chaosRun says what a run is like.
type chaosRun struct {
	plan    chaos.Plan
	gates   int
	crowd   int             // people of a room
	program string          // the build of the gates, "" for the usual
	clocks  []time.Duration // by how much those of the gates are ahead, in turn; nil: they are right
	// recovery is how soon gates must speak for Redis again: what is promised, or longer
	// where the machine is busy with other tests.
	recovery time.Duration
	grows    bool // look for what stays behind in a gate
}

// chaosWorld is one run: everybody and everything in it.
type chaosWorld struct {
	t      *testing.T
	run    chaosRun
	rooms  []roomPlan
	start  time.Time
	shop   *chaosShop
	ledger *ledger // what the shop wrote down, when all is over
	store  *chaosStore
	gates  []*gate
	hands  []sync.Mutex // for each gate, of whoever replaces or signals its process
	// addresses are where the gates listen now.
	addresses []atomic.Pointer[string]
	admins    []atomic.Pointer[string]
	plainURL  string       // a server in this process that nothing is done to
	client    *http.Client // of watchers and operators
	config    string
	people    map[string][]*person
	transport *http.Transport // of the people

	mu     sync.Mutex
	faults []*chaos.Fault
	calls  []chaos.Call
	logs   []chaos.Log
}

// chaosRooms are like those that are audited, and one where people order.
func chaosRooms(crowd int, within time.Duration) []roomPlan {
	common := roomPlan{
		claimWindow: 5 * time.Second, session: 5 * time.Second, presence: 5 * time.Second,
		arriveWithin: within, silentMost: 6 * time.Second, crowd: crowd,
	}
	slots, both, orders := common, common, common
	slots.name, slots.limits, slots.slots = "slots", "total_active_users: 6", 6
	both.name, both.limits = "both", "total_active_users: 4, new_users_per_minute: 180, disable_session_renewal: true"
	both.slots, both.perMinute, both.burst = 4, 180, 3
	orders.name, orders.limits, orders.slots, orders.orders = "orders", "total_active_users: 4", 4, true
	return []roomPlan{slots, both, orders}
}

// watchRoom lets nobody in: whoever watches there waits through the whole run.
const watchRoom = "  - {name: watch, protect: [{paths: [/watch]}], total_active_users: 1, queue_all: true}\n"

// start makes the run, and tells of every promise that was broken.
func (r chaosRun) start(t *testing.T) {
	again, stories := r.stories(t)
	for _, story := range stories {
		t.Errorf("%s\n%s", again, story)
	}
}

// stories makes the run and judges it: how to make it again, and the shortest story of
// each promise that was broken.
func (r chaosRun) stories(t *testing.T) (again string, stories []string) {
	w := newChaosWorld(t, r)
	events := chaos.Schedule(r.plan)
	again = fmt.Sprintf("make chaos SEED=%d FOR=%s TOPOLOGY=%s", r.plan.Seed, r.plan.Length, r.plan.Topology)
	t.Logf("%s draws:\n%s", again, chaos.Print(events))

	ctx, cancel := context.WithCancel(t.Context())
	watching := w.watch(ctx)
	everybody := w.arrive(ctx)
	w.makeTrouble(events)
	w.t.Logf("the last trouble is over at %.1f s", w.since().Seconds())
	settled := w.settle(cancel, everybody)
	w.t.Logf("everybody is through at %.1f s: %v", w.since().Seconds(), settled)
	watching()
	if settled && r.grows {
		w.checkGrowth()
	}
	w.shutDown()
	w.ledger = w.shop.read(t, w.start)
	return again, w.judge()
}

func newChaosWorld(t *testing.T, r chaosRun) *chaosWorld {
	w := &chaosWorld{
		t: t, run: r, rooms: chaosRooms(r.crowd, r.plan.Length), shop: newChaosShop(t),
		addresses: make([]atomic.Pointer[string], r.gates), admins: make([]atomic.Pointer[string], r.gates),
		people: map[string][]*person{}, hands: make([]sync.Mutex, r.gates),
	}
	w.plainURL = newRecordingShop(t).URL
	w.store = newChaosStore(t, r.plan)
	var yaml strings.Builder
	for _, room := range w.rooms {
		yaml.WriteString(room.yaml())
	}
	w.config = writeConfig(t, plan{
		rooms: yaml.String() + watchRoom, redis: w.store.keys, timeout: "250ms",
		more: "shutdown: {drain_delay: 0s, grace: 10s}", upstream: ", response_timeout: 5s",
	}, "http://"+w.shop.addr, "")
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	w.client = &http.Client{Transport: transport, Timeout: 15 * time.Second}
	for i := range r.gates {
		g := &gate{config: w.config, program: r.program, env: []string{profiled}}
		if len(r.clocks) > 0 {
			g.env = append(g.env, fmt.Sprintf("GATE_CLOCK=%.0f", r.clocks[i%len(r.clocks)].Seconds()))
		}
		g.start(t)
		w.gates = append(w.gates, g)
		w.publish(i)
	}
	for _, g := range w.gates {
		g.waitReady(t)
	}
	w.start = time.Now()
	return w
}

// since is the time of the run.
func (w *chaosWorld) since() chaos.At { return time.Since(w.start) }

// publish lets everybody know where a gate listens.
func (w *chaosWorld) publish(i int) {
	url, admin := w.gates[i].url, w.gates[i].admin
	w.addresses[i].Store(&url)
	w.admins[i].Store(&admin)
}

// arrive lets the people of all rooms come.
func (w *chaosWorld) arrive(ctx context.Context) *errgroup.Group {
	w.transport = &http.Transport{MaxIdleConnsPerHost: 64}
	w.t.Cleanup(w.transport.CloseIdleConnections)
	_, tickets := keys(w.t)
	everybody := &errgroup.Group{}
	n := 0
	for _, room := range w.rooms {
		for range room.crowd {
			n++
			p := newPerson(n, w.run.plan.Seed, room, w.transport)
			p.client.Timeout = 2 * impatience
			p.start, p.gates, p.tickets = w.start, w.addresses, tickets
			w.people[room.name] = append(w.people[room.name], p)
			everybody.Go(func() error { p.live(ctx); return nil })
		}
	}
	return everybody
}

// makeTrouble makes all that is drawn, each lane by itself.
func (w *chaosWorld) makeTrouble(events []chaos.Event) {
	lanes := map[chaos.Lane][]chaos.Event{}
	for _, e := range events {
		lanes[e.Lane] = append(lanes[e.Lane], e)
	}
	makers := w.makers()
	var all errgroup.Group
	for lane, events := range lanes {
		all.Go(func() error {
			for _, e := range events {
				w.wait(e.At - w.since())
				f := &chaos.Fault{Event: e, Began: w.since(), Ended: 1 << 62}
				w.mu.Lock()
				w.faults = append(w.faults, f)
				w.mu.Unlock()
				if lane != e.Lane || makers[e.Kind] == nil {
					return fmt.Errorf("nobody can make %s", e.Kind)
				}
				makers[e.Kind](f)
				if f.Ended == 1<<62 {
					f.Ended = w.since()
				}
			}
			return nil
		})
	}
	require.NoError(w.t, all.Wait())
	require.False(w.t, w.t.Failed(), "a trouble could not be made")
}

// wait lets time pass.
func (w *chaosWorld) wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// settle waits until everybody got through, now that nothing goes wrong any more: who
// did not in a minute and a half has no outcome, and is judged as lost. It reports
// whether all did.
func (w *chaosWorld) settle(cancel func(), everybody *errgroup.Group) bool {
	done := make(chan struct{})
	go func() { _ = everybody.Wait(); close(done) }()
	defer func() {
		cancel()
		<-done
	}()
	select {
	case <-done:
		w.wait(w.lastHealed() + 7*time.Second - w.since()) // watchers see each gate recover
		return true
	case <-time.After(patience + w.run.plan.Length/2):
		return false
	}
}

// lastHealed is when the last fault was over.
func (w *chaosWorld) lastHealed() (last chaos.At) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		last = max(last, f.Ended)
	}
	return last
}

// shutDown ends all gates as an operator does.
func (w *chaosWorld) shutDown() {
	for i, g := range w.gates {
		require.NoError(w.t, g.cmd.Process.Signal(syscall.SIGTERM))
		require.Zero(w.t, g.exit(w.t), "gate %d ends with an error", i)
		w.keepLog(i)
	}
}

// keepLog takes the log of a process that has ended.
func (w *chaosWorld) keepLog(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs = append(w.logs, chaos.Log{Gate: i, Text: w.gates[i].stderr.String()})
}

// judge audits the run.
func (w *chaosWorld) judge() []string {
	e := &chaos.Evidence{Recovery: w.run.recovery, Calls: w.calls, Logs: w.logs, Orders: w.ledger.orders}
	for _, f := range w.faults {
		e.Faults = append(e.Faults, *f)
	}
	var found []crowd.Finding
	outcomes := map[string]int{}
	answers, failed, unknown := 0, 0, 0
	for _, room := range w.rooms {
		of := &crowd.Evidence{
			Slots: room.slots, PerMinute: room.perMinute, Burst: room.burst,
			ClaimWindow: room.claimWindow, Presence: room.presence, Log: w.ledger.of("/" + room.name),
			Astray: func(gate int, at chaos.At) time.Duration {
				if len(w.run.clocks) == 0 {
					return 0
				}
				late := -w.run.clocks[gate%len(w.run.clocks)]
				if late <= 0 || !e.Alone(gate, at) {
					return 0
				}
				return late
			},
			Forgot: e.Forgot,
		}
		for _, p := range w.people[room.name] {
			of.People = append(of.People, &p.History)
			e.Secrets, e.Sold = append(e.Secrets, p.secrets...), append(e.Sold, p.sold...)
			outcomes[p.Outcome]++
			for _, h := range p.Heard {
				switch {
				case h.Failed != 0:
					failed++
				case h.Code == 0:
					unknown++
				default:
					answers++
				}
			}
		}
		found = append(found, of.Audit()...)
		had := of.Tally()
		require.Positive(w.t, had.Admissions, "nobody was admitted to %s", room.name)
		found = append(found, chaos.CheckLosses(room.name, had, room.slots, e.Faults)...)
		w.t.Logf("%s: %d people, %d admissions, %d at the shop, at most %d live by tokens and %d by use (%d allowed), %d in order, %d watched",
			room.name, had.People, had.Admissions, len(of.Log), had.MostByTokens, had.MostByUse, room.slots, had.InOrder, had.Watched)
	}
	found = append(found, e.Audit()...)
	w.t.Logf("%d faults, %d operations of people answered, %d failed, %d unknown; %d calls of watchers; %d orders; %v",
		len(e.Faults), answers, failed, unknown, len(e.Calls), len(e.Orders), outcomes)
	met := w.met(e) // a soak has a thousand faults and a quarter of a million answers
	for _, kind := range slices.Sorted(maps.Keys(met)) {
		w.t.Logf("  %s: %s", kind, met[kind])
	}
	require.NotEmpty(w.t, w.ledger.visits, "nobody reached the shop")
	return chaos.Shortest(found, e.Faults)
}
