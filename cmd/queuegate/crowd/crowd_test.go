package crowd

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// inMemory answers a request by a handler, without a socket, so that it works inside a synctest bubble.
type inMemory struct{ handler http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

// call is one request that a gate saw.
type call struct {
	at     time.Time
	what   string // method and path
	ticket string // the cookie, "" for somebody new
	header http.Header
	form   string
}

// scripted is a gate that answers by a function and keeps a record.
type scripted struct {
	mu     sync.Mutex
	calls  []call
	answer func(n int, what string, w http.ResponseWriter) // n counts the requests for the same thing, from 0
	counts map[string]int
}

func (g *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method + " " + r.URL.Path
	c := call{at: time.Now(), what: what, header: r.Header.Clone(), form: r.FormValue("quantity")}
	if cookie, err := r.Cookie("ticket"); err == nil {
		c.ticket = cookie.Value
	}
	g.mu.Lock()
	if g.counts == nil {
		g.counts = map[string]int{}
	}
	n := g.counts[what]
	g.counts[what]++
	g.calls = append(g.calls, c)
	g.mu.Unlock()
	g.answer(n, what, w)
}

// whats is the record without times.
func (g *scripted) whats() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var whats []string
	for _, c := range g.calls {
		whats = append(whats, c.what)
	}
	return whats
}

// gaps are the times between one request and the next.
func (g *scripted) gaps() []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var gaps []time.Duration
	for i := 1; i < len(g.calls); i++ {
		gaps = append(gaps, g.calls[i].at.Sub(g.calls[i-1].at))
	}
	return gaps
}

const (
	askCheckout = "GET /checkout"
	askStatus   = "GET /_queue/checkout/status"
	askedOrders = "/orders"
	askOrder    = "POST /orders"
	askRelease  = "POST /_queue/checkout/release"
)

// waitingFor is the status answer of somebody in line.
func waitingFor(pollAfter int) string {
	return fmt.Sprintf(`{"room":"checkout","status":"waiting","room_state":"open","position":3,"ahead":2,"poll_after_ms":%d}`, pollAfter)
}

const readyAnswer = `{"room":"checkout","status":"ready","entry_token":"e","return_to":"/checkout"}`

// patientPerson is somebody who neither gives up nor reloads.
func patientPerson(gate http.Handler) *Person {
	w := newWorld(Options{
		Gates: []string{"http://gate.test/"}, Visitors: 1, Order: askedOrders, Transport: inMemory{gate}, People: Shares{},
	}.withDefaults())
	return newPerson(w, 1, rand.New(rand.NewPCG(1, 2)))
}

// usualGate queues a newcomer, tells them to poll again after the pauses given and then lets them in.
func usualGate(pauses ...int) *scripted {
	return &scripted{answer: func(n int, what string, w http.ResponseWriter) {
		switch what {
		case askCheckout:
			if n == 0 {
				http.SetCookie(w, &http.Cookie{Name: "ticket", Value: "t1", Path: "/"})
				w.WriteHeader(http.StatusTooManyRequests)
			}
		case askStatus:
			if n < len(pauses) {
				_, _ = fmt.Fprint(w, waitingFor(pauses[n]))
				return
			}
			_, _ = fmt.Fprint(w, readyAnswer)
		case askOrder:
			w.WriteHeader(http.StatusCreated)
		}
	}}
}

func TestCrowdPersonGoesTheWholeWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := usualGate(3000, 50)
		p := patientPerson(gate)
		p.visit(t.Context())

		require.Equal(t, []string{askCheckout, askStatus, askStatus, askStatus, askCheckout, askOrder, askRelease}, gate.whats())
		gaps := gate.gaps()
		require.Equal(t, []time.Duration{3 * time.Second, 50 * time.Millisecond, 0}, gaps[1:4], "as long as told")
		require.LessOrEqual(t, gaps[0], pageLoads, "the page polls when it has loaded")
		require.GreaterOrEqual(t, gaps[4], 5*time.Second, "thinks")
		require.Less(t, gaps[4], 30*time.Second)
		require.GreaterOrEqual(t, gaps[5], time.Second, "stays a little")

		require.Empty(t, gate.calls[0].ticket)
		for _, c := range gate.calls[1:] {
			require.Equal(t, "t1", c.ticket, "%s came without the cookie", c.what)
		}
		require.Equal(t, "navigate", gate.calls[0].header.Get("Sec-Fetch-Mode"))
		require.True(t, strings.HasPrefix(gate.calls[0].header.Get("Accept"), "text/html"))
		require.Equal(t, "application/json", gate.calls[1].header.Get("Accept"))
		require.Equal(t, "1", gate.calls[5].form)
		require.EqualValues(t, 1, p.world.counts.Ordered.Load())
		require.Zero(t, p.world.counts.Waiting.Load())
		require.Zero(t, p.world.counts.Inside.Load())
	})
}

