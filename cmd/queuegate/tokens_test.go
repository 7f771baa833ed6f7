package main_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

// keygen makes a private key with the program and returns the file it is in.
func keygen(t testing.TB, kind string) string {
	t.Helper()
	out, err := exec.Command(binary(t), "keygen", "--type", kind).Output()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), kind+".pem")
	require.NoError(t, os.WriteFile(file, out, 0o600))
	return file
}

// jwksOf fetches what a gate publishes and makes the verifier of a shop of it.
func jwksOf(t testing.TB, g *gate) *token.Verifier {
	t.Helper()
	a := mustSend(t, newClient(t), request{method: "GET", url: g.url + "/_queue/jwks.json"})
	require.Equal(t, http.StatusOK, a.code, "%s", a.body)
	require.Equal(t, "public, max-age=300", a.header.Get("Cache-Control"))
	keys, err := token.ParseJWKS(a.body)
	require.NoError(t, err)
	v, err := token.NewVerifier(token.VerifierOptions{Issuer: "queuegate", Installation: installation, PublicKeys: keys})
	require.NoError(t, err)
	return v
}

// Gates are restarted one after another while people are inside and in line. First all
// learn the new key, then all sign with it; at no moment is anybody logged out.
func TestRotationOverARollingRestartLogsNobodyOut(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 3, session_duration: 20m")})
	inside := []*app{newApp(t), newApp(t), newApp(t)}
	for i, a := range inside {
		a.enter(t, f.gates[i%2])
	}
	waiting := []*app{newApp(t), newApp(t)}
	for _, a := range waiting {
		_, err := a.join(f.gates[0], nil)
		require.NoError(t, err)
		a.waits(t, f.gates[0])
	}
	old := inside[0].pass
	all := func(what string) {
		t.Helper()
		for _, g := range f.gates {
			for _, a := range inside {
				got, err := a.open(g)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, got.code, "%s: who is inside stays inside", what)
			}
			for n, a := range waiting {
				require.EqualValues(t, n+1, *a.waits(t, g).doc.Position, "%s: who waits keeps the place", what)
			}
		}
	}
	file := keygen(t, "ed25519")
	steps := []struct {
		name string
		env  []string
	}{
		{"both know the new key", []string{"QUEUEGATE_TOKEN_PREVIOUS=" + file}},
		{"the new key signs", []string{"QUEUEGATE_TOKEN_PRIVATE_KEY=" + file, "QUEUEGATE_TOKEN_PREVIOUS=" + signingSecret}},
	}
	none := mustSend(t, newClient(t), request{method: "GET", url: f.gates[0].url + "/_queue/jwks.json"})
	require.Equal(t, http.StatusNotFound, none.code, "a secret has no public half")
	for n, step := range steps {
		for i, g := range f.gates {
			g.kill()
			g.env = step.env
			g.start(t)
			g.waitReady(t)
			all(step.name)
			// One goes, the next comes in by this gate and is known at the other.
			if n == 1 && len(waiting) > 0 {
				gone := inside[len(inside)-1]
				_, err := gone.release(g)
				require.NoError(t, err)
				next := waiting[0]
				next.await(t, g)
				inside, waiting = append(inside[:len(inside)-1], next), waiting[1:]
				got, err := next.open(f.gates[1-i])
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, got.code, "what the new key signed opens at the gate that is still to be restarted")
				all(step.name + ", somebody new is inside")
			}
		}
	}
	shop := jwksOf(t, f.gates[0])
	p, err := shop.VerifyAt(inside[len(inside)-1].pass, "checkout", time.Now())
	require.NoError(t, err, "the shop verifies with what the gate publishes")
	require.Equal(t, "checkout", p.Room)

	// When the old secret is dropped, a pass of it is as good as none.
	g := f.gates[0]
	g.kill()
	g.env = []string{"QUEUEGATE_TOKEN_PRIVATE_KEY_FILE=" + file}
	g.start(t)
	g.waitReady(t)
	got := mustSend(t, newClient(t), request{method: "POST", url: g.url + "/checkout", header: map[string]string{"X-Entry-Token": old}})
	require.Equal(t, http.StatusTooManyRequests, got.code)
}

