package main_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	orders      = "consume: {routes: [{paths: [/checkout/order], methods: [POST]}], success: [\"201\"]}"
	underWay    = "urn:queuegate:problem:order-under-way"
	alreadyUsed = "urn:queuegate:problem:already-used"
)

// taken counts the orders by an admission that the shop has seen.
func (s *recordingShop) taken(admission string) (n int) {
	for _, r := range s.got("/checkout/order") {
		if r.Method == http.MethodPost && r.Header.Get("X-Queuegate-Admission") == admission {
			n++
		}
	}
	return n
}

func TestTwoHundredOrdersWithOnePassAreOneAtTheShop(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 50, " + orders)})
	holder := newApp(t)
	holder.enter(t, f.gates[0])
	admission := passOf(t, holder.pass).Admission
	before := len(f.shop.got("/checkout/order"))
	var succeeded, conflicts atomic.Int64
	require.NoError(t, all(200, func(i int) error {
		one := *holder
		got, err := one.order(f.gates[i%2])
		switch {
		case err != nil:
			return err
		case got.code == http.StatusCreated:
			succeeded.Add(1)
		case got.code == http.StatusConflict && (got.doc.Type == underWay || got.doc.Type == alreadyUsed):
			conflicts.Add(1)
		default:
			return fmt.Errorf("%d %s", got.code, got.body)
		}
		return nil
	}))
	require.EqualValues(t, 1, succeeded.Load())
	require.EqualValues(t, 199, conflicts.Load())
	require.Len(t, f.shop.got("/checkout/order"), before+1, "and no newcomer ordered in their name, though there was room")
	require.Equal(t, 1, f.shop.taken(admission))

	for _, g := range f.gates {
		got, err := holder.order(g)
		require.NoError(t, err)
		require.Equal(t, http.StatusConflict, got.code)
		require.Equal(t, alreadyUsed, got.doc.Type)
		eventually(t, "the used pass opens nothing, whatever the route", func() bool {
			old := *holder
			_, err := old.open(g)
			last := f.shop.last(t, "/checkout")
			return err == nil && last.Header.Get("X-Queuegate-Admission") != admission
		})
	}
	require.Equal(t, 1, f.shop.taken(admission))
}

func TestOrderThatFailsKeepsThePassUntilOneSucceeds(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{
		gates: 2, rooms: room("total_active_users: 1, " + orders), upstream: ", response_timeout: 5s",
	})
	holder, next := newApp(t), newApp(t)
	holder.enter(t, f.gates[0])
	_, err := next.join(f.gates[1], nil)
	require.NoError(t, err)
	next.waits(t, f.gates[1])
	admission := passOf(t, holder.pass).Admission
	for i, c := range []struct {
		name string
		shop http.HandlerFunc
		code int
	}{
		{"an error", refuseWith(500), 500},
		{"an order that is not valid", refuseWith(422), 422},
		{"a success that is not listed", refuseWith(202), 202},
		{"a connection reset", reset, 502},
		{"no answer in time", f.shop.hang, 504},
		{"the order", refuseWith(201), 201},
	} {
		f.shop.behave(c.shop)
		got, err := holder.order(f.gates[i%2])
		require.NoError(t, err, c.name)
		require.Equal(t, c.code, got.code, "%s: %s", c.name, got.body)
		require.Equal(t, admission, f.shop.last(t, "/checkout/order").Header.Get("X-Queuegate-Admission"), c.name)
		if c.code != 201 {
			next.waits(t, f.gates[1])
		}
	}
	next.await(t, f.gates[1])
	f.shop.behave(nil)
	for _, g := range f.gates {
		eventually(t, "the used pass opens nothing", func() bool {
			got, err := holder.order(g)
			return err == nil && got.code == http.StatusConflict && got.doc.Type == alreadyUsed
		})
	}
}

