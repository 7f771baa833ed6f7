package main_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// The short forms; `make chaos` has more of the same.

func TestReloadsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	reloads{first: 10, then: 20}.leaveNothing(t)
}

func TestRandomPathsAndHostsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	nameless{first: 1600, then: 8000}.leaveNothing(t)
}

// held is what a gate has of what could grow.
type held struct {
	goroutines, descriptors, series int
	heap, resident                  int64 // bytes; heap is what is reachable
}

func (h held) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d series of metrics, %d KB reachable, %d MB in memory", h.goroutines, h.descriptors, h.series, h.heap>>10, h.resident>>20)
}

// metLate is how many series of metrics may come up late, whatever is done: of reasons
// that were not met before, such as a pass that was renewed.
const metLate = 10

// profiled has a gate answer holds.
const profiled = "QUEUEGATE_ADMIN_PPROF=true"

// holds counts what a gate has. It leaves no connection behind.
func (g *gate) holds(t testing.TB) held {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	number := func(path, pattern string) int64 {
		got, err := send(client, request{method: "GET", url: g.admin + path})
		require.NoError(t, err)
		found := regexp.MustCompile(pattern).FindSubmatch(got.body)
		require.NotNil(t, found, "%s in %s", pattern, path)
		n, err := strconv.ParseInt(string(found[1]), 10, 64)
		require.NoError(t, err)
		return n
	}
	const heap = "/debug/pprof/heap?gc=1&debug=1"
	number(heap, `# HeapAlloc = (\d+)`) // what is pooled goes with the second collection
	h := held{
		heap:       number(heap, `# HeapAlloc = (\d+)`),
		goroutines: int(number("/debug/pprof/goroutine?debug=1", `total (\d+)`)),
	}
	h.descriptors, h.resident = descriptorsOf(g), memoryOf(g)
	got, err := send(client, request{method: "GET", url: g.admin + "/metrics"})
	require.NoError(t, err)
	for line := range strings.Lines(string(got.body)) {
		if !strings.HasPrefix(line, "#") {
			h.series++
		}
	}
	return h
}

// descriptorsOf counts the descriptors that a gate holds open.
func descriptorsOf(g *gate) int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
	return len(list)
}

// memoryOf is what a gate has in memory, in bytes.
func memoryOf(g *gate) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", g.cmd.Process.Pid))
	var all, resident int64
	_, _ = fmt.Sscan(string(text), &all, &resident)
	return resident * int64(os.Getpagesize())
}

// noMoreThan waits until a gate holds no more than it did, but for what comes and goes
// by itself: a few goroutines and descriptors, and bytes in the heap.
func (g *gate) noMoreThan(t testing.TB, before held, spare int, heap int64) {
	t.Helper()
	var now held
	for began := time.Now(); ; <-time.After(time.Second) {
		now = g.holds(t)
		if now.goroutines <= before.goroutines+spare && now.descriptors <= before.descriptors+spare && now.heap <= before.heap+heap {
			break
		}
		if time.Since(began) > patience {
			got, err := send(newClient(t), request{method: "GET", url: g.admin + "/debug/pprof/goroutine?debug=1"})
			require.FailNow(t, "the gate holds more", "before: %s; now: %s\n%s\n%v", before, now, got.body, err)
		}
	}
	t.Logf("before: %s; now: %s", before, now)
}

// reloads are changes of the file that a gate takes over: what it holds after the first
// is what it holds after the rest.
type reloads struct{ first, then int }

func (r reloads) leaveNothing(t *testing.T) {
	f := startFleet(t, plan{rooms: room("total_active_users: 1, session_duration: 5m")})
	g := startGate(t, f.config, profiled)
	g.waitReady(t)
	inside := newApp(t)
	inside.enter(t, g)
	waiting := joined(t, g)
	place := ticketOf(t, waiting.ticket).Place
	stop := until(t, func() error {
		got, err := inside.open(g)
		if err = wants(got, err, http.StatusOK); err == nil {
			got, err = waiting.poll(g)
			err = wants(got, err, http.StatusOK)
		}
		if err == nil {
			got, err = send(inside.client, request{method: "GET", url: g.url + "/about"})
			err = wants(got, err, http.StatusOK)
		}
		return err
	})
	ways := []string{"session_duration: 5m", "session_duration: 6m"}
	reload := func(n int) {
		const last = "queuegate_config_last_reload_success_timestamp_seconds"
		for range n {
			since := g.metric(t, last)
			g.rewrite(t, ways[0], ways[1])
			ways[0], ways[1] = ways[1], ways[0]
			require.NoError(t, g.cmd.Process.Signal(syscall.SIGHUP))
			eventually(t, "the file is taken over", func() bool { return g.metric(t, last) > since })
		}
	}
	reload(r.first)
	before := g.holds(t)
	requests := g.metric(t, `queuegate_requests_total{decision="proxied",reason="unprotected",room=""}`)
	reload(r.then)
	g.noMoreThan(t, before, 15, 2<<20)
	require.Greater(t, g.metric(t, `queuegate_requests_total{decision="proxied",reason="unprotected",room=""}`), requests, "counters go on")
	require.LessOrEqual(t, g.holds(t).series, before.series+metLate, "series of metrics")
	require.Equal(t, 1.0, g.metric(t, `queuegate_gates{room="checkout"}`), "to Redis it is the same gate")
	stop()
	require.Equal(t, place, ticketOf(t, waiting.ticket).Place)
}

