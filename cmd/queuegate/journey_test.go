package main_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/queuegate/queuegate/queue/queuetest"
	"github.com/queuegate/queuegate/token"
)

// room is one room called checkout with the given keys.
func room(more string) string {
	return "  - {name: checkout, protect: [{paths: [/checkout]}], " + more + "}\n"
}

func TestVisitorWaitsIsAdmittedAndOrders(t *testing.T) {
	t.Parallel()
	// So long that nobody steps aside before all have been counted.
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1, presence_window: 5m")})
	here, there := f.gates[0], f.gates[1]
	holder := newApp(t)
	holder.enter(t, here)

	// A browser gets the page with its place at the address it asked for.
	browser := newBrowser(t)
	page := mustSend(t, browser, request{method: "GET", url: there.url + "/checkout?a=1", header: browse()})
	require.Equal(t, http.StatusTooManyRequests, page.code)
	require.Equal(t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
	require.Equal(t, "no-store", page.header.Get("Cache-Control"))
	require.Regexp(t, `^[1-9]\d*$`, page.header.Get("Retry-After"))
	require.Empty(t, page.header.Get("Location"))
	require.Contains(t, string(page.body), `data-state="waiting"`)
	require.Regexp(t, `<strong id="position">1</strong>`, string(page.body))
	require.Contains(t, page.header.Get("Set-Cookie"), "queuegate_ticket_checkout=")

	// A program gets JSON, whatever it sends, and nobody is redirected.
	for _, tc := range []struct {
		name, method, accept, kind string
	}{
		{"a call that wants JSON", "POST", "application/json", "application/json"},
		{"a call that says nothing", "POST", "", "application/json"},
		{"a call that reads", "GET", "application/json", "application/json"},
		{"a call that deletes", "DELETE", "*/*", "application/json"},
		{"a form that a person sends", "POST", "text/html", "text/html; charset=utf-8"},
	} {
		a := mustSend(t, newClient(t), request{
			method: tc.method, url: here.url + "/checkout/order", header: map[string]string{"Accept": tc.accept}, body: "q=1",
		})
		require.Equal(t, http.StatusTooManyRequests, a.code, tc.name)
		require.Equal(t, tc.kind, a.header.Get("Content-Type"), tc.name)
		require.Regexp(t, `^[1-9]\d*$`, a.header.Get("Retry-After"), tc.name)
		require.Empty(t, a.header.Get("Location"), tc.name)
		if tc.kind == "application/json" {
			require.Equal(t, "waiting", a.doc.Status, tc.name)
			require.Equal(t, "urn:queuegate:problem:queued", a.doc.Type, tc.name)
			require.NotEmpty(t, a.doc.Ticket, tc.name)
		}
	}

	// Either gate tells the same place.
	for _, g := range f.gates {
		a := mustSend(t, browser, request{method: "GET", url: g.url + "/_queue/checkout/status"})
		require.Equal(t, http.StatusOK, a.code)
		require.Equal(t, "waiting", a.doc.Status)
		require.EqualValues(t, 1, *a.doc.Position)
		require.EqualValues(t, 0, *a.doc.Ahead)
		require.EqualValues(t, 5, *a.doc.Behind)
		require.EqualValues(t, 6, *a.doc.Waiting)
	}
	require.Len(t, f.shop.got("/checkout"), 1, "only the holder is in the shop")

	// The slot is given back at one gate and given on at the other.
	a, err := holder.release(here)
	require.NoError(t, err)
	require.Equal(t, "released", a.doc.Status)
	require.Eventually(t, func() bool {
		a, err := send(browser, request{method: "GET", url: there.url + "/_queue/checkout/status"})
		return err == nil && a.doc.Status == "ready" && a.doc.EntryToken != ""
	}, patience, lookIn, "the browser is admitted")

	f.shop.behave(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "basket=7; Path=/")
		w.Header().Set("X-Queuegate-Command", "none")
		takeOrder(w, r)
	})
	order := mustSend(t, browser, request{
		method: "POST", url: here.url + "/checkout//a%2Fb;c/?q=%20;+&x", body: "quantity=1",
		header: map[string]string{
			"Cookie": "session=abc; theme=dark", "Accept": "text/html", "X-Queuegate-Visitor": "me",
			"X_Queuegate_Admission": "mine", "Connection": "X-Queuegate-Visitor", "Content-Type": "application/x-www-form-urlencoded",
		},
	})
	require.Equal(t, http.StatusCreated, order.code, "%s", order.body)
	require.Contains(t, order.header.Values("Set-Cookie"), "basket=7; Path=/")
	require.Empty(t, order.header.Get("X-Queuegate-Command"))
	got := f.shop.last(t, "/checkout")
	require.Equal(t, "/checkout//a%2Fb;c/?q=%20;+&x", got.Target)
	require.Equal(t, strings.TrimPrefix(here.url, "http://"), got.Host)
	require.Equal(t, []string{"session=abc; theme=dark"}, got.Header["Cookie"])
	require.True(t, token.ValidVisitor(got.Header.Get("X-Queuegate-Visitor")), got.Header)
	require.Len(t, got.Header.Values("X-Queuegate-Visitor"), 1)
	require.NotEmpty(t, got.Header.Get("X-Queuegate-Admission"))
	require.Equal(t, "checkout", got.Header.Get("X-Queuegate-Room"))
	for name := range got.Header {
		require.NotContains(t, name, "_")
		require.NotEqual(t, "X-Entry-Token", name)
	}
}

