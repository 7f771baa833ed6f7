package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// relay stands between a gate and Redis and can spoil each reply.
type relay struct {
	net.Listener
	mu    sync.Mutex
	spoil func(reply []byte) []byte // nil: nothing is spoilt
}

func newRelay(t testing.TB, store *queuetest.Server) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	r := &relay{Listener: ln}
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go r.serve(client, store.Addr)
		}
	}()
	return r
}

func (r *relay) url() string { return "redis://" + r.Addr().String() }

func (r *relay) do(spoil func([]byte) []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoil = spoil
}

func (r *relay) serve(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buffer := make([]byte, 256<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		r.mu.Lock()
		spoil := r.spoil
		r.mu.Unlock()
		reply := buffer[:n]
		if spoil != nil {
			reply = spoil(reply)
		}
		if _, err := client.Write(reply); err != nil {
			return
		}
	}
}

// says makes Redis refuse every command in its own words.
func says(text string) func(*relay) {
	return func(r *relay) { r.do(func([]byte) []byte { return []byte("-" + text + "\r\n") }) }
}

// waits is how long each request since an offset of the log waited for Redis.
func (g *gate) waits(t testing.TB, from int) (list []float64) {
	t.Helper()
	for line := range strings.Lines(g.stderr.String()[from:]) {
		var record struct {
			Msg   string  `json:"msg"`
			Redis float64 `json:"redis_s"`
		}
		if json.Unmarshal([]byte(line), &record) == nil && record.Msg == "request" && record.Redis > 0 {
			list = append(list, record.Redis)
		}
	}
	return list
}