func TestCrowdPersonWaitsAsTold(t *testing.T) {
	tests := []struct {
		name string
		code int
		body string
		head string // Retry-After
		next step
		low  time.Duration
		high time.Duration
	}{
		{"the pause of the answer", 200, waitingFor(4321), "", poll, 4321 * time.Millisecond, 4321 * time.Millisecond},
		{"no pause is a second", 200, waitingFor(0), "", poll, time.Second, time.Second},
		{"a pause below zero is a second", 200, waitingFor(-5), "", poll, time.Second, time.Second},
		{"a tiny pause is not obeyed", 200, waitingFor(1), "", poll, minPoll, minPoll},
		{"an endless pause is not obeyed", 200, waitingFor(1 << 62), "", poll, time.Minute, time.Minute},
		{"ready opens the page at once", 200, readyAnswer, "", open, 0, 0},
		{"active opens the page at once", 200, `{"status":"active"}`, "", open, 0, 0},
		{"out of the line opens the page, not at once", 200, `{"status":"expired"}`, "", open, time.Second, time.Second},
		{"full comes back when told", 200, `{"status":"full","poll_after_ms":9000}`, "", open, 9 * time.Second, 9 * time.Second},
		{"too fast slows down", 429, waitingFor(300), "2", poll, 2 * time.Second, 2 * time.Second},
		{"too fast without a figure waits a second", 429, `{}`, "", poll, time.Second, time.Second},
		{"an error backs off", 500, "", "", poll, time.Second, 2 * time.Second},
		{"an error backs off as told", 503, "", "7", poll, 7 * time.Second, 14 * time.Second},
		{"what is not JSON is an error", 200, "<html>", "", poll, time.Second, 2 * time.Second},
		{"JSON without a status is an error", 200, "{}", "", poll, time.Second, 2 * time.Second},
		{"an unknown room is an error", 404, `{"status":404}`, "", poll, time.Second, 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := patientPerson(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if tt.head != "" {
					w.Header().Set("Retry-After", tt.head)
				}
				w.WriteHeader(tt.code)
				_, _ = fmt.Fprint(w, tt.body)
			}))
			answer := p.poll(t.Context())
			require.Equal(t, tt.next, answer.step)
			require.GreaterOrEqual(t, answer.wait, tt.low)
			require.LessOrEqual(t, answer.wait, tt.high)
		})
	}
}

func TestCrowdReadsRetryAfterInBothForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a clock that stands still
		tests := map[string]time.Duration{
			"": 0, "3": 3 * time.Second, "-1": 0, "soon": 0, "86400": 5 * time.Minute, "99999999999999": 5 * time.Minute,
			time.Now().Add(20 * time.Second).UTC().Format(http.TimeFormat): 20 * time.Second,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):       0,
		}
		for value, want := range tests {
			require.Equal(t, want, retryAfter(http.Header{"Retry-After": {value}}), value)
		}
	})
}

func TestCrowdPersonNeverHammersAGateThatFails(t *testing.T) {
	tests := []struct {
		name   string
		answer func(w http.ResponseWriter)
	}{
		{"500", func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }},
		{"a redirect", func(w http.ResponseWriter) { w.Header().Set("Location", "/checkout"); w.WriteHeader(http.StatusFound) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := &scripted{answer: func(_ int, _ string, w http.ResponseWriter) { tt.answer(w) }}
				p := patientPerson(gate)
				p.visit(t.Context())
				require.Len(t, gate.calls, maxFailures, "goes home")
				for i, gap := range gate.gaps() {
					least := min(time.Second<<i, 30*time.Second)
					require.GreaterOrEqual(t, gap, least)
					require.LessOrEqual(t, gap, 2*least)
				}
				require.EqualValues(t, 1, p.world.counts.GaveUp.Load())
			})
		})
	}
}

func TestCrowdPersonTriesAnOrderAgainWhenTheShopIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := usualGate()
		usual := gate.answer
		gate.answer = func(n int, what string, w http.ResponseWriter) {
			if what == askOrder && n == 0 {
				w.Header().Set("Retry-After", "5")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			usual(n, what, w)
		}
		p := patientPerson(gate)
		p.visit(t.Context())
		require.Equal(t, []string{askCheckout, askStatus, askCheckout, askOrder, askOrder, askRelease}, gate.whats())
		require.GreaterOrEqual(t, gate.gaps()[3], 5*time.Second)
		require.EqualValues(t, 1, p.world.counts.Ordered.Load())
	})
}