func TestNobodyReachesTheShopWithoutAPass(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 2") +
		"  - {name: tickets, protect: [{paths: [/tickets]}], total_active_users: 10}\n"})
	holder, other := newApp(t), newApp(t)
	holder.enter(t, f.gates[0])
	other.enter(t, f.gates[1])
	elsewhere := newApp(t)
	elsewhere.room, elsewhere.path = "tickets", "/tickets"
	elsewhere.enter(t, f.gates[0])
	gone := newApp(t) // waits: nobody who comes after is let in at once
	_, err := gone.join(f.gates[0], nil)
	require.NoError(t, err)
	gone.waits(t, f.gates[0])

	passes, _ := keys(t)
	good := passOf(t, holder.pass)
	sign := func(change func(*token.Pass)) string {
		p := good
		p.Admission, p.Visitor = "1.0", token.NewVisitor()
		change(&p)
		raw, err := passes.Sign(p)
		require.NoError(t, err)
		return raw
	}
	foreign, err := token.New(token.Options{Issuer: "queuegate", Secret: []byte(strings.Repeat("another secret, ", 3))})
	require.NoError(t, err)
	stranger, err := foreign.Sign(good)
	require.NoError(t, err)
	parts := strings.Split(holder.pass, ".")
	flipped := parts[0] + "." + parts[1] + "." + flip(parts[2])
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + "."

	intruders := map[string]string{
		"no pass":                       "",
		"a pass with another signature": flipped,
		"a pass of another secret":      stranger,
		"a pass that expired long ago": sign(func(p *token.Pass) {
			p.End = 1000
			p.IssuedAt, p.Expires = time.Unix(1_000_000, 0), time.Unix(1_000_100, 0)
		}),
		// Young enough that no renewal is due, which would ask Redis.
		"a pass that expired a moment ago": sign(func(p *token.Pass) {
			p.End = time.Now().Add(-time.Second).UnixMilli()
			p.IssuedAt, p.Expires = time.Now().Add(-10*time.Second), time.Now().Add(-time.Second)
		}),
		"a pass not taken up that expired a moment ago": sign(func(p *token.Pass) {
			p.Stage = token.Ready
			p.End = time.Now().Add(-time.Second).UnixMilli()
			p.IssuedAt, p.Expires = time.Now().Add(-10*time.Second), time.Now().Add(-time.Second)
		}),
		"a pass of another room":         elsewhere.pass,
		"a pass without an algorithm":    none,
		"the same with the signature":    none + parts[2],
		"a ticket in place of the pass":  gone.ticket,
		"a pass with claims of its own":  parts[0] + "." + flip(parts[1]) + "." + parts[2],
		"something that is no pass":      "let-me-in",
		"a pass longer than any of ours": strings.Repeat("a", 5000) + holder.pass,
	}
	for name, pass := range intruders {
		for _, path := range []string{
			"/checkout", "/checkout/", "/checkout/order", "/CHECKOUT", "//checkout", "/%63heckout", "/x/../checkout",
			"/checkout;a=b", "/checkout%2forder",
		} {
			for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PUT"} {
				for _, header := range []string{"X-Entry-Token", "Cookie"} {
					value := pass
					if header == "Cookie" {
						value = "queuegate_entry_checkout=" + pass
					}
					g := f.gates[rand.IntN(2)] //nolint:gosec // either will do
					a := mustSend(t, holder.client, request{
						method: method, url: g.url + path, header: map[string]string{header: value, "X-Probe": name},
					})
					require.GreaterOrEqual(t, a.code, 400, "%s: %s %s", name, method, path)
					require.Less(t, a.code, 500, "%s: %s %s", name, method, path)
				}
			}
		}
	}
	for _, r := range f.shop.got("") {
		require.Empty(t, r.Header.Get("X-Probe"), "%s reached the shop: %s %s", r.Header.Get("X-Probe"), r.Method, r.Target)
	}
	a, err := holder.open(f.gates[1])
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.code, "the rightful pass still opens")
}

// flip changes a character in the middle of text.
func flip(text string) string {
	b := []byte(text)
	if i := len(b) / 2; b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

func TestUnprotectedRoutesAreUntouched(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1")})
	holder := newApp(t)
	holder.enter(t, f.gates[0])
	client := newBrowser(t)
	for _, tc := range []struct{ method, target string }{
		{"GET", "/"},
		{"GET", "/about?x=1;y=%zz"},
		{"POST", "/cart"},
		{"GET", "/checkouts"},
		{"GET", "/a/./b/../c//d%2F"},
		{"DELETE", "/cart/7"},
		{"GET", "/robots.txt"},
	} {
		a := mustSend(t, client, request{
			method: tc.method, url: f.gates[0].url + tc.target, header: map[string]string{"Cookie": "session=abc"},
		})
		require.Contains(t, []int{http.StatusOK, http.StatusCreated}, a.code, tc.target)
		require.Equal(t, "the shop's answer to "+tc.method+" "+tc.target, string(a.body))
		require.Empty(t, a.header.Values("Set-Cookie"), tc.target)
		require.Empty(t, a.header.Values("Cache-Control"), tc.target)
		for name := range a.header {
			require.NotContains(t, name, "Queue", tc.target)
		}
		got := f.shop.last(t, tc.target)
		require.Equal(t, tc.target, got.Target)
		require.Equal(t, []string{"session=abc"}, got.Header["Cookie"])
		require.Empty(t, got.Header.Get("X-Queuegate-Visitor"))
	}
}

func TestMinimalExampleScriptWaitsAndOrders(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "curl", "awk", "sed"} {
		_, err := exec.LookPath(tool)
		require.NoError(t, err, "install %s (Debian: apt-get install -y curl)", tool)
	}
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 2")})
	holders := []*app{newApp(t), newApp(t)}
	for i, h := range holders {
		h.enter(t, f.gates[i])
	}
	// One talks to one gate, the other to both in turn, as through a balancer.
	var turn atomic.Int64
	balancer := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		target, err := url.Parse(f.gates[turn.Add(1)%2].url)
		if err == nil {
			r.SetURL(target)
		}
	}})
	t.Cleanup(balancer.Close)

	type script struct {
		cmd *exec.Cmd
		out output
	}
	var scripts []*script
	for _, address := range []string{f.gates[0].url, balancer.URL} {
		s := &script{cmd: exec.Command("sh", "../../examples/minimal/wait-in-line.sh", address, "checkout", "/checkout/order")}
		s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		require.NoError(t, s.cmd.Start())
		t.Cleanup(func() { _ = s.cmd.Process.Kill() })
		scripts = append(scripts, s)
		eventually(t, "the script stands in line", func() bool { return strings.Contains(s.out.String(), "place ") })
	}
	require.Contains(t, scripts[0].out.String(), "place 1\n")
	require.Contains(t, scripts[1].out.String(), "place 2\n")
	require.Len(t, f.shop.got("/checkout"), 2, "only the holders are in the shop")
	for _, h := range holders {
		_, err := h.release(f.gates[0])
		require.NoError(t, err)
	}
	for _, s := range scripts {
		require.NoError(t, s.cmd.Wait(), "%s", &s.out)
		require.Contains(t, s.out.String(), "the shop's answer to POST /checkout/order")
	}
	require.Len(t, f.shop.got("/checkout/order"), 2)
}