func TestGateKilledAfterTheShopTookTheOrderLeavesThePassToItsAdmission(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1, " + orders)})
	holder := newApp(t)
	holder.enter(t, f.gates[0])
	admission := passOf(t, holder.pass).Admission
	f.shop.behave(f.shop.hang) // taken, and not answered
	lost := make(chan error, 1)
	go func() {
		one := *holder
		_, err := one.order(f.gates[0])
		lost <- err
	}()
	eventually(t, "the order is at the shop", func() bool { return f.shop.taken(admission) == 1 })
	f.gates[0].kill()
	require.Error(t, soon(t, lost, "the end of the request"), "the client gets no answer")
	f.shop.behave(nil)

	other := f.gates[1]
	got, err := holder.order(other)
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, got.code, "the lock outlives its gate")
	require.Equal(t, underWay, got.doc.Type)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	rdb := f.redis.Client(t)
	require.NoError(t, rdb.HIncrBy(context.Background(), "qg:{checkout}:room", "now", 15_001).Err()) // 15 s of room time later
	got, err = holder.order(other)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.code, "%s", got.body)
	require.Equal(t, 2, f.shop.taken(admission), "the shop can tell that it is the same order")
}

func TestHoardedPassesUsedAtOnceDoNotFloodTheShop(t *testing.T) {
	t.Parallel()
	const most = 3
	f := startFleet(t, plan{gates: 1, rooms: room(fmt.Sprintf("total_active_users: 100, max_in_flight: %d, %s", most, orders))})
	hoard := make([]*app, 24)
	for i := range hoard {
		hoard[i] = newApp(t)
		hoard[i].enter(t, f.gates[0])
	}
	var now, peak, refused atomic.Int64
	full, release := make(chan struct{}), make(chan struct{})
	f.shop.behave(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
		}
		if n == most {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		f.shop.hold(r, release)
		takeOrder(w, r)
	})
	var freed atomic.Bool
	require.NoError(t, all(len(hoard), func(i int) error {
		for {
			got, err := hoard[i].order(f.gates[0])
			switch {
			case err != nil:
				return err
			case got.code == http.StatusCreated:
				return nil
			case got.code != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "":
				return fmt.Errorf("%d %s", got.code, got.body)
			}
			// The shop is held until everybody else was turned away once.
			if refused.Add(1) >= int64(len(hoard)-most) && freed.CompareAndSwap(false, true) {
				select {
				case <-full:
				case <-t.Context().Done():
				}
				close(release)
			}
		}
	}))
	require.EqualValues(t, most, peak.Load())
	for _, a := range hoard {
		require.Equal(t, 1, f.shop.taken(passOf(t, a.pass).Admission), "nobody lost the pass, nobody ordered twice")
	}
}

func TestOnePassCannotShutOutTheOthers(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 100, max_in_flight: 8, " + orders)})
	g := f.gates[0]
	hoarder, other := newApp(t), newApp(t)
	hoarder.enter(t, g)
	other.enter(t, g)
	f.shop.behave(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/checkout/slow" {
			f.shop.hang(w, r)
			return
		}
		takeOrder(w, r)
	})
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	var refused atomic.Int64
	for range 50 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/checkout/slow", nil)
		require.NoError(t, err)
		req.Header.Set("X-Entry-Token", hoarder.pass)
		go func() {
			resp, err := hoarder.client.Do(req)
			if err != nil {
				return
			}
			if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
				refused.Add(1)
			}
			_ = resp.Body.Close()
		}()
	}
	eventually(t, "the rest is turned away", func() bool { return refused.Load() == 46 })
	for range 3 {
		got, err := other.open(g)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.code, "%s", got.body)
	}
	got, err := other.order(g)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.code, "%s", got.body)
	enough()
	eventually(t, "the hoarder's pass was kept", func() bool {
		got, err := hoarder.order(g)
		return err == nil && got.code == http.StatusCreated
	})
}

func TestASlotGivenBackManyTimesAtOnceIsFreeOnce(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1, presence_window: 5m, " + orders)})
	holder := newApp(t)
	holder.enter(t, f.gates[0])
	waiting := make([]*app, 3)
	for i := range waiting {
		waiting[i] = newApp(t)
		_, err := waiting[i].join(f.gates[0], nil)
		require.NoError(t, err)
		waiting[i].waits(t, f.gates[0])
	}
	require.NoError(t, all(60, func(i int) error {
		one, g := *holder, f.gates[i%2]
		if i%3 == 0 {
			_, err := one.order(g)
			return err
		}
		got, err := one.release(g)
		if err == nil && (got.code != http.StatusOK || got.doc.Status != "released" && got.doc.Status != "not_entered") {
			err = errors.New(string(got.body))
		}
		return err
	}))
	waiting[0].await(t, f.gates[1])
	for _, a := range waiting[1:] {
		a.waits(t, f.gates[0])
		a.waits(t, f.gates[1])
	}
}

