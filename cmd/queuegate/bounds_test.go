package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPassOfARoomIsNoneInTheRoomWithinIt: the longest path decides, in whatever
// order the file names the rooms, and so does whose pass counts.
func TestPassOfARoomIsNoneInTheRoomWithinIt(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: "  - {name: shop, total_active_users: 5, protect: [{paths: [/checkout]}]}\n" +
		"  - {name: vip, total_active_users: 1, protect: [{paths: [/checkout/vip]}]}\n" +
		"  - {name: inner, total_active_users: 1, protect: [{paths: [/checkout/vip/inner]}]}\n"})
	g := f.gates[0]
	in := func(room, path string) *app {
		a := newApp(t)
		a.room, a.path = room, path
		a.enter(t, g)
		return a
	}
	shop, vip, inner := in("shop", "/checkout"), in("vip", "/checkout/vip"), in("inner", "/checkout/vip/inner")
	for _, tc := range []struct {
		holder *app
		path   string
		code   int // 400: one reading is in another room than the next
	}{
		{shop, "/checkout/order", 201},
		{shop, "/checkout/vips", 201},
		{shop, "/checkout/vip", 429},
		{shop, "/checkout/vip/", 429},
		{shop, "/checkout/x/../vip", 400},
		{shop, "/checkout/%76ip/order", 400},
		{shop, "/checkout/VIP", 429},
		{vip, "/checkout/vip/order", 201},
		{vip, "/checkout/vip/inner", 429},
		{vip, "/checkout/vip//inner/", 400},
		{inner, "/checkout/vip/inner/order", 201},
		{inner, "/checkout/vip/order", 429},
	} {
		before := len(f.shop.got(""))
		for _, header := range []map[string]string{
			{"X-Entry-Token": tc.holder.pass},
			{"Cookie": fmt.Sprintf("queuegate_entry_shop=%s; queuegate_entry_vip=%[1]s; queuegate_entry_inner=%[1]s", tc.holder.pass)},
		} {
			got := mustSend(t, newClient(t), request{method: "POST", url: g.url + tc.path, header: header})
			require.Equal(t, tc.code, got.code, "%s at %s", tc.holder.room, tc.path)
		}
		if tc.code != 201 {
			require.Len(t, f.shop.got(""), before, "%s at %s", tc.holder.room, tc.path)
			continue
		}
		require.Equal(t, tc.holder.room, f.shop.last(t, "/checkout").Header.Get("X-Queuegate-Room"), tc.path)
	}
}

// TestLogIsOneLineForEachEventWhateverIsSent: what clients write stands in values,
// escaped, and no ticket or pass stands there at all.
func TestLogIsOneLineForEachEventWhateverIsSent(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1")})
	g := f.gates[0]
	holder, waiting := newApp(t), newApp(t)
	holder.enter(t, g)
	_, err := waiting.join(g, nil)
	require.NoError(t, err)
	const fake = `{"level":"ERROR","msg":"faked"}`
	odd := []string{"/x%0a" + fake, "/x%0d%0a" + fake, "/x%1b[2J", "/x%e2%80%a8" + fake, "/x\xff\x9b31m", "/x?" + fake, "/checkout?ticket=" + waiting.ticket, "/checkout?token=" + holder.pass}
	for _, target := range odd {
		for _, lines := range []string{"", "User-Agent: \x1b[31m" + fake + "\r\n", "X-Request-Id: a\tb" + fake + "\r\n", "Referer: " + fake + "\r\n", "X-Queue-Ticket: " + waiting.ticket + fake + "\r\n"} {
			for _, host := range []string{"shop.test", "\x1b[31mshop", `"}` + fake} {
				_, _ = sendRaw(strings.TrimPrefix(g.url, "http://"), "GET "+target+" HTTP/1.1\r\nHost: "+host+"\r\n"+lines+"Connection: close\r\n\r\n")
			}
		}
	}
	_, err = waiting.poll(g)
	require.NoError(t, err)
	g.kill() // all that it has written is there then, but for a last line that may be half one
	log := g.stderr.String()
	log = log[:strings.LastIndexByte(log, '\n')+1]
	for line := range strings.Lines(log) {
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &record), "%q", line)
		require.NotEqual(t, "faked", record["msg"])
		require.NotContains(t, strings.TrimSuffix(line, "\n"), "\x1b")
	}
	for what, secret := range map[string]string{"the ticket": waiting.ticket, "the pass": holder.pass, "the end of the pass": holder.pass[len(holder.pass)-40:]} {
		require.NotContains(t, log, secret, what)
	}
}

// TestHalfClosedConnectionIsAClientThatLeft: net/http tells it so; the shop is told
// at once, and what the request held is free.
func TestHalfClosedConnectionIsAClientThatLeft(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1, max_in_flight: 2")})
	g := f.gates[0]
	holder := newApp(t)
	holder.enter(t, g)
	told := make(chan struct{}, 1)
	f.shop.behave(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		f.shop.hang(w, r)
		select {
		case told <- struct{}{}:
		case <-f.shop.free:
		}
	})
	for range 5 { // more than are let to the shop at once
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		before := len(f.shop.got("/checkout/order"))
		_, err = fmt.Fprintf(conn, "POST /checkout/order HTTP/1.1\r\nHost: h\r\nX-Entry-Token: %s\r\nContent-Length: 2\r\n\r\nhi", holder.pass)
		require.NoError(t, err)
		eventually(t, "the request is at the shop", func() bool { return len(f.shop.got("/checkout/order")) > before })
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		soon(t, told, "the end, at the shop")
		_, _ = io.Copy(io.Discard, conn)
		require.NoError(t, conn.Close())
	}
	f.shop.behave(nil)
	eventually(t, "the pass is as good as before", func() bool {
		got, err := holder.order(g)
		return err == nil && got.code == http.StatusCreated
	})
}