func TestParallelFirstRequestsOfOneVisitorAreOneVisitor(t *testing.T) {
	t.Parallel()
	const tries = 8
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1")})
	line := f.redis.Client(t)

	t.Run("one idempotency key in a free room is one admission", func(t *testing.T) {
		apps := make([]*app, tries)
		require.NoError(t, all(tries, func(i int) error {
			apps[i] = newApp(t)
			_, err := apps[i].join(f.gates[i%2], map[string]string{"Idempotency-Key": "0123456789abcdef"})
			return err
		}))
		first := passOf(t, apps[0].pass)
		for _, a := range apps {
			got := passOf(t, a.pass)
			require.Equal(t, first.Visitor, got.Visitor)
			require.Equal(t, first.Admission, got.Admission)
		}
		require.EqualValues(t, 1, line.ZCard(t.Context(), "qg:{checkout}:slots").Val())
		_, err := apps[3].open(f.gates[0])
		require.NoError(t, err)
	})

	t.Run("one idempotency key in a full room is one place", func(t *testing.T) {
		apps := make([]*app, tries)
		require.NoError(t, all(tries, func(i int) error {
			apps[i] = newApp(t)
			_, err := apps[i].join(f.gates[i%2], map[string]string{"Idempotency-Key": "fedcba9876543210"})
			return err
		}))
		requireOnePlace(t, apps)
		require.EqualValues(t, 1, people(t, line))
		_, err := apps[0].send(request{method: "DELETE", url: f.gates[0].url + "/_queue/checkout"})
		require.NoError(t, err)
		require.EqualValues(t, 0, people(t, line))
	})

	t.Run("one fresh ticket is one place", func(t *testing.T) {
		original := newApp(t)
		_, err := original.join(f.gates[0], nil)
		require.NoError(t, err)
		apps := make([]*app, 3*tries)
		require.NoError(t, all(len(apps), func(i int) error {
			apps[i] = newApp(t)
			apps[i].ticket = original.ticket
			var err error
			switch g := f.gates[i%2]; i % 3 {
			case 0:
				_, err = apps[i].join(g, nil)
			case 1:
				_, err = apps[i].poll(g)
			default:
				_, err = apps[i].open(g)
			}
			return err
		}))
		requireOnePlace(t, append(apps, original))
		require.EqualValues(t, 1, people(t, line))
	})
}

func requireOnePlace(t *testing.T, apps []*app) {
	t.Helper()
	first := ticketOf(t, apps[0].ticket)
	for _, a := range apps {
		got := ticketOf(t, a.ticket)
		require.Equal(t, first.Visitor, got.Visitor)
		require.Equal(t, first.Place, got.Place)
	}
}

// people counts everybody in the line of the room checkout, here or not.
func people(t *testing.T, line *redis.Client) int64 {
	t.Helper()
	var n int64
	for _, part := range []string{"waiting", "fresh", "away"} {
		count, err := line.ZCard(t.Context(), "qg:{checkout}:"+part).Result()
		require.NoError(t, err)
		n += count
	}
	return n
}

func TestBrowserWhoseFirstRequestsCarryNoCookie(t *testing.T) {
	t.Parallel()
	const tries = 8

	t.Run("in a full room stands in line once and the surplus takes no slot", func(t *testing.T) {
		f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1")})
		holder := newApp(t)
		holder.enter(t, f.gates[0])
		browser := newBrowser(t)
		openAtOnce(t, f, browser, tries)
		a := mustSend(t, browser, request{method: "GET", url: f.gates[0].url + "/_queue/checkout/status"})
		require.Equal(t, "waiting", a.doc.Status, "the cookie that stayed is a place")
		_, err := holder.release(f.gates[0])
		require.NoError(t, err)
		awaitBrowser(t, f.gates[1], browser)
		require.Len(t, f.shop.got("/checkout"), 2)
		require.EqualValues(t, 1, f.redis.Client(t).ZCard(t.Context(), "qg:{checkout}:slots").Val())
	})

	t.Run("in a free room goes in and leaves the other slots to others", func(t *testing.T) {
		f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 4")})
		browser := newBrowser(t)
		openAtOnce(t, f, browser, tries)
		awaitBrowser(t, f.gates[0], browser)
		for range 3 {
			other := newApp(t)
			_, err := other.join(f.gates[1], nil)
			require.NoError(t, err)
			other.await(t, f.gates[1])
		}
		require.EqualValues(t, 4, f.redis.Client(t).ZCard(t.Context(), "qg:{checkout}:slots").Val())
	})
}

// openAtOnce opens the checkout n times before any answer can bring a cookie.
func openAtOnce(t *testing.T, f *fleet, browser *http.Client, n int) {
	t.Helper()
	bare := newClient(t)
	answers := make([]answer, n)
	require.NoError(t, all(n, func(i int) (err error) {
		answers[i], err = send(bare, request{method: "GET", url: f.gates[i%2].url + "/checkout", header: browse()})
		return err
	}))
	home, err := url.Parse(f.gates[0].url)
	require.NoError(t, err)
	for _, a := range answers {
		browser.Jar.SetCookies(home, (&http.Response{Header: a.header}).Cookies())
	}
}

// awaitBrowser loads the page again until the shop answers.
func awaitBrowser(t *testing.T, g *gate, browser *http.Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		a, err := send(browser, request{method: "GET", url: g.url + "/checkout", header: browse()})
		return err == nil && a.code == http.StatusOK
	}, patience, lookIn, "the browser is never let in")
}

