package main_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// takenOver and refused are what the log says of each attempt to read the files again.
const (
	takenOver = "the configuration was read again and taken over"
	refused   = "the configuration was not taken over"
)

// rewrite changes the gate's file as an editor does that replaces it.
func (g *gate) rewrite(t testing.TB, old, now string) {
	t.Helper()
	text, err := os.ReadFile(g.config)
	require.NoError(t, err)
	require.Contains(t, string(text), old)
	g.replace(t, strings.Replace(string(text), old, now, 1))
}

// replace puts another file in the place of the gate's, so that nobody ever reads half
// of it.
func (g *gate) replace(t testing.TB, text string) {
	t.Helper()
	next := g.config + ".next"
	require.NoError(t, os.WriteFile(next, []byte(text), 0o600))
	require.NoError(t, os.Rename(next, g.config))
}

// hangUp asks the gate to read its files again and waits until the log says what
// came of it.
func (g *gate) hangUp(t testing.TB, outcome string) {
	t.Helper()
	before := strings.Count(g.stderr.String(), outcome)
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGHUP))
	eventually(t, outcome, func() bool { return strings.Count(g.stderr.String(), outcome) > before })
}

// metric is one number of the gate. It leaves no connection behind: whoever counts
// what a gate holds open would count these too.
func (g *gate) metric(t testing.TB, name string) float64 {
	t.Helper()
	client := newClient(t)
	defer client.CloseIdleConnections()
	got := mustSend(t, client, request{method: "GET", url: g.admin + "/metrics"})
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(got.body)
	require.NotNil(t, found, name)
	value, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err)
	return value
}

// until repeats a request that must always succeed, from several hands, until it is
// stopped. What it returns stops them and fails the test if one failed.
func until(t testing.TB, what func() error) (stop func()) {
	t.Helper()
	over, first := make(chan struct{}), atomic.Pointer[error]{}
	var n atomic.Int64
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(lookIn):
			}
			n.Add(1)
			if err := what(); err != nil {
				first.CompareAndSwap(nil, &err)
			}
		}
	})
	end := sync.OnceFunc(func() {
		close(over)
		group.Wait()
	})
	t.Cleanup(end)
	return func() {
		end()
		if err := first.Load(); err != nil {
			require.NoError(t, *err, "of %d requests", n.Load())
		}
		require.Positive(t, n.Load())
	}
}

// wants is an error unless the answer has that status.
func wants(got answer, err error, code int) error {
	if err == nil && got.code != code {
		err = fmt.Errorf("answered %d: %s", got.code, got.body)
	}
	return err
}

// shopOfAllKinds answers slow requests when free is closed, and echoes on WebSockets.
func shopOfAllKinds(free chan struct{}, arrived *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/slow"):
			_, _ = io.Copy(io.Discard, r.Body) // else nobody notices that the client has gone
			arrived.Add(1)
			select {
			case <-free:
				takeOrder(w, r)
			case <-r.Context().Done():
			}
		case strings.HasSuffix(r.URL.Path, "/ws"):
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer func() { _ = c.CloseNow() }()
			for {
				kind, text, err := c.Read(r.Context())
				if err != nil || c.Write(r.Context(), kind, text) != nil {
					return
				}
			}
		default:
			takeOrder(w, r)
		}
	}
}

func TestReloadUnderLoadDropsNobodyAndLosesNoPlace(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 3, session_duration: 10m")})
	g, free, arrived := f.gates[0], make(chan struct{}), &atomic.Int64{}
	f.shop.behave(shopOfAllKinds(free, arrived))
	inside := []*app{newApp(t), newApp(t), newApp(t)}
	for _, a := range inside {
		a.enter(t, g)
	}
	var line []*app
	for range 5 {
		line = append(line, joined(t, g))
	}
	places := make([]int64, len(line))
	for i, a := range line {
		places[i] = ticketOf(t, a.ticket).Place
	}
	for _, a := range line[:3] { // whoever is not heard from is passed over
		a.waits(t, g)
	}
	events, socket := line[3].events(t, g), line[4].socket(t, g)

	// A long order, a WebSocket of the shop, and requests of every kind all the while.
	slow := make(chan error, 1)
	go func() {
		got, err := inside[0].send(request{method: "POST", url: g.url + "/checkout/slow", body: "{}"})
		slow <- wants(got, err, http.StatusCreated)
	}()
	eventually(t, "the shop has the long order", func() bool { return arrived.Load() == 1 })
	tunnel, _, err := websocket.Dial(t.Context(), strings.Replace(g.url, "http", "ws", 1)+"/checkout/ws",
		&websocket.DialOptions{HTTPHeader: http.Header{"X-Entry-Token": {inside[1].pass}}})
	require.NoError(t, err)
	defer tunnel.CloseNow()
	echo := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := tunnel.Write(ctx, websocket.MessageText, []byte("still here")); err != nil {
			return err
		}
		_, _, err := tunnel.Read(ctx)
		return err
	}
	stranger := newClient(t)
	stops := []func(){
		until(t, echo),
		until(t, func() error { got, err := inside[2].open(g); return wants(got, err, 200) }),
		until(t, func() error {
			got, err := send(stranger, request{method: "GET", url: g.url + "/catalogue"})
			return wants(got, err, 200)
		}),
	}
	for _, a := range line[:3] {
		tab := *a
		stops = append(stops, until(t, func() error { got, err := tab.poll(g); return wants(got, err, 200) }))
	}

	// Raised: the next two get in, and no others.
	g.rewrite(t, "total_active_users: 3", "total_active_users: 5")
	g.hangUp(t, takenOver)
	for _, a := range line[:2] {
		a.enter(t, g)
	}
	require.Equal(t, int64(1), *line[2].waits(t, g).doc.Position)
	for _, s := range []*stream{events, socket} { // they come again, and stand where they stood
		s.next(t, "closed")
		s.ends(t)
	}
	require.Equal(t, int64(2), *line[3].events(t, g).next(t, "update").doc.Position)
	line[4].socket(t, g).next(t, "update")

	// Lowered: it drains, nobody is thrown out and nobody let in.
	g.rewrite(t, "total_active_users: 5", "total_active_users: 2")
	g.hangUp(t, takenOver)
	eventually(t, "Redis is told", func() bool { return g.metric(t, `queuegate_queue_active_limit{room="checkout"}`) == 2 })
	for _, a := range append(inside[1:], line[:2]...) {
		got, err := a.open(g)
		require.NoError(t, wants(got, err, 200))
	}
	_, err = line[0].release(g)
	require.NoError(t, err)
	require.Equal(t, int64(1), *line[2].waits(t, g).doc.Position)
	for i, a := range line[2:] {
		require.Equal(t, places[i+2], ticketOf(t, a.ticket).Place)
	}
	for _, stop := range stops {
		stop()
	}
	close(free)
	require.NoError(t, soon(t, slow, "the answer to the order"), "the order that was under way over two reloads")
	require.NoError(t, echo(), "the WebSocket that was open over them")
	require.NotContains(t, g.stderr.String(), "redis lost its history")
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGHUP))
	require.Equal(t, 0, g.exit(t), "a hangup during the drain ends nothing")
}

func TestFilesThatChangeAreTakenOverWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 3"), more: "log: {level: info}"})
	g := f.gates[0]
	good, err := os.ReadFile(g.config)
	require.NoError(t, err)
	inside := newApp(t)
	inside.enter(t, g)
	since := g.metric(t, "queuegate_config_last_reload_success_timestamp_seconds")
	require.Positive(t, since)

	for _, bad := range []struct{ name, text, says string }{
		{"an unknown key", string(good) + "surprise: 1\n", "surprise: unknown key"},
		{"an empty file", "", "is empty"},
		{"half a file", string(good[:len(good)/2]), "queuegate.yaml"},
		{"another listener beside a good change", strings.NewReplacer("localhost:0", "localhost:1", "users: 3", "users: 7").Replace(string(good)),
			"admin.listen: only a restart changes it"},
		{"another identity", strings.Replace(string(good), signingSecret, "Xk3v9TqLw7RbN2sYc6ZmHd8FgJ4pQaEu", 1),
			"token.identity_secret, token.secret: only a restart changes it"},
	} {
		before := len(g.stderr.String())
		g.replace(t, bad.text)
		g.hangUp(t, refused)
		// The gate looks by itself as well, so what is said first may be of the file before.
		eventually(t, "the log tells of "+bad.name, func() bool {
			_, said, found := strings.Cut(g.stderr.String()[before:], refused)
			return found && strings.Contains(said, bad.says)
		})
		require.Zero(t, g.metric(t, "queuegate_config_last_reload_successful"), bad.name)
		require.Equal(t, since, g.metric(t, "queuegate_config_last_reload_success_timestamp_seconds"), bad.name)
		got, err := inside.open(g)
		require.NoError(t, wants(got, err, 200), bad.name)
	}

	// A folder that is mounted changes by a link: nobody tells, and the file's name
	// and time say nothing.
	folder := filepath.Dir(g.config)
	require.NoError(t, os.Mkdir(filepath.Join(folder, "second"), 0o700))
	next := append(bytes.Clone(good), []byte("  - {name: second, protect: [{paths: [/second]}], new_users_per_minute: 600}\n")...)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "second", "queuegate.yaml"), next, 0o600))
	link := filepath.Join(folder, "link")
	require.NoError(t, os.Symlink(filepath.Join("second", "queuegate.yaml"), link))
	require.NoError(t, os.Rename(link, g.config))
	eventually(t, "the change is noticed", func() bool { return strings.Contains(g.stderr.String(), takenOver) })
	require.Equal(t, 1.0, g.metric(t, "queuegate_config_last_reload_successful"))
	require.Greater(t, g.metric(t, "queuegate_config_last_reload_success_timestamp_seconds"), since)
	newcomer := newApp(t)
	newcomer.room, newcomer.path = "second", "/second"
	newcomer.enter(t, g)
	require.Equal(t, "second", f.shop.last(t, "/second").Header.Get("X-Queuegate-Room"), "a new room is one at once")

	// Back again: the room goes, and the log says what that means.
	g.replace(t, string(good))
	g.hangUp(t, takenOver)
	require.Contains(t, g.stderr.String(), `"msg":"the room is gone from the configuration: nothing protects its routes any more","room":"second"`)
	got, err := newApp(t).send(request{method: "GET", url: g.url + "/second"})
	require.NoError(t, wants(got, err, 200))
	require.Empty(t, f.shop.last(t, "/second").Header.Get("X-Queuegate-Room"))
}