func TestRedisTroubleAtTheDoor(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct {
		begin func(*relay)
		quick bool // Redis itself says it, which costs no wait
	}{
		"gone silent": {begin: func(r *relay) { r.do(func([]byte) []byte { return nil }) }},
		"slow": {begin: func(r *relay) {
			r.do(func(reply []byte) []byte {
				<-time.After(2 * time.Second)
				return reply
			})
		}},
		"cutting every connection": {begin: func(r *relay) { r.do(func([]byte) []byte { return []byte("\x00\r\n") }) }},
		"out of memory":            {says("OOM command not allowed when used memory > 'maxmemory'."), true},
		"a replica":                {says("READONLY You can't write against a read only replica."), true},
		"loading":                  {says("LOADING Redis is loading the dataset in memory"), true},
		"busy":                     {says("BUSY Redis is busy running a script."), true},
		"without its master":       {says("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), true},
		"without enough replicas":  {says("NOREPLICAS Not enough good replicas to write."), true},
		"a cluster that is down":   {says("CLUSTERDOWN The cluster is down"), true},
		"of another password":      {says("NOAUTH Authentication required."), true},
		"of fewer rights":          {says("NOPERM this user has no permissions to run the 'evalsha' command"), true},
		"with keys of others":      {says("WRONGTYPE Operation against a key holding the wrong kind of value"), true},
		"full of clients":          {says("ERR max number of clients reached"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop, store := newRecordingShop(t), queuetest.Start(t)
			r := newRelay(t, store)
			g := startGate(t, writeConfig(t, plan{rooms: outageRooms, timeout: "500ms"}, shop.URL, r.url()))
			g.waitReady(t)
			inside := map[string]*app{}
			for _, room := range []string{"closed", "open", "strict"} {
				a := newApp(t)
				a.room, a.path = room, "/"+room
				eventually(t, "one is inside "+room, func() bool {
					_, _ = a.join(g, nil)
					got, err := a.open(g)
					return err == nil && got.code == http.StatusOK && a.pass != ""
				})
				inside[room] = a
			}
			client := newClient(t)
			eventually(t, "strict sees the trouble", func() bool {
				trouble.begin(r)
				got, err := inside["strict"].open(g)
				return err == nil && got.code == http.StatusServiceUnavailable
			})
			offset := len(g.stderr.String())
			asNobody := map[string]int{"/closed": 503, "/open": 200, "/strict": 503, "/about": 200}
			for range 3 {
				for path, code := range asNobody {
					before := len(shop.got(path))
					got := mustSend(t, client, request{method: "POST", url: g.url + path, header: map[string]string{"X-Probe": "nobody"}})
					require.Equal(t, code == 503, got.code == 503, "%s: %d %s", path, got.code, got.body)
					require.Equal(t, code == 200, len(shop.got(path)) > before, "%s reaches the shop", path)
					if code == 503 {
						require.Regexp(t, `^[1-9]\d*$`, got.header.Get("Retry-After"))
						require.Equal(t, "degraded", got.doc.RoomState)
					}
				}
				for room, code := range map[string]int{"closed": 201, "open": 201, "strict": 503} {
					got, err := inside[room].order(g)
					require.NoError(t, err)
					require.Equal(t, code, got.code, "admitted in %s", room)
				}
			}
			// A busy machine is late by itself; without the bound it is 2 s, or never.
			for _, seconds := range g.waits(t, offset) {
				require.Less(t, seconds, 1.5)
			}
			if !trouble.quick {
				offset = len(g.stderr.String())
				require.NoError(t, all(40, func(int) error {
					_, err := send(client, request{method: "POST", url: g.url + "/closed"})
					return err
				}))
				long := 0
				for _, seconds := range g.waits(t, offset) {
					if seconds > 0.4 {
						long++
					}
				}
				require.Less(t, long, 20, "every request waits for a Redis that is silent")
			}

			r.do(nil)
			began := time.Now()
			newcomer := newApp(t)
			newcomer.room, newcomer.path = "closed", "/closed"
			eventually(t, "newcomers are served again without a restart", func() bool {
				got, err := newcomer.join(g, nil)
				return err == nil && (got.doc.Status == "waiting" || got.doc.Status == "ready")
			})
			t.Logf("served again after %s", time.Since(began).Round(time.Millisecond))
			eventually(t, "strict lets its people in again", func() bool {
				got, err := inside["strict"].open(g)
				return err == nil && got.code == http.StatusOK
			})
		})
	}
}

func TestForgottenScriptsAreNotNoticed(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 50")})
	rdb := f.redis.Client(t)
	for range 10 {
		require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
		newApp(t).enter(t, f.gates[0])
	}
}

func TestWireOfTheBinary(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1")})
	g := f.gates[0]
	newApp(t).enter(t, g)
	talk := func(bytes string) (status string, closed bool) {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(conn, bytes)
		require.NoError(t, err)
		head := make([]byte, 4096)
		n, err := io.ReadAtLeast(conn, head, 12)
		require.NoError(t, err)
		return string(head[9:12]), strings.Contains(string(head[:n]), "Connection: close")
	}
	const host = "Host: shop.test\r\n"
	long := strings.Repeat("a", 9<<10)
	for _, tc := range []struct {
		name, bytes, status string
		closed, reaches     bool
	}{
		{"a target of 9 KiB", "GET /checkout?" + long + " HTTP/1.1\r\n" + host + "\r\n", "414", true, false},
		{"a target of 9 KiB that nobody protects", "GET /?" + long + " HTTP/1.1\r\n" + host + "\r\n", "414", true, false},
		{"a head of 64 KiB", "GET /wire/1 HTTP/1.1\r\n" + host + "Cookie: " + strings.Repeat("a", 64<<10) + "\r\n\r\n", "431", true, false},
		{"a head of 16 KiB", "GET /wire/2 HTTP/1.1\r\n" + host + "Cookie: " + strings.Repeat("a", 16<<10) + "\r\n\r\n", "200", false, true},
		{"two lengths of a body", "POST /wire/3 HTTP/1.1\r\n" + host + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "201", true, true},
		{"another host's address", "GET http://127.0.0.1:1/wire/4 HTTP/1.1\r\n" + host + "\r\n", "200", false, true},
		{"the address of a machine's secrets", "GET /wire/5 HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n", "200", false, true},
		{"the administration", "GET /wire/../api/rooms HTTP/1.1\r\n" + host + "\r\n", "200", false, true},
		{"the numbers", "GET /metrics HTTP/1.1\r\n" + host + "\r\n", "200", false, true},
		{"the profiles", "GET /debug/pprof/ HTTP/1.1\r\n" + host + "\r\n", "200", false, true},
		{"an offer of h2c", "GET /wire/6 HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "200", false, true},
		{"h2c to the room", "GET /checkout HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", "429", false, false},
		{"a WebSocket to the room", "GET /checkout/live HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "429", false, false},
	} {
		before := len(f.shop.got(""))
		status, closed := talk(tc.bytes)
		require.Equal(t, tc.status, status, tc.name)
		require.Equal(t, tc.closed, closed, tc.name)
		require.Equal(t, tc.reaches, len(f.shop.got("")) > before, tc.name)
	}
	for _, r := range f.shop.got("") {
		for name := range r.Header {
			require.NotContains(t, []string{"Upgrade", "Http2-Settings"}, name)
		}
	}
}

func TestManyWithoutALimitAndFewWithOne(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), more: "join_limit: {per_minute: 5}\ncors: {allow_origins: [\"https://www.shop.example\"]}"})
	g := f.gates[0]
	newApp(t).enter(t, g)
	client := newClient(t)
	served := 0
	for range 10 {
		a := mustSend(t, client, request{method: "POST", url: g.url + "/_queue/checkout/join", header: map[string]string{"X-Forwarded-For": fmt.Sprintf("192.0.2.%d", served)}})
		if a.code == http.StatusOK {
			served++
			continue
		}
		require.Equal(t, http.StatusTooManyRequests, a.code)
		require.Equal(t, "urn:queuegate:problem:join-limit", a.doc.Type)
		require.Regexp(t, `^[1-9]\d*$`, a.header.Get("Retry-After"))
	}
	require.GreaterOrEqual(t, served, 3)
	require.Less(t, served, 10)
	page := mustSend(t, client, request{method: "GET", url: g.url + "/checkout", header: browse()})
	require.Equal(t, http.StatusTooManyRequests, page.code)
	require.True(t, bytes.Contains(page.body, []byte("from the same network as you")) || bytes.Contains(page.body, []byte(`data-state="waiting"`)))

	from := map[string]string{"Origin": "https://www.shop.example", "Sec-Fetch-Site": "cross-site", "Access-Control-Request-Method": "POST"}
	asked := mustSend(t, client, request{method: "OPTIONS", url: g.url + "/_queue/checkout/join", header: from})
	require.Equal(t, http.StatusNoContent, asked.code)
	require.Equal(t, "https://www.shop.example", asked.header.Get("Access-Control-Allow-Origin"))
	from["Origin"] = "https://evil.test"
	require.Empty(t, mustSend(t, client, request{method: "OPTIONS", url: g.url + "/_queue/checkout/join", header: from}).header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, http.StatusForbidden, mustSend(t, client, request{method: "POST", url: g.url + "/_queue/checkout/join", header: from}).code)
}