func TestPeopleBehindOneAddressAreManyPeople(t *testing.T) {
	t.Parallel()
	const crowd = 2000
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1")})
	holder := newApp(t)
	holder.enter(t, f.gates[0])
	client := newClient(t)
	apps := make([]*app, crowd)
	var group errgroup.Group
	group.SetLimit(32)
	for i := range apps {
		apps[i] = &app{client: client, room: "checkout", path: "/checkout"}
		group.Go(func() error {
			a, err := apps[i].join(f.gates[i%2], map[string]string{"User-Agent": "Mozilla/5.0 (the office's only browser)"})
			if err == nil && a.doc.Status == "waiting" { // nobody is held back for what others at the address do
				a, err = apps[i].poll(f.gates[1-i%2])
			}
			if err == nil && (a.code != http.StatusOK || a.doc.Status != "waiting") {
				return fmt.Errorf("%d %s", a.code, a.body)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	places, visitors := map[int64]bool{}, map[string]bool{}
	for _, a := range apps {
		k := ticketOf(t, a.ticket)
		places[k.Place], visitors[k.Visitor] = true, true
	}
	require.Len(t, places, crowd)
	require.Len(t, visitors, crowd)
	require.EqualValues(t, crowd, people(t, f.redis.Client(t)))
}

func TestFourGatesKeepOneRate(t *testing.T) {
	t.Parallel()
	const (
		crowd = 200
		limit = 3000
		burst = limit / 60
		// The refill that keeps every minute at the limit, in admissions a millisecond.
		refill = float64(limit-burst+1) / 60_000
	)
	f := startFleet(t, plan{gates: 4, rooms: room(fmt.Sprintf("total_active_users: 0, new_users_per_minute: %d", limit))})
	client := newClient(t)
	var entered atomic.Int64
	var group errgroup.Group
	for i := range crowd {
		group.Go(func() error {
			a := &app{client: client, room: "checkout", path: "/checkout"}
			if _, err := a.join(f.gates[i%4], nil); err != nil {
				return err
			}
			for poll := i; ; poll++ { // wherever the balancer sends it
				got, err := a.poll(f.gates[poll%4])
				if err != nil {
					return err
				}
				if got.doc.Status == "ready" || got.doc.Status == "active" {
					break
				}
				if got.doc.PollAfterMS == nil {
					return fmt.Errorf("not told when to ask again: %s", got.body)
				}
				<-time.After(time.Duration(*got.doc.PollAfterMS) * time.Millisecond)
			}
			got, err := a.open(f.gates[i%4])
			if err == nil && got.code != http.StatusOK {
				err = fmt.Errorf("%d %s", got.code, got.body)
			}
			entered.Add(1)
			return err
		})
	}
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()

	// A sample is taken by Redis itself, in one piece and by its own clock.
	type sample struct{ at, admitted, waiting int64 }
	line := f.redis.Client(t)
	measure := redis.NewScript(`local time = redis.call('TIME')
return { time[1] * 1000 + math.floor(time[2] / 1000), tonumber(redis.call('HGET', KEYS[1], 'admitted') or '0'), redis.call('ZCARD', KEYS[2]) }`)
	var samples []sample
	take := func() {
		got, err := measure.Run(t.Context(), line, []string{"qg:{checkout}:room", "qg:{checkout}:waiting"}).Int64Slice()
		require.NoError(t, err)
		samples = append(samples, sample{at: got[0], admitted: got[1], waiting: got[2]})
	}
	var err error
	for finished := false; !finished; {
		take()
		select {
		case err = <-done:
			finished = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	take()
	require.NoError(t, err)

	require.EqualValues(t, crowd, samples[len(samples)-1].admitted)
	require.EqualValues(t, crowd, entered.Load())
	require.Len(t, f.shop.got("/checkout"), crowd)
	for i, from := range samples {
		for _, to := range samples[i+1:] {
			most := burst + refill*float64(to.at-from.at+1)
			require.LessOrEqual(t, float64(to.admitted-from.admitted), most, "in the %d ms from sample %d on", to.at-from.at, i)
		}
	}
	// While people wait the rate is used: a quarter of it, however slow the machine. Where
	// they come so slowly that now and then nobody waits, those times do not count.
	var admitted, busy int64
	for i, to := range samples[1:] {
		if from := samples[i]; from.waiting > 0 && to.waiting > 0 {
			admitted, busy = admitted+to.admitted-from.admitted, busy+to.at-from.at
		}
	}
	require.True(t, slices.ContainsFunc(samples, func(s sample) bool { return s.waiting > 0 }), "nobody ever waited")
	require.GreaterOrEqual(t, float64(admitted+1), refill*float64(busy)/4)
}

func TestKilledGateLosesNobody(t *testing.T) {
	t.Parallel()
	for _, after := range []string{
		"the join whose answer is lost", "the join", "the first poll", "the admission", "the claim whose answer is lost",
		"the claim", "the order has reached the shop",
	} {
		t.Run("after "+after, func(t *testing.T) {
			f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1")})
			holder, visitor := newApp(t), newApp(t)
			holder.enter(t, f.gates[1])
			at := f.gates[0]
			step := func(name string) {
				if name == after {
					f.gates[0].kill()
					at = f.gates[1]
				}
			}
			key := map[string]string{"Idempotency-Key": "a-key-of-this-visitor"}

			_, err := visitor.join(at, key)
			require.NoError(t, err)
			first := ticketOf(t, visitor.ticket)
			if step("the join whose answer is lost"); at == f.gates[1] {
				visitor.ticket = ""
				_, err = visitor.join(at, key)
				require.NoError(t, err)
			}
			step("the join")
			require.EqualValues(t, 1, *visitor.waits(t, at).doc.Position)
			step("the first poll")
			require.EqualValues(t, 1, *visitor.waits(t, at).doc.Position)
			require.Equal(t, first.Place, ticketOf(t, visitor.ticket).Place)
			require.Equal(t, first.Visitor, ticketOf(t, visitor.ticket).Visitor)

			_, err = holder.release(f.gates[1])
			require.NoError(t, err)
			visitor.await(t, at)
			unclaimed := visitor.pass
			admission := passOf(t, unclaimed)
			require.Equal(t, first.Visitor, admission.Visitor)
			require.Equal(t, first.Place, admission.Place)
			step("the admission")

			enters := func() {
				a, err := visitor.open(at)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, a.code, "%s", a.body)
				require.Equal(t, admission.Admission, f.shop.last(t, "/checkout").Header.Get("X-Queuegate-Admission"))
			}
			enters()
			if step("the claim whose answer is lost"); after == "the claim whose answer is lost" {
				visitor.pass = unclaimed
			}
			step("the claim")
			enters()

			if after == "the order has reached the shop" {
				f.shop.behave(f.shop.hang)
				failed := make(chan error, 1)
				go func() {
					_, err := visitor.order(at)
					failed <- err
				}()
				eventually(t, "the order is at the shop", func() bool { return len(f.shop.got("/checkout/order")) == 1 })
				step("the order has reached the shop")
				require.Error(t, soon(t, failed, "the end of the request"))
				f.shop.behave(nil)
			}
			a, err := visitor.order(at)
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, a.code, "%s", a.body)
			for _, order := range f.shop.got("/checkout/order") {
				require.Equal(t, admission.Admission, order.Header.Get("X-Queuegate-Admission"), "the shop can tell a repeated order")
			}
		})
	}
}

func TestGatesKilledAtRandomLoseNobody(t *testing.T) {
	t.Parallel()
	const (
		visitors = 10
		kills    = 20
	)
	// Who is silent while a slow machine starts a gate still counts as present.
	f := startFleet(t, plan{gates: 3, rooms: room("total_active_users: 1, presence_window: 5m, claim_window: 5m")})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // which gate dies, not a secret

	// A visitor goes to any gate, as a balancer sends them: to one that dies, too.
	addresses := make([]atomic.Pointer[gate], len(f.gates))
	anywhere := func(i int) *gate { return addresses[i%len(addresses)].Load() }
	publish := func(i int) {
		g := *f.gates[i]
		addresses[i].Store(&g)
	}
	for i := range f.gates {
		publish(i)
	}
	holder := newApp(t)
	holder.enter(t, f.gates[0])

	apps := make([]*app, visitors)
	names := make([]string, visitors)
	for i := range apps {
		apps[i] = newApp(t)
		_, err := apps[i].join(f.gates[i%3], nil)
		require.NoError(t, err)
		apps[i].waits(t, f.gates[i%3])
		names[i] = ticketOf(t, apps[i].ticket).Visitor
	}
	_, err := holder.release(f.gates[0])
	require.NoError(t, err)

	var killed atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group errgroup.Group
	for i, a := range apps {
		group.Go(func() error { return a.shopThroughDyingGates(ctx, i, anywhere, &killed) })
	}
	for range kills {
		victim := chance.IntN(len(f.gates))
		f.gates[victim].kill()
		f.gates[victim].url = ""
		f.gates[victim].start(t)
		publish(victim)
		killed.Add(1)
	}
	defer time.AfterFunc(patience, cancel).Stop() // all gates are up: nobody has to wait for long
	require.NoError(t, group.Wait())

	// One slot: the order in which they were admitted is that of their orders.
	var order []string
	for _, r := range f.shop.got("/checkout/order") {
		if name := r.Header.Get("X-Queuegate-Visitor"); !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	require.Equal(t, names, order)
}

// shopThroughDyingGates is one visitor's way from the line to the order and out,
// with every step tried again elsewhere when a gate dies under it. The i-th does
// not leave before twice as many gates were killed, so that the kills meet all
// of it.
func (a *app) shopThroughDyingGates(ctx context.Context, i int, anywhere func(int) *gate, killed *atomic.Int64) error {
	try := i
	until := func(what string, ask func(*gate) (answer, error), done func(answer) bool) error {
		var last answer
		for ctx.Err() == nil {
			got, err := ask(anywhere(try))
			try++
			if err == nil && done(got) {
				return nil
			}
			last = got
			select {
			case <-ctx.Done():
			case <-time.After(lookIn):
			}
		}
		return fmt.Errorf("visitor %d: %s: %w; last answer %d %s", i, what, ctx.Err(), last.code, last.body)
	}
	lost := error(nil)
	return errors.Join(
		until("waiting", a.poll, func(got answer) bool {
			if s, ok := got.doc.Status.(string); ok && s != "waiting" && s != "ready" && s != "active" {
				lost = errors.Join(lost, fmt.Errorf("visitor %d lost the place: %s", i, got.body))
			}
			return got.doc.Status == "ready" || got.doc.Status == "active"
		}),
		lost,
		until("inside", a.open, func(got answer) bool {
			return got.code == http.StatusOK && killed.Load() >= int64(2*(i+1))
		}),
		until("ordering", a.order, func(got answer) bool { return got.code == http.StatusCreated }),
		until("leaving", a.release, func(got answer) bool { return got.code == http.StatusOK }),
	)
}

func TestFailedOrderKeepsThePass(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), upstream: ", response_timeout: 5s"})
	visitor := newApp(t)
	visitor.enter(t, f.gates[0])
	admission := f.shop.last(t, "/checkout").Header.Get("X-Queuegate-Admission")
	for _, tc := range []struct {
		name   string
		answer http.HandlerFunc
		code   int
	}{
		{"the shop fails", refuseWith(http.StatusInternalServerError), http.StatusInternalServerError},
		{"the shop refuses the order", refuseWith(http.StatusUnprocessableEntity), http.StatusUnprocessableEntity},
		{"the shop cuts the connection", reset, http.StatusBadGateway},
		{"the shop does not answer in time", f.shop.hang, http.StatusGatewayTimeout},
	} {
		f.shop.behave(tc.answer)
		a, err := visitor.order(f.gates[0])
		require.NoError(t, err, tc.name)
		require.Equal(t, tc.code, a.code, tc.name)
		require.Empty(t, a.header.Get("Location"), tc.name)

		f.shop.behave(nil)
		a, err = visitor.order(f.gates[0])
		require.NoError(t, err, tc.name)
		require.Equal(t, http.StatusCreated, a.code, "the next try after %s", tc.name)
	}
	orders := f.shop.got("/checkout/order")
	require.Len(t, orders, 8, "no order was sent twice by the gate itself")
	for _, order := range orders {
		require.Equal(t, admission, order.Header.Get("X-Queuegate-Admission"))
	}
}

const outageRooms = `  - {name: closed, protect: [{paths: [/closed]}], total_active_users: 9}
  - {name: open, protect: [{paths: [/open]}], total_active_users: 9, on_redis_error: open, max_in_flight: 2}
  - {name: strict, protect: [{paths: [/strict]}], total_active_users: 9, on_redis_error: strict}
`

func TestRedisDownAtTheStart(t *testing.T) {
	t.Parallel()
	shop, store := newRecordingShop(t), queuetest.Start(t)
	store.Kill()
	g := startGate(t, writeConfig(t, plan{rooms: outageRooms, timeout: "2s"}, shop.URL, store.URL))
	client := newClient(t)

	eventually(t, "the log says that Redis is away", func() bool { return strings.Contains(g.stderr.String(), `"msg":"redis not available yet`) })
	away := regexp.MustCompile(`\{"name":"closed","redis":\{"up":false,"last_error":"[^"]+"\}\}`)
	eventually(t, "readiness tells it as well", func() bool {
		a, err := send(client, request{method: "GET", url: g.admin + "/readyz"})
		return err == nil && a.code == http.StatusOK && away.Match(a.body)
	})

	require.Equal(t, http.StatusOK, mustSend(t, client, request{method: "GET", url: g.url + "/about"}).code)
	for _, path := range []string{"/closed", "/strict"} {
		page := mustSend(t, client, request{method: "GET", url: g.url + path, header: browse()})
		require.Equal(t, http.StatusServiceUnavailable, page.code)
		require.Equal(t, "text/html; charset=utf-8", page.header.Get("Content-Type"))
		require.Regexp(t, `^[1-9]\d*$`, page.header.Get("Retry-After"))
		call := mustSend(t, client, request{method: "POST", url: g.url + path})
		require.Equal(t, http.StatusServiceUnavailable, call.code)
		require.Equal(t, "application/problem+json", call.header.Get("Content-Type"))
		require.Equal(t, "degraded", call.doc.RoomState)
		require.Regexp(t, `^[1-9]\d*$`, call.header.Get("Retry-After"))
		require.Empty(t, shop.got(path), "no error opens the gate")
	}

	t.Run("open lets pass as many as the shop can bear", func(t *testing.T) {
		shop.behave(shop.hang)
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/open", nil)
			require.NoError(t, err)
			go func() {
				if resp, err := client.Do(req); err == nil {
					_ = resp.Body.Close()
				}
			}()
		}
		eventually(t, "two are at the shop", func() bool { return len(shop.got("/open")) == 2 })
		a := mustSend(t, client, request{method: "GET", url: g.url + "/open"})
		require.Equal(t, http.StatusServiceUnavailable, a.code)
		require.Regexp(t, `^[1-9]\d*$`, a.header.Get("Retry-After"))
		cancel()
		shop.behave(nil)
		eventually(t, "another one passes", func() bool {
			a, err := send(client, request{method: "GET", url: g.url + "/open"})
			return err == nil && a.code == http.StatusOK
		})
	})

	store.Resume(t)
	inStrict, inClosed := newApp(t), newApp(t)
	inStrict.room, inStrict.path = "strict", "/strict"
	inClosed.room, inClosed.path = "closed", "/closed"
	require.Eventually(t, func() bool {
		a, err := inClosed.join(g, nil)
		return err == nil && (a.doc.Status == "waiting" || a.doc.Status == "ready")
	}, patience, lookIn, "nobody gets a place after Redis came back")
	g.waitReady(t)
	inStrict.enter(t, g)
	inClosed.await(t, g)
	_, err := inClosed.open(g)
	require.NoError(t, err)
	require.Len(t, shop.got("/closed"), 1)

	store.Kill()
	eventually(t, "strict refuses the admitted, too", func() bool {
		a, err := inStrict.open(g)
		return err == nil && a.code == http.StatusServiceUnavailable && a.header.Get("Retry-After") != ""
	})
	a, err := inClosed.open(g)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.code, "closed lets the admitted go on")
}