// TestPagesOfOtherSitesSeeAndChangeNothing: whatever a page of another site makes
// a visitor's browser send, with the visitor's cookies.
func TestPagesOfOtherSitesSeeAndChangeNothing(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), more: "cors: {allow_origins: [\"https://www.shop.example\"]}"})
	g := f.gates[0]
	newApp(t).enter(t, g)
	victim := newApp(t)
	_, err := victim.join(g, nil)
	require.NoError(t, err)
	cookie := "queuegate_ticket_checkout=" + victim.ticket
	for _, from := range []map[string]string{
		{"Origin": "https://evil.test", "Sec-Fetch-Site": "cross-site"},
		{"Origin": "https://evil.test"},
		{"Origin": "null", "Sec-Fetch-Site": "cross-site"},
		{"Origin": "https://www.shop.example.evil.test"},
		{"Origin": "http://www.shop.example", "Sec-Fetch-Site": "cross-site"},
		{"Sec-Fetch-Site": "cross-site"},
	} {
		from["Cookie"] = cookie
		for _, change := range []string{"POST /join", "DELETE ", "POST /release"} {
			method, path, _ := strings.Cut(change, " ")
			from["Content-Type"] = "text/plain"
			got := mustSend(t, newClient(t), request{method: method, url: g.url + "/_queue/checkout" + path, header: from})
			require.Equal(t, http.StatusForbidden, got.code, "%s %v", change, from)
			require.Empty(t, got.header.Get("Set-Cookie"))
		}
		if from["Origin"] == "" {
			continue // a browser names the origin of whatever could read an answer
		}
		for name, more := range map[string]map[string]string{
			"/events": {"Accept": "text/event-stream"},
			"/ws":     {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="},
		} {
			header := map[string]string{"Cookie": cookie, "Origin": from["Origin"]}
			for k, v := range more {
				header[k] = v
			}
			got := mustSend(t, newClient(t), request{method: "GET", url: g.url + "/_queue/checkout" + name, header: header})
			require.Equal(t, http.StatusForbidden, got.code, "%s %v", name, from)
		}
		got := mustSend(t, newClient(t), request{method: "GET", url: g.url + "/_queue/checkout/status", header: from})
		require.Empty(t, got.header.Get("Access-Control-Allow-Origin"), "%v", from)
		require.Contains(t, got.header.Get("Vary"), "Origin")
	}
	for _, path := range []string{"/join", "/release"} {
		require.Equal(t, http.StatusMethodNotAllowed, mustSend(t, newClient(t), request{method: "GET", url: g.url + "/_queue/checkout" + path, header: map[string]string{"Cookie": cookie}}).code)
	}
	require.EqualValues(t, 1, *victim.waits(t, g).doc.Position)
}

// TestStopUnderLoadFailsNobody: people shop, poll and send slowly while the gate is
// told to stop; the balancer looks at readiness and moves them elsewhere.
func TestStopUnderLoadFailsNobody(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), more: "shutdown: {drain_delay: 15s, grace: 80s}"})
	g := f.gates[0]
	holder := newApp(t)
	holder.enter(t, g)
	var moved atomic.Bool
	var served atomic.Int64
	crowd := make(chan error, 1)
	go func() {
		crowd <- all(12, func(i int) error {
			who := newApp(t)
			if i%2 == 0 {
				who.pass = holder.pass
			}
			for !moved.Load() && t.Context().Err() == nil {
				got, err := who.open(g)
				if err != nil {
					return err
				}
				if want := map[bool]int{true: 200, false: 429}[i%2 == 0]; got.code != want {
					return fmt.Errorf("%d instead of %d: %s", got.code, want, got.body)
				}
				served.Add(1)
			}
			return nil
		})
	}()
	const uploads = 10
	rest := make(chan struct{})
	sent := make(chan error, uploads)
	for range uploads {
		body, pipe := io.Pipe()
		go func() {
			_, _ = io.WriteString(pipe, "half")
			select {
			case <-rest:
			case <-t.Context().Done():
			}
			_, _ = io.WriteString(pipe, " and half")
			_ = pipe.Close()
		}()
		go func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/checkout/upload", body)
			if err != nil {
				sent <- err
				return
			}
			req.Header.Set("X-Entry-Token", holder.pass)
			resp, err := holder.client.Do(req)
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusCreated {
					err = fmt.Errorf("an upload got %d", resp.StatusCode)
				}
			}
			sent <- err
		}()
	}
	eventually(t, "all uploads have begun and people are served", func() bool {
		return len(f.shop.got("/checkout/upload")) == uploads && served.Load() > 100
	})
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "readiness fails", func() bool {
		a, err := send(newClient(t), request{method: "GET", url: g.admin + "/readyz"})
		return err == nil && a.code == http.StatusServiceUnavailable
	})
	moved.Store(true)
	require.NoError(t, soon(t, crowd, "the end of the last requests"))
	eventually(t, "nothing new is accepted", func() bool {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
		if err == nil {
			_ = conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	close(rest)
	for range uploads {
		require.NoError(t, soon(t, sent, "the answer to an upload"))
	}
	require.Zero(t, g.exit(t), g.stderr)
	require.NotContains(t, g.stderr.String(), `"level":"ERROR"`)
}