// A pass ends at one gate and is replayed at the other, by somebody else.
func TestPassThatEndedAtOneGateOpensNoOther(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 20")})
	here, there := f.gates[0], f.gates[1]
	line := f.redis.Client(t)
	roomTime := func() int64 {
		now, err := line.HGet(t.Context(), "qg:{checkout}:room", "now").Int64()
		require.NoError(t, err)
		return now
	}
	thief, replayed := newClient(t), map[string]int{}
	for name, end := range map[string]func(*app) (answer, error){
		"leave": func(a *app) (answer, error) {
			return a.send(request{method: "DELETE", url: here.url + "/_queue/checkout"})
		},
		"release": func(a *app) (answer, error) { return a.release(here) },
	} {
		holder := newApp(t)
		holder.enter(t, here)
		got, err := holder.order(there)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, got.code)
		stolen := passOf(t, holder.pass)
		raw := holder.pass
		// honoured replays the pass and reports whether the shop was reached by it, and
		// not as whoever comes new and finds the slot free.
		honoured := func(g *gate) bool {
			_, err := send(thief, request{method: "POST", url: g.url + "/checkout/replayed", header: map[string]string{"X-Entry-Token": raw}})
			require.NoError(t, err)
			n := 0
			for _, r := range f.shop.got("/checkout/replayed") {
				if r.Header.Get("X-Queuegate-Admission") == stolen.Admission {
					n++
				}
			}
			before := replayed[stolen.Admission]
			replayed[stolen.Admission] = n
			return n > before
		}
		require.True(t, honoured(there), "%s: it is good before", name)
		a, err := end(holder)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.code, name)
		require.False(t, honoured(here), "%s: the gate itself knows at once", name)
		ended := roomTime()
		eventually(t, name+": the other gate knows", func() bool {
			before := roomTime()
			good := honoured(there)
			// Room time goes on by what Redis runs, also while the gate under test gets
			// no processor; so far behind it is only one that does not listen.
			require.False(t, good && before > ended+10_000, "%s: honoured %d ms after the end", name, before-ended)
			return !good
		})
		for range 20 {
			require.False(t, honoured(there), "%s: and never again", name)
		}
	}
}

// A shop in Go behind the gate that checks the pass once more: whoever finds a way
// around the gate finds a closed door.
func TestShopBehindTheGateChecksThePassItself(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 0, rooms: room("total_active_users: 5, forward_token: true")})
	g := startGate(t, f.config, "QUEUEGATE_TOKEN_PRIVATE_KEY_FILE="+keygen(t, "p256"))
	g.waitReady(t)
	wrap, err := token.Middleware(token.MiddlewareOptions{Checker: jwksOf(t, g), Room: "checkout"})
	require.NoError(t, err)
	checked := wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := token.FromContext(r.Context())
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(p.Admission))
	}))
	f.shop.behave(checked.ServeHTTP)

	visitor := newApp(t)
	_, err = visitor.join(g, nil)
	require.NoError(t, err)
	visitor.await(t, g)
	got, err := visitor.order(g)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.code, "%s", got.body)
	require.Equal(t, f.shop.last(t, "/checkout").Header.Get("X-Queuegate-Admission"), string(got.body))

	for name, pass := range map[string]string{"nothing": "", "made up": "a.b.c", "a forged one": flip(visitor.pass)} {
		a := mustSend(t, newClient(t), request{method: "POST", url: f.shop.URL + "/checkout/order", header: map[string]string{"X-Entry-Token": pass}})
		require.Equal(t, http.StatusForbidden, a.code, name)
		require.Equal(t, "urn:queuegate:problem:no-pass", a.doc.Type, name)
	}
}

// Whatever a client writes, Redis holds only the keys of the room.
func TestNothingAClientWritesBecomesAKey(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1")})
	g := f.gates[0]
	holder := newApp(t)
	holder.enter(t, g)
	client := newClient(t)
	for _, text := range []string{"}", "{", "*", "a}:slots", "checkout}:x", "{other}", "%00", "../x", "[^a]*", strings.Repeat("A", 5000)} {
		for _, header := range []string{"X-Queue-Ticket", "X-Entry-Token", "X-Queuegate-Visitor", "X-Queuegate-Room", "Cookie"} {
			value := text
			if header == "Cookie" {
				value = "queuegate_ticket_checkout=" + text + "; queuegate_entry_checkout=" + text
			}
			for _, r := range []request{
				{method: "POST", url: g.url + "/checkout/order"}, {method: "DELETE", url: g.url + "/_queue/checkout"},
				{method: "GET", url: g.url + "/_queue/checkout/status"}, {method: "GET", url: g.url + "/_queue/" + url.PathEscape(text) + "/status"},
			} {
				r.header = map[string]string{header: value}
				a := mustSend(t, client, r)
				require.Less(t, a.code, 500, "%s: %.40q", header, text)
			}
		}
	}
	keys, err := f.redis.Client(t).Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	for _, key := range keys {
		require.Regexp(t, `^qg:\{checkout\}:[a-z]+$`, key)
	}
	require.Len(t, f.shop.got("/checkout"), 1, "only the holder was in the shop")
}