func TestRedisFrozenInTheMiddle(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), timeout: "100ms"})
	g := f.gates[0]
	inside, waiting := newApp(t), newApp(t)
	// A busy machine may miss 100 ms now and then: each step is tried again.
	eventually(t, "one is inside", func() bool {
		if inside.pass == "" {
			_, _ = inside.join(g, nil)
		}
		a, err := inside.open(g)
		return err == nil && a.code == http.StatusOK && passOf(t, inside.pass).Stage == token.Active
	})
	eventually(t, "one waits", func() bool {
		if waiting.ticket == "" {
			_, _ = waiting.join(g, nil)
		}
		a, err := waiting.poll(g)
		return err == nil && a.doc.Status == "waiting" && a.doc.RoomState == "open"
	})
	place := ticketOf(t, waiting.ticket).Place

	f.redis.Freeze(t)
	thawed := false
	defer func() {
		if !thawed {
			f.redis.Thaw(t)
		}
	}()
	client := newClient(t)
	inside.client, waiting.client = client, client
	late := 0
	for range 10 {
		began := time.Now()
		page, err := send(client, request{method: "GET", url: g.url + "/checkout", header: browse()})
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, page.code)
		a, err := waiting.open(g)
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, a.code)
		require.Equal(t, "degraded", a.doc.RoomState)
		require.EqualValues(t, 1, *a.doc.Position, "the last known place")
		a, err = waiting.poll(g)
		require.NoError(t, err)
		require.Equal(t, "degraded", a.doc.RoomState)
		a, err = inside.order(g)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, a.code, "the admitted pass")
		a, err = send(client, request{method: "GET", url: g.url + "/about"})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.code)
		if time.Since(began) > 2*time.Second {
			late++
		}
	}
	// A busy machine is late by itself now and then; whoever waits for Redis always is.
	require.Less(t, late, 5, "rounds of five requests that took longer than four decisions may")

	f.redis.Thaw(t)
	thawed = true
	waiting.client = newClient(t)
	require.Eventually(t, func() bool {
		a, err := waiting.poll(g)
		return err == nil && a.doc.Status == "waiting" && a.doc.RoomState == "open"
	}, patience, lookIn, "the line answers again")
	require.Equal(t, place, ticketOf(t, waiting.ticket).Place)
}

