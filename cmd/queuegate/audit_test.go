package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
)

// The rooms that are audited, all at once on the same gates. The windows are
// short so that people poll often and a pass that nobody takes up falls back
// during the run.
func auditedRooms() []roomPlan {
	common := roomPlan{claimWindow: 5 * time.Second, session: 5 * time.Second, presence: 5 * time.Second, arriveWithin: 20 * time.Second, silentMost: 6 * time.Second}
	slots, rate, both := common, common, common
	slots.name, slots.limits, slots.slots, slots.crowd = "slots", "total_active_users: 8", 8, 60
	rate.name, rate.limits, rate.session, rate.crowd = "rate", "total_active_users: 0, new_users_per_minute: 120, burst: 20", 10*time.Minute, 60
	rate.perMinute, rate.burst = 120, 20
	both.name, both.crowd = "both", 35
	both.limits = "total_active_users: 4, new_users_per_minute: 180, disable_session_renewal: true"
	both.slots, both.perMinute, both.burst = 4, 180, 3
	return []roomPlan{slots, rate, both}
}

// setting reads a number from the environment: another seed or another length
// of the run is tried without a change of the test.
func setting(t *testing.T, name string, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, "%s must be a number", name)
	return n
}

// trouble is the schedule of kills and freezes.
type trouble struct {
	fleet         *fleet
	addresses     []atomic.Pointer[string]
	chance        *rand.Rand
	kills, frozen int
	allAtOnce     int
}

// make troubles the gates for so long: it kills or freezes one or two at a time,
// now and then all of them for a second, and brings them back.
func (tr *trouble) make(t *testing.T, length time.Duration) {
	t.Helper()
	until := time.Now().Add(length)
	for time.Now().Before(until) {
		victims := tr.chance.Perm(len(tr.fleet.gates))[:1+tr.chance.IntN(2)]
		hold := time.Duration(tr.chance.Int64N(int64(time.Second)))
		freezes := tr.chance.IntN(2) == 0
		if freezes {
			hold = 2*time.Second + time.Duration(tr.chance.Int64N(int64(2*time.Second)))
		}
		if tr.chance.IntN(8) == 0 {
			victims, hold = tr.chance.Perm(len(tr.fleet.gates)), time.Second
			tr.allAtOnce++
		}
		for _, v := range victims {
			if freezes {
				tr.frozen++
				require.NoError(t, tr.fleet.gates[v].cmd.Process.Signal(syscall.SIGSTOP))
			} else {
				tr.kills++
				tr.fleet.gates[v].kill()
			}
		}
		<-time.After(hold)
		for _, v := range victims {
			switch {
			case freezes && tr.chance.IntN(4) > 0:
				require.NoError(t, tr.fleet.gates[v].cmd.Process.Signal(syscall.SIGCONT))
				continue
			case freezes: // one that never wakes up
				tr.kills++
				tr.fleet.gates[v].kill()
			}
			tr.fleet.gates[v].url = ""
			tr.fleet.gates[v].start(t)
			tr.publish(v)
		}
		<-time.After(time.Duration(tr.chance.Int64N(int64(time.Second))))
	}
}

// publish lets the crowd know where a gate listens.
func (tr *trouble) publish(i int) {
	url := tr.fleet.gates[i].url
	tr.addresses[i].Store(&url)
}

// TestAuditOfFourGates lets a crowd shop through four gates that are killed,
// frozen and started again, and then judges by the shop's raw log and by what the
// crowd was answered alone: nobody over capacity, nobody over the rate, nobody
// overtaken who was there, nobody lost. QG_AUDIT_SEED chooses another schedule
// and another crowd, QG_AUDIT_SECONDS how long the gates are troubled.
func TestAuditOfFourGates(t *testing.T) {
	t.Parallel()
	seed := setting(t, "QG_AUDIT_SEED", 20)
	length := time.Duration(setting(t, "QG_AUDIT_SECONDS", 25)) * time.Second
	t.Logf("QG_AUDIT_SEED=%d", seed)

	rooms := auditedRooms()
	var yaml strings.Builder
	for _, r := range rooms {
		yaml.WriteString(r.yaml())
	}
	f := startFleet(t, plan{gates: 4, rooms: yaml.String()})
	log := &ledger{start: time.Now()}
	f.shop.behave(log.serve)
	tr := &trouble{fleet: f, addresses: make([]atomic.Pointer[string], 4), chance: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // which gate dies, not a secret
	for i := range f.gates {
		tr.publish(i)
	}

	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	_, tickets := keys(t)
	ctx, cancel := context.WithCancel(t.Context())
	var everybody errgroup.Group
	defer func() {
		cancel()
		_ = everybody.Wait()
	}()
	people := map[string][]*person{}
	n := 0
	for _, room := range rooms {
		for range room.crowd {
			n++
			p := newPerson(n, seed, room, transport)
			p.start, p.gates, p.tickets = log.start, tr.addresses, tickets
			people[room.name] = append(people[room.name], p)
			everybody.Go(func() error { p.live(ctx); return nil })
		}
	}
	tr.make(t, length)

	// All gates are up: everybody who still polls gets through.
	done := make(chan struct{})
	go func() { _ = everybody.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * patience): // judged below: whoever has no outcome is lost
		cancel()
		<-done
	}

	for _, room := range rooms {
		t.Run(room.name, func(t *testing.T) { judge(t, room, people[room.name], log, tr) })
	}
	t.Run("a pass given back is refused everywhere", func(t *testing.T) { refusedEverywhere(t, f, people["rate"]) })
}

// judge audits one room.
func judge(t *testing.T, room roomPlan, people []*person, log *ledger, tr *trouble) {
	e := &crowd.Evidence{
		Slots: room.slots, PerMinute: room.perMinute, Burst: room.burst,
		ClaimWindow: room.claimWindow, Presence: room.presence, Log: log.of("/" + room.name),
	}
	outcomes := map[string]int{}
	for _, p := range people {
		e.People = append(e.People, &p.History)
		outcomes[p.Outcome]++
	}
	had := e.Tally()
	t.Logf("%d people, %d answers, %d requests without one, %d admissions, %d requests at the shop, %d kills, %d freezes (%d times all gates): "+
		"%d live at once by tokens and %d by use (%d allowed), %d admitted in a minute (%d allowed), %d in order; %v",
		had.People, had.Answers, had.Silence, had.Admissions, len(e.Log), tr.kills, tr.frozen, tr.allAtOnce,
		had.MostByTokens, had.MostByUse, room.slots, had.BusiestMinute, room.perMinute, had.InOrder, outcomes)
	for _, story := range crowd.Shortest(e.Audit()) {
		t.Error(story)
	}
	require.NotEmpty(t, e.Log, "nobody reached the shop")
	require.NotZero(t, had.InOrder, "nothing was compared")
}

// refusedEverywhere shows passes that were given back to each gate. Their tokens
// run for minutes yet: only hearing of the end lets a gate refuse them.
func refusedEverywhere(t *testing.T, f *fleet, people []*person) {
	client := newClient(t)
	tried := 0
	for _, p := range people {
		if p.Outcome != "served, gave the pass back" || tried == 5 {
			continue
		}
		tried++
		for i, g := range f.gates {
			eventually(t, fmt.Sprintf("gate %d refuses the pass that person %d gave back", i, p.Person), func() bool {
				got, err := send(client, request{method: "HEAD", url: g.url + "/rate/late", header: map[string]string{"X-Entry-Token": p.pass}})
				return err == nil && got.code == http.StatusTooManyRequests
			})
		}
	}
	require.NotZero(t, tried, "nobody gave a pass back")
}