// TLS ends in front: the gate sees http and believes its own proxy alone.
func TestCookiesAreSecureWhereTheVisitorUsesHTTPS(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), more: "trusted_proxies: [127.0.0.2/32]"})
	behind := startGate(t, f.config, "QUEUEGATE_TRUSTED_PROXIES=127.0.0.0/8")
	behind.waitReady(t)
	newApp(t).enter(t, f.gates[0])
	cookies := func(g *gate, header map[string]string) []*http.Cookie {
		h := browse()
		for name, value := range header {
			h[name] = value
		}
		a := mustSend(t, newClient(t), request{method: "GET", url: g.url + "/checkout", header: h})
		require.Equal(t, http.StatusTooManyRequests, a.code)
		return (&http.Response{Header: a.header}).Cookies()
	}
	for _, c := range append(cookies(f.gates[0], nil), cookies(f.gates[0], map[string]string{"X-Forwarded-Proto": "https"})...) {
		require.False(t, c.Secure, "no proxy of ours said so")
		require.Equal(t, "queuegate_ticket_checkout", c.Name)
		require.True(t, c.HttpOnly)
		require.Equal(t, http.SameSiteLaxMode, c.SameSite)
	}
	for _, c := range cookies(behind, map[string]string{"X-Forwarded-Proto": "https"}) {
		require.True(t, c.Secure)
		require.Equal(t, "__Host-queuegate_ticket_checkout", c.Name)
		require.Empty(t, c.Domain)
		require.Equal(t, "/", c.Path)
	}
	for _, c := range cookies(behind, nil) {
		require.False(t, c.Secure, "a visitor without https keeps a place as well")
	}
}

// However often and wherever an admission is taken up, it is one slot and one pass.
func TestAdmissionTakenUpAHundredTimesAtOnceIsOneSlot(t *testing.T) {
	t.Parallel()
	const tries = 100
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 10")})
	first := newApp(t)
	_, err := first.join(f.gates[0], nil)
	require.NoError(t, err)
	first.await(t, f.gates[0])
	want := passOf(t, first.pass)
	require.Equal(t, token.Ready, want.Stage)
	given := make([]string, tries)
	require.NoError(t, all(tries, func(i int) error {
		hand := newApp(t) // its own address and connection, the same pass
		hand.pass = first.pass
		a, err := hand.open(f.gates[i%2])
		if err == nil && a.code != http.StatusOK {
			err = fmt.Errorf("answer %d: %s", a.code, a.body)
		}
		given[i] = hand.pass
		return err
	}))
	for _, raw := range given {
		got := passOf(t, raw)
		require.Equal(t, want.Admission, got.Admission)
		require.Equal(t, want.Visitor, got.Visitor)
	}
	require.EqualValues(t, 1, f.redis.Client(t).ZCard(t.Context(), "qg:{checkout}:slots").Val())
}