func TestEmptiedRedisKeepsTheOrder(t *testing.T) {
	t.Parallel()
	const crowd = 4
	// Who is silent while the others are asked about still counts as present.
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1, presence_window: 5m")})
	holder := newApp(t)
	holder.enter(t, f.gates[0])
	apps, places := make([]*app, crowd), make([]int64, crowd)
	for i := range apps {
		apps[i] = newApp(t)
		_, err := apps[i].join(f.gates[i%2], nil)
		require.NoError(t, err)
		apps[i].waits(t, f.gates[i%2])
		places[i] = ticketOf(t, apps[i].ticket).Place
	}

	require.NoError(t, f.redis.Client(t).FlushAll(t.Context()).Err())

	// Those in front come back last, and a newcomer was faster than all of them.
	late := newApp(t)
	_, err := late.join(f.gates[0], nil)
	require.NoError(t, err)
	a, err := late.poll(f.gates[0])
	require.NoError(t, err)
	require.Equal(t, "waiting", a.doc.Status)
	require.Nil(t, a.doc.Position, "nobody can tell how many will come back")
	for i := crowd - 1; i >= 0; i-- {
		apps[i].waits(t, f.gates[1-i%2])
		require.Equal(t, places[i], ticketOf(t, apps[i].ticket).Place)
	}
	require.Greater(t, ticketOf(t, late.ticket).Place, places[crowd-1])
	a, err = holder.open(f.gates[1])
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, a.code, "the admitted pass")

	for _, g := range f.gates {
		eventually(t, "the gates write back what they know", func() bool {
			return strings.Contains(g.stderr.String(), "written back what this gate knew")
		})
	}

	// Everybody goes in, one by one, in the old order.
	last := holder
	line := append(slices.Clone(apps), late)
	for i, next := range line {
		_, err := last.release(f.gates[0])
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			for j := len(line) - 1; j >= i; j-- { // the others keep asking
				if line[j].pass == "" {
					_, err = line[j].poll(f.gates[j%2])
				}
			}
			return slices.ContainsFunc(line[i:], func(a *app) bool { return a.pass != "" })
		}, patience, 3*lookIn, "nobody is admitted")
		require.NotEmpty(t, next.pass, "number %d is next", i)
		_, err = next.open(f.gates[0])
		require.NoError(t, err)
		last = next
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1") +
		"  - {name: tickets, protect: [{paths: [/tickets]}], total_active_users: 10}\n"})
	g, client := f.gates[0], newClient(t)
	holder := newApp(t)
	holder.enter(t, g)

	t.Run("unknown rooms and endpoints are not found", func(t *testing.T) {
		for _, path := range []string{
			"/_queue", "/_queue/", "/_queue/nosuch", "/_queue/nosuch/status", "/_queue/nosuch/join", "/_queue/checkout/",
			"/_queue/checkout/nosuch", "/_queue/checkout/status/", "/_queue/checkout/status/x", "/_queue/Checkout/status",
			"/_queue//checkout/status", "/_queue/checkout/../tickets/status",
		} {
			for _, method := range []string{"GET", "POST"} {
				a := mustSend(t, client, request{method: method, url: g.url + path})
				require.Equal(t, http.StatusNotFound, a.code, "%s %s", method, path)
				require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), "%s %s", method, path)
				require.Equal(t, "urn:queuegate:problem:not-found", a.doc.Type, "%s %s", method, path)
			}
		}
		require.Empty(t, f.shop.got("/_queue"))
	})

	t.Run("what is no ticket is nobody", func(t *testing.T) {
		queued := newApp(t)
		_, err := queued.join(g, nil)
		require.NoError(t, err)
		_, tickets := keys(t)
		other := ticketOf(t, queued.ticket)
		for _, ticket := range []string{
			"", "x", "null", "%00", "\xff\xfe", "a b c", `"quoted"`, "../../etc/passwd", "' OR 1=1 --",
			strings.Repeat("A", 200), strings.Repeat("A", 5000), flip(queued.ticket), queued.ticket + "A", queued.ticket[1:],
			tickets.Seal("tickets", other), holder.pass,
		} {
			for name, value := range map[string]string{"X-Queue-Ticket": ticket, "Cookie": "queuegate_ticket_checkout=" + ticket} {
				a := mustSend(t, client, request{method: "GET", url: g.url + "/_queue/checkout/status", header: map[string]string{name: value}})
				require.Equal(t, http.StatusOK, a.code, "%s: %q", name, ticket)
				require.Equal(t, "not_entered", a.doc.Status, "%s: %q", name, ticket)
				a = mustSend(t, client, request{method: "GET", url: g.url + "/checkout", header: map[string]string{name: value}})
				require.Equal(t, http.StatusTooManyRequests, a.code, "%s: %q", name, ticket)
			}
		}
	})

	t.Run("a join that cannot be read is refused", func(t *testing.T) {
		for name, tc := range map[string]struct {
			body string
			key  string
			code int
		}{
			"an unknown key":                  {`{"return_to":"/checkout","priority":1}`, "", http.StatusBadRequest},
			"a value of another type":         {`{"return_to":7}`, "", http.StatusBadRequest},
			"two values":                      {`{} {}`, "", http.StatusBadRequest},
			"half a value":                    {`{"return_to":"/che`, "", http.StatusBadRequest},
			"a form":                          {`return_to=/checkout`, "", http.StatusBadRequest},
			"a list":                          {`["/checkout"]`, "", http.StatusBadRequest},
			"a body of a byte over the bound": {`{"return_to":"` + strings.Repeat("a", 16<<10-16+1) + `"}`, "", http.StatusRequestEntityTooLarge},
			"a body far over the bound":       {strings.Repeat(" ", 8<<20), "", http.StatusRequestEntityTooLarge},
			"a short idempotency key":         {"", "short", http.StatusBadRequest},
			"an idempotency key with a space": {"", "0123456789 abcdef", http.StatusBadRequest},
		} {
			header := map[string]string{}
			if tc.key != "" {
				header["Idempotency-Key"] = tc.key
			}
			a := mustSend(t, client, request{method: "POST", url: g.url + "/_queue/checkout/join", body: tc.body, header: header})
			require.Equal(t, tc.code, a.code, "%s: %s", name, a.body)
			require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), name)
			require.NotEmpty(t, a.doc.Title, name)
		}
	})

	t.Run("who sends a long body reads the answer", func(t *testing.T) {
		for name, path := range map[string]string{"to the line": "/_queue/checkout/join", "to the shop": "/checkout/order"} {
			for _, chunked := range []bool{false, true} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+path, strings.NewReader(strings.Repeat("x", 16<<20)))
				require.NoError(t, err)
				if chunked {
					req.ContentLength = -1
				}
				resp, err := client.Do(req)
				require.NoError(t, err, "%s, chunked %v", name, chunked)
				require.Contains(t, []int{http.StatusRequestEntityTooLarge, http.StatusTooManyRequests}, resp.StatusCode)
				require.NoError(t, resp.Body.Close())
			}
		}
		require.Empty(t, f.shop.got("/checkout/order"))
	})

	t.Run("wrong methods are told the right ones", func(t *testing.T) {
		for _, tc := range []struct{ method, path, allow string }{
			{"GET", "/join", "POST"}, {"PUT", "/join", "POST"}, {"POST", "/status", "GET"}, {"DELETE", "/status", "GET"},
			{"GET", "/release", "POST"}, {"POST", "", "GET, DELETE"}, {"PUT", "", "GET, DELETE"},
		} {
			a := mustSend(t, client, request{method: tc.method, url: g.url + "/_queue/checkout" + tc.path})
			require.Equal(t, http.StatusMethodNotAllowed, a.code, "%s %s", tc.method, tc.path)
			require.Equal(t, tc.allow, a.header.Get("Allow"), "%s %s", tc.method, tc.path)
			require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
		}
	})

	t.Run("what is no ordinary request gets a 4xx and never reaches the shop", func(t *testing.T) {
		for line, code := range map[string]string{
			"GET /checkout#a HTTP/1.1":       "400",
			"GET \\checkout HTTP/1.1":        "400",
			"GET http:checkout HTTP/1.1":     "400",
			"CONNECT shop.test:443 HTTP/1.1": "405",
			"TRACE /checkout HTTP/1.1":       "405",
			"OPTIONS * HTTP/1.1":             "400",
			"GET /check\x01out HTTP/1.1":     "400",
		} {
			conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
			require.NoError(t, err)
			require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
			_, err = fmt.Fprintf(conn, "%s\r\nHost: shop.test\r\nX-Probe: 1\r\n\r\n", line)
			require.NoError(t, err)
			status, err := bufio.NewReader(conn).ReadString('\n')
			require.NoError(t, err, line)
			require.Contains(t, status, " "+code+" ", line)
			require.NoError(t, conn.Close())
		}
		for _, r := range f.shop.got("") {
			require.Empty(t, r.Header.Get("X-Probe"), r.Target)
		}
	})
}

func TestTerminationServesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 5"), more: "shutdown: {drain_delay: 15s, grace: 80s}"})
	g, client := f.gates[0], newClient(t)
	finish := make(chan struct{})
	f.shop.behave(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			f.shop.hold(r, finish)
		}
		takeOrder(w, r)
	})
	type result struct {
		answer answer
		err    error
	}
	slow := make(chan result, 1)
	go func() {
		a, err := send(client, request{method: "GET", url: g.url + "/slow"})
		slow <- result{a, err}
	}()
	eventually(t, "the request is at the shop", func() bool { return len(f.shop.got("/slow")) == 1 })

	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	var served answer
	eventually(t, "readiness fails", func() bool {
		a, err := send(client, request{method: "GET", url: g.admin + "/readyz"})
		if err != nil || a.code != http.StatusServiceUnavailable {
			return false
		}
		served, err = send(newClient(t), request{method: "GET", url: g.url + "/about"})
		return err == nil && strings.Contains(string(a.body), `"reason":"draining"`)
	})
	require.Equal(t, http.StatusOK, served.code, "while balancers look away new requests are still served")
	eventually(t, "nothing new is accepted", func() bool {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
		if err == nil {
			_ = conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	select {
	case <-g.ended:
		require.FailNow(t, "the gate ended before its request", g.stderr)
	case r := <-slow:
		require.FailNow(t, "the request ended before its answer", "%v", r)
	default:
	}
	close(finish)
	got := soon(t, slow, "the slow answer")
	require.NoError(t, got.err)
	require.Equal(t, "the shop's answer to GET /slow", string(got.answer.body))
	require.Zero(t, g.exit(t), g.stderr)
}

// Whoever asks twice does not want to wait for what is in flight.
func TestASecondSignalEndsTheGateAtOnce(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 5"), more: "shutdown: {drain_delay: 80s, grace: 80s}"})
	g := f.gates[0]
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "it drains", func() bool { return strings.Contains(g.stderr.String(), "draining") })
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-g.ended:
	case <-time.After(patience / 2): // the drain alone takes nearly twice as long
		require.Fail(t, "it still waits")
	}
	require.Equal(t, 1, g.cmd.ProcessState.ExitCode())
	require.Contains(t, g.stderr.String(), "ended by a second signal (terminated)")
}