func TestCrowdPersonLeavesWhenTheOrderIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := usualGate()
		usual := gate.answer
		gate.answer = func(n int, what string, w http.ResponseWriter) {
			if what == askOrder {
				w.WriteHeader(http.StatusConflict)
				return
			}
			usual(n, what, w)
		}
		p := patientPerson(gate)
		p.visit(t.Context())
		require.Equal(t, []string{askCheckout, askStatus, askCheckout, askOrder, askRelease}, gate.whats())
		require.EqualValues(t, 1, p.world.counts.Refused.Load())
	})
}

func TestCrowdPersonOutOfPatienceVanishesWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := usualGate(2000, 2000, 2000, 2000, 2000, 2000, 2000, 2000)
		p := patientPerson(gate)
		p.patience = 10 * time.Second
		began := time.Now()
		p.visit(t.Context())
		require.Equal(t, 10*time.Second, time.Since(began))
		require.NotContains(t, gate.whats(), askRelease)
		require.NotContains(t, gate.whats(), "DELETE /_queue/checkout")
		require.EqualValues(t, 1, p.world.counts.GaveUp.Load())
	})
}

func TestCrowdPersonWhoReloadsKeepsTheTicket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &scripted{answer: func(n int, what string, w http.ResponseWriter) {
			switch {
			case what == askCheckout && n == 0:
				http.SetCookie(w, &http.Cookie{Name: "ticket", Value: "t1", Path: "/"})
				w.WriteHeader(http.StatusTooManyRequests)
			case what == askCheckout:
				w.WriteHeader(http.StatusTooManyRequests)
			default:
				_, _ = fmt.Fprint(w, waitingFor(1000))
			}
		}}
		p := patientPerson(gate)
		p.manner, p.patience = Reloader, 200*time.Second
		p.visit(t.Context())
		require.Greater(t, gate.counts[askCheckout], 5, "reloads")
		require.Greater(t, gate.counts[askStatus], 100, "but mostly polls")
		for _, c := range gate.calls[1:] {
			require.Equal(t, "t1", c.ticket)
		}
	})
}

// roomGate is a small waiting room: so many slots, a first-in-first-out line, and complaints about its visitors.
type roomGate struct {
	mu         sync.Mutex
	slots      int
	line       []string
	inside     map[string]bool
	nextPoll   map[string]time.Time // the earliest moment a ticket may poll; long past it the ticket is not here
	arrivals   []time.Time
	next       int
	orders     int
	complaints []string
}

func (g *roomGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ticket := ""
	if cookie, err := r.Cookie("ticket"); err == nil {
		ticket = cookie.Value
	}
	for len(g.inside) < g.slots && len(g.line) > 0 {
		if first := g.line[0]; time.Since(g.nextPoll[first]) < 2*time.Second {
			g.inside[first] = true
		}
		g.line = g.line[1:]
	}
	switch what := r.Method + " " + r.URL.Path; what {
	case askCheckout:
		if ticket == "" {
			g.next++
			ticket = fmt.Sprint("t", g.next)
			g.line = append(g.line, ticket)
			g.arrivals = append(g.arrivals, time.Now())
			g.nextPoll[ticket] = time.Now()
			http.SetCookie(w, &http.Cookie{Name: "ticket", Value: ticket, Path: "/"})
		}
		if !g.inside[ticket] {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	case askStatus:
		if time.Now().Before(g.nextPoll[ticket]) {
			g.complaints = append(g.complaints, ticket+" polled too early")
		}
		g.nextPoll[ticket] = time.Now().Add(2 * time.Second)
		status := map[string]any{"room": "checkout", "status": "waiting", "poll_after_ms": 2000}
		if g.inside[ticket] {
			status = map[string]any{"room": "checkout", "status": "ready", "entry_token": "e"}
		}
		_ = json.NewEncoder(w).Encode(status)
	case askOrder:
		if !g.inside[ticket] {
			g.complaints = append(g.complaints, ticket+" ordered without having been let in")
		}
		g.orders++
		w.WriteHeader(http.StatusCreated)
	case askRelease:
		delete(g.inside, ticket)
	default:
		g.complaints = append(g.complaints, "unexpected "+what)
	}
}

func TestCrowdStaysAboutAsBigAsAskedAndBehaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &roomGate{slots: 20, inside: map[string]bool{}, nextPoll: map[string]time.Time{}}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute+time.Second)
		defer cancel()
		var counts Counts
		var sizes [][2]int64 // waiting, inside
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for sleep(ctx, 15*time.Second) {
				sizes = append(sizes, [2]int64{counts.Waiting.Load(), counts.Inside.Load()})
			}
		}()
		_, err := Run(ctx, Options{
			Gates: []string{"http://gate.test"}, Order: askedOrders, Visitors: 120, Seed: 7, Transport: inMemory{gate},
			People: Shares{Vanisher: 10, Reloader: 20}, Arrive: 2400 * time.Millisecond, Again: true, Counts: &counts,
		})
		<-watched
		require.NoError(t, err)
		require.Empty(t, gate.complaints)
		require.Greater(t, gate.orders, 120, "the line moves")
		require.Greater(t, gate.next, 240, "others come after those who left")

		require.Len(t, sizes, 16)
		for _, size := range sizes[1:] {
			waiting, inside := size[0], size[1]
			require.LessOrEqual(t, waiting+inside, int64(120))
			require.Greater(t, waiting+inside, int64(100), "nobody stays away for long")
			require.LessOrEqual(t, inside, int64(20))
			require.Greater(t, inside, int64(5))
		}

		first := gate.arrivals[:100]
		require.Greater(t, first[99].Sub(first[0]), time.Second, "arrivals are spread")
		require.Less(t, first[99].Sub(first[0]), 4*time.Second)
	})
}