func TestTheShopsWordCountsAtEveryGateAndOutlivesThem(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1, "+orders) +
		"  - {name: other, protect: [{paths: [/other]}], total_active_users: 5}\n"})
	here, there := f.gates[0], f.gates[1]
	holder, waiting := newApp(t), newApp(t)
	holder.enter(t, here)
	_, err := waiting.join(here, nil)
	require.NoError(t, err)
	waiting.waits(t, there)
	says := func(lines ...string) {
		f.shop.behave(func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(lines); i += 2 {
				w.Header().Set(lines[i], lines[i+1])
			}
			takeOrder(w, r)
		})
	}
	newcomer := func(g *gate) answer {
		a, err := newApp(t).open(g)
		require.NoError(t, err)
		return a
	}

	says("X-Queuegate-Command", "sold-out", "X-Queuegate-Stock", "0")
	a, err := holder.open(here)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.code)
	require.Empty(t, a.header.Get("X-Queuegate-Command"))
	f.shop.behave(nil)
	soldOut := func(g *gate) func() bool {
		return func() bool {
			a := newcomer(g)
			return a.code == http.StatusTooManyRequests && a.doc.Type == "urn:queuegate:problem:sold-out" &&
				a.doc.RoomState == "sold_out" && a.doc.Stock != nil && *a.doc.Stock == 0 &&
				a.header.Get("Retry-After") == "" && a.doc.Ticket == ""
		}
	}
	for _, g := range f.gates {
		eventually(t, "newcomers are told everywhere", soldOut(g))
	}
	_, err = holder.release(there)
	require.NoError(t, err)
	a = waiting.waits(t, there)
	require.Equal(t, "sold_out", a.doc.RoomState)
	require.EqualValues(t, 1, *a.doc.Position, "the place is kept, and nobody is let in")
	for _, g := range f.gates {
		g.kill()
		g.start(t)
		g.waitReady(t)
		eventually(t, "a gate started anew knows", soldOut(g))
	}
	elsewhere := newApp(t)
	elsewhere.room, elsewhere.path = "other", "/other"
	elsewhere.enter(t, here) // another room goes on

	// The shop's own machine comes without a pass, by an exempt rule; here somebody
	// of the other room does not speak for this one.
	says("X-Queuegate-Command", "on-sale", "X-Queuegate-Stock", "40")
	_, err = elsewhere.open(here)
	require.NoError(t, err)
	require.True(t, soldOut(there)(), "a word about another room changes nothing here")
	a = mustSend(t, newClient(t), request{method: "OPTIONS", url: here.url + "/checkout", header: map[string]string{
		"Origin": "https://shop.example", "Access-Control-Request-Method": "POST",
	}})
	require.Equal(t, http.StatusOK, a.code)
	f.shop.behave(nil)
	waiting.await(t, there)
	eventually(t, "the stock is told everywhere", func() bool {
		a, err := waiting.poll(here)
		return err == nil && a.doc.RoomState == "open" && a.doc.Stock != nil && *a.doc.Stock == 40
	})
}

func TestPassTheShopReleasesIsGivenOn(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1")})
	holder, next := newApp(t), newApp(t)
	holder.enter(t, f.gates[0])
	_, err := next.join(f.gates[1], nil)
	require.NoError(t, err)
	next.waits(t, f.gates[1])
	f.shop.behave(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Queuegate-Command", "release")
		takeOrder(w, r)
	})
	got, err := holder.open(f.gates[1])
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.code)
	f.shop.behave(nil)
	next.await(t, f.gates[0])
	for _, g := range f.gates {
		eventually(t, "the pass opens nothing any more", func() bool {
			old := *holder
			got, err := old.open(g)
			return err == nil && got.code == http.StatusTooManyRequests
		})
	}
}