func TestInterruptEndsTheDemonstration(t *testing.T) {
	t.Parallel()
	p := run(t, nil, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--crowd", "5")
	address := regexp.MustCompile(`open +(http://\S+)/ `)
	eventually(t, "the addresses are printed", func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return strings.Contains(p.stdout.String(), "Ctrl-C")
		}
	})
	found := address.FindStringSubmatch(p.stdout.String())
	require.NotNil(t, found, "%s%s", p.stdout, p.stderr)
	a := mustSend(t, newClient(t), request{method: "GET", url: found[1] + "/checkout", header: browse()})
	require.Contains(t, []int{http.StatusOK, http.StatusTooManyRequests}, a.code)

	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Zero(t, p.exit(t), p.stderr)
	require.Contains(t, p.stdout.String(), "Everything has ended.")
	require.NotContains(t, p.stderr.String(), "panic")
}

func TestAddressInUseIsNamed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	address := taken.Addr().String()
	base := "token: {secret: " + signingSecret + "}\nrooms:\n" + room("total_active_users: 1")
	for key, text := range map[string]string{
		"listen":       fmt.Sprintf("listen: %q\nadmin: {listen: \"localhost:0\"}\n", address),
		"admin.listen": fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: %q}\n", address),
	} {
		file := filepath.Join(t.TempDir(), "queuegate.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text+base), 0o600))
		p := run(t, nil, "serve", "-c", file)
		require.Equal(t, 1, p.exit(t), key)
		require.Contains(t, p.stderr.String(), key+` "`+address+`"`)
		require.Contains(t, p.stderr.String(), "another process listens there")
	}
	p := run(t, nil, "demo", "--listen", address, "--admin", "127.0.0.1:0")
	require.Equal(t, 1, p.exit(t))
	require.Contains(t, p.stderr.String(), address)
}