func TestCrowdWithTheSameSeedMakesTheSamePeople(t *testing.T) {
	arrivals := func(seed uint64) []time.Time {
		var times []time.Time
		synctest.Test(t, func(t *testing.T) {
			gate := &roomGate{inside: map[string]bool{}, nextPoll: map[string]time.Time{}}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := Run(ctx, Options{Gates: []string{"http://gate.test"}, Visitors: 20, Seed: seed, Transport: inMemory{gate}})
			require.NoError(t, err)
			times = gate.arrivals
		})
		return times
	}
	once, again, others := arrivals(1), arrivals(1), arrivals(2)
	require.Equal(t, once, again)
	require.NotEqual(t, once, others)
}

func TestCrowdRefusesOptionsItCannotWorkWith(t *testing.T) {
	tests := []struct {
		name string
		opts Options
		want string
	}{
		{"no address", Options{Visitors: 1}, "http://host:port"},
		{"an address without a scheme", Options{Gates: []string{"127.0.0.1:8080"}, Visitors: 1}, "address of the gate"},
		{"another scheme", Options{Gates: []string{"ftp://gate.test"}, Visitors: 1}, "http://host:port"},
		{"an address with a path", Options{Gates: []string{"http://gate.test/shop"}, Visitors: 1}, "http://host:port"},
		{"nobody", Options{Gates: []string{"http://gate.test"}}, "from 1 to 100000, got 0"},
		{"too many", Options{Gates: []string{"http://gate.test"}, Order: askedOrders, Visitors: 100001}, "from 1 to 100000, got 100001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Run(t.Context(), tt.opts)
			require.ErrorIs(t, err, ErrOptions)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestCrowdOverRealSocketsEndsCleanly(t *testing.T) {
	var open, peak atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gate := usualGate(50, 50)
	usual := gate.answer
	gate.answer = func(n int, what string, w http.ResponseWriter) {
		usual(n, what, w)
		if what == askCheckout && n > 0 {
			cancel() // somebody came through the line: enough
		}
	}
	closed := make(chan struct{}, 1000)
	server := httptest.NewUnstartedServer(gate)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			peak.Store(max(peak.Load(), open.Add(1)))
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()

	_, err := Run(ctx, Options{Gates: []string{server.URL}, Visitors: 1, Seed: 1, People: Shares{}, Arrive: time.Millisecond})
	require.NoError(t, err)
	require.Contains(t, gate.whats(), askStatus)
	require.Positive(t, peak.Load())
	for open.Load() > 0 {
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Fatalf("%d connections are still open after the crowd has gone", open.Load())
		}
	}
}

func TestCrowdGivesBackWhatItHasWhenTheRunEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		waits int // polls until let in
		want  string
	}{
		"a place": {1000, "DELETE /_queue/checkout"},
		"a pass":  {0, askRelease},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := &scripted{answer: func(n int, what string, w http.ResponseWriter) {
					switch {
					case what == askStatus && n < tc.waits:
						_, _ = fmt.Fprint(w, waitingFor(1000))
					case what == askStatus:
						// {"jti":"1.2","place":1}
						http.SetCookie(w, &http.Cookie{Name: "queuegate_entry_checkout", Value: "a.eyJqdGkiOiIxLjIiLCJwbGFjZSI6MX0.c", Path: "/"})
						_, _ = fmt.Fprint(w, readyAnswer)
					case what == askCheckout && n == 0:
						w.WriteHeader(http.StatusTooManyRequests)
					}
				}}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := Run(ctx, Options{
					Gates: []string{"http://gate.test"}, Visitors: 1, Transport: inMemory{gate}, People: Shares{}, Arrive: 1,
					StayLeast: time.Minute, StayMost: time.Minute, Farewell: true,
				})
				require.NoError(t, err)
				whats := gate.whats()
				require.Equal(t, tc.want, whats[len(whats)-1])
			})
		})
	}
}