// nameless are requests of which no two have a path or a host in common: what a gate
// holds after the first is what it holds after the rest.
type nameless struct{ first, then int }

func (s nameless) leaveNothing(t *testing.T) {
	shop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // which keeps no list
	t.Cleanup(shop.Close)
	g := startGate(t, writeConfig(t, plan{rooms: room("total_active_users: 5")}, shop.URL, queuetest.Start(t).URL), profiled)
	g.waitReady(t)
	g.stderr.keepNoMore() // a line of each request
	began := time.Now()
	s.come(t, g, s.first, 1)
	before := g.holds(t)
	s.come(t, g, s.then, 2)
	t.Logf("%d requests in %s", s.first+s.then, time.Since(began).Round(time.Millisecond))
	g.noMoreThan(t, before, 15, 2<<20)
	require.LessOrEqual(t, g.holds(t).series, before.series+metLate, "series of metrics")
}

// come makes n requests over a few connections.
func (s nameless) come(t *testing.T, g *gate, n int, seed uint64) {
	const hands, together = 8, 20
	require.NoError(t, all(hands, func(hand int) error {
		chance := rand.New(rand.NewPCG(seed, uint64(hand))) //nolint:gosec // names, not secrets
		var conn net.Conn
		defer func() {
			if conn != nil {
				_ = conn.Close()
			}
		}()
		var answers *bufio.Reader
		for range n / hands / together {
			if conn == nil {
				var err error
				if conn, err = net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience); err != nil {
					return err
				}
				_ = conn.SetDeadline(time.Now().Add(time.Hour))
				answers = bufio.NewReader(conn)
			}
			var text strings.Builder
			for range together {
				stranger(&text, chance)
			}
			if _, err := io.WriteString(conn, text.String()); err != nil {
				return err
			}
			for i := range together {
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					return fmt.Errorf("answer %d to\n%s: %w", i, text.String(), err)
				}
				if _, err = io.Copy(io.Discard, resp.Body); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// stranger writes one request with names that nobody ever sent.
func stranger(text *strings.Builder, chance *rand.Rand) {
	name := func() string { return strconv.FormatUint(chance.Uint64(), 36) }
	const asset = "Sec-Fetch-Dest: image\r\n" // nobody waits for it, so that it gets no place
	method, target, host, more := "GET", "/"+name(), name()+".example", ""
	switch chance.IntN(8) {
	case 0:
	case 1:
		target, more = "/checkout/"+name()+"?"+name(), asset
	case 2:
		target = "/_queue/" + name() + "/status"
	case 3:
		method, target, more = "X"+strings.ToUpper(name()), "/checkout/"+name(), asset+"X-Entry-Token: eyJhbGciOiJIUzI1NiJ9."+name()+"."+name()+"\r\n"
	case 4:
		target, more = "/_queue/checkout/status", "X-Queue-Ticket: "+name()+name()+"\r\n"
	case 5:
		target, more = "/checkout", asset+"Cookie: queuegate_entry_checkout="+name()+"; queuegate_ticket_"+name()+"="+name()+"\r\n"
	case 6:
		target, more = "http://"+host+"/"+name(), "X-Forwarded-For: "+fmt.Sprintf("10.%d.%d.%d", chance.IntN(256), chance.IntN(256), chance.IntN(256))+"\r\n"
	default:
		target, more = "/"+name()+"/%2e%2e/"+name(), "X-Request-Id: "+name()+"\r\nReferer: http://"+name()+"/\r\n"
	}
	fmt.Fprintf(text, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n%s\r\n", method, target, host, name(), more)
}