// The browser ends with one identity that is good at either gate, and nothing it was
// given is deleted by an answer that comes late.
func TestParallelFirstRequestsOfABrowserEndInsideWhateverComesLast(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 8")})
	free := make(chan struct{})
	f.shop.behave(func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "basket", Value: "7", Path: "/"})
		http.SetCookie(w, &http.Cookie{Name: "queuegate_entry_checkout", Value: "mine"})
		http.SetCookie(w, &http.Cookie{Name: "theme", Value: "dark"})
		if strings.HasSuffix(r.URL.Path, "/slow") {
			f.shop.hold(r, free)
		}
		w.WriteHeader(http.StatusOK)
	})
	bare := newClient(t)
	late := make(chan answer, 1)
	go func() {
		a, _ := send(bare, request{method: "GET", url: f.gates[0].url + "/checkout/slow", header: browse()})
		late <- a
	}()
	eventually(t, "the slow one is at the shop", func() bool { return len(f.shop.got("/checkout/slow")) == 1 })
	browser := newBrowser(t)
	openAtOnce(t, f, browser, 8)
	awaitBrowser(t, f.gates[1], browser)
	close(free)
	last := soon(t, late, "the slow answer")
	require.Equal(t, http.StatusOK, last.code)
	lines := last.header.Values("Set-Cookie")
	require.Len(t, lines, 4, "the shop's two in their order, and the gate's")
	require.Equal(t, "basket=7; Path=/", lines[0])
	require.Equal(t, "theme=dark", lines[1])
	require.True(t, strings.HasPrefix(lines[2], "queuegate_ticket_checkout="), lines)
	require.True(t, strings.HasPrefix(lines[3], "queuegate_entry_checkout="), lines)
	home, err := url.Parse(f.gates[0].url)
	require.NoError(t, err)
	browser.Jar.SetCookies(home, (&http.Response{Header: last.header}).Cookies())
	for _, g := range f.gates {
		a := mustSend(t, browser, request{method: "GET", url: g.url + "/checkout", header: browse()})
		require.Equal(t, http.StatusOK, a.code)
	}
	log := f.gates[0].stderr.String() + f.gates[1].stderr.String()
	require.Contains(t, log, "the shop sets a cookie whose name begins like the gate's own")
	require.NotContains(t, f.shop.last(t, "/checkout").Header.Get("Cookie"), "queuegate_")
}

// An app that joins with its key again is the same visitor in a new stay. Who still has
// pass and ticket of the one before, of which nobody knows any more, has no part in it.
func TestNothingOfALaterStayIsGivenForThePassOfAnEarlierOne(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 4")})
	g, rdb := f.gates[0], f.redis.Client(t)
	key := map[string]string{"Idempotency-Key": "one-and-the-same-app"}
	owner := newApp(t)
	_, err := owner.join(g, key)
	require.NoError(t, err)
	owner.await(t, g)
	_, err = owner.open(g)
	require.NoError(t, err)
	old := passOf(t, owner.pass)
	pass, ticket := owner.pass, owner.ticket
	require.NotEmpty(t, ticket)
	_, err = owner.release(g)
	require.NoError(t, err)
	require.NoError(t, rdb.HIncrBy(t.Context(), "qg:{checkout}:room", "now", time.Hour.Milliseconds()).Err())
	eventually(t, "the end is forgotten", func() bool { return rdb.ZCard(t.Context(), "qg:{checkout}:ended").Val() == 0 })
	eventually(t, "at the gate as well", func() bool {
		thief := newApp(t)
		thief.pass = pass
		got, err := thief.poll(g)
		return err == nil && got.doc.Status == "expired"
	})
	owner.pass, owner.ticket = "", ""
	_, err = owner.join(g, key)
	require.NoError(t, err)
	owner.await(t, g)
	_, err = owner.open(g)
	require.NoError(t, err)
	own := passOf(t, owner.pass)
	require.Equal(t, old.Visitor, own.Visitor)
	require.NotEqual(t, old.Admission, own.Admission)

	for range 3 {
		for _, thief := range []*app{{pass: pass}, {ticket: ticket}, {pass: pass, ticket: ticket}} {
			thief.client, thief.room, thief.path = newClient(t), owner.room, owner.path
			for _, ask := range []func() (answer, error){
				func() (answer, error) { return thief.poll(g) },
				func() (answer, error) { return thief.open(g) },
				func() (answer, error) { return thief.join(g, nil) },
			} {
				keep := *thief
				_, err := ask()
				require.NoError(t, err)
				if thief.pass != "" {
					require.NotEqual(t, own.Admission, passOf(t, thief.pass).Admission)
				}
				*thief = keep
			}
		}
	}
	for _, r := range f.shop.got("/checkout") {
		if r.Header.Get("X-Queuegate-Visitor") == own.Visitor {
			require.Contains(t, []string{old.Admission, own.Admission}, r.Header.Get("X-Queuegate-Admission"))
		}
	}
	got, err := owner.order(g)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.code)
}
