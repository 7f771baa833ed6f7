package main_test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

// One fleet, and what goes wrong around it: connections that break before the
// answer, a Redis without memory, a file that one gate has and the others have
// not, and all gates gone at once.
func TestMishapsCostNobodyPlaceOrSlot(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 2")})
	here, there := f.gates[0], f.gates[1]
	rdb := f.redis.Client(t)
	slots := func() int64 { return rdb.ZCard(t.Context(), "qg:{checkout}:slots").Val() }
	inside := []*app{newApp(t), newApp(t)}
	for _, a := range inside {
		a.enter(t, here)
	}
	line := make([]*app, 8)
	for i := range line {
		line[i] = newApp(t)
		_, err := line[i].join(f.gates[i%2], nil)
		require.NoError(t, err)
		line[i].waits(t, f.gates[1-i%2])
	}
	order := func(g *gate) {
		t.Helper()
		for i, a := range line {
			require.EqualValues(t, i+1, *a.waits(t, g).doc.Position)
		}
	}

	t.Run("answers that never arrive", func(t *testing.T) {
		first := line[0]
		line = line[1:]
		_, err := inside[0].release(here)
		require.NoError(t, err)
		for range 5 { // the poll that says that it is the turn
			hangUp(t, there, "/_queue/checkout/status", "X-Queue-Ticket: "+first.ticket)
		}
		first.await(t, there)
		admission := passOf(t, first.pass).Admission
		for range 20 { // the request that takes the pass up
			hangUp(t, here, "/checkout", "X-Entry-Token: "+first.pass)
		}
		require.EqualValues(t, 2, slots())
		got, err := first.open(there)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.code, "the turn is not used up by an answer that nobody got")
		require.Equal(t, admission, passOf(t, first.pass).Admission)
		require.Equal(t, token.Active, passOf(t, first.pass).Stage)
		require.EqualValues(t, 2, slots())
		order(here)
		inside[0] = first
	})

	t.Run("redis has no memory left", func(t *testing.T) {
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1mb").Err())
		for _, g := range f.gates {
			page := mustSend(t, newClient(t), request{method: "GET", url: g.url + "/checkout", header: browse()})
			require.Equal(t, http.StatusServiceUnavailable, page.code)
			require.NotEmpty(t, page.header.Get("Retry-After"))
			newcomer := newApp(t)
			got, err := newcomer.join(g, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusServiceUnavailable, got.code)
			require.NotEmpty(t, got.header.Get("Retry-After"))
			require.Empty(t, newcomer.pass, "no pass that Redis does not know")
			got, err = inside[0].order(g)
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, got.code, "the admitted go on")
			got, err = line[0].poll(g)
			require.NoError(t, err)
			require.Equal(t, "degraded", got.doc.RoomState)
			require.EqualValues(t, 1, *got.doc.Position)
		}
		last := line[len(line)-1]
		got, err := last.send(request{method: "DELETE", url: here.url + "/_queue/checkout"})
		require.NoError(t, err)
		require.Equal(t, "left", got.doc.Status, "leaving frees memory, and works")
		line = line[:len(line)-1]
		require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		require.Eventually(t, func() bool {
			got, err := line[0].poll(there)
			return err == nil && got.doc.RoomState == "open"
		}, patience, lookIn, "the line answers again")
		order(there)
		require.EqualValues(t, 2, slots())
	})

	t.Run("one gate has another file", func(t *testing.T) {
		text, err := os.ReadFile(f.config)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "other.yaml")
		changed := strings.Replace(string(text), "total_active_users: 2", "total_active_users: 2, queue_all: true", 1)
		require.NoError(t, os.WriteFile(file, []byte(changed), 0o600))
		other := startGate(t, file)
		other.waitReady(t)
		said := func(state string, gates ...*gate) {
			t.Helper()
			for _, g := range append(gates, here, there) {
				require.Eventually(t, func() bool {
					got, err := send(newClient(t), request{method: "GET", url: g.url + "/_queue/checkout/status"})
					return err == nil && got.doc.RoomState == state
				}, patience, lookIn, "all gates agree that the room is %s", state)
			}
		}
		said("queue_all", other)
		other.kill()
		again := startGate(t, f.config)
		again.waitReady(t)
		said("open", again)
		again.kill()
	})

	t.Run("all gates at once", func(t *testing.T) {
		for _, g := range f.gates {
			g.kill()
			g.url = ""
		}
		for _, g := range f.gates {
			g.start(t)
			g.waitReady(t)
		}
		order(here)
		require.EqualValues(t, 2, slots())
		for _, a := range inside {
			got, err := a.order(there)
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, got.code, "%s", got.body)
		}
		for _, key := range rdb.Keys(t.Context(), "*").Val() {
			require.Equal(t, time.Duration(-1), rdb.TTL(t.Context(), key).Val(), "%s is no lock of a gate, and no lease by TTL", key)
			require.True(t, strings.HasPrefix(key, "qg:{checkout}:"), key)
		}
	})
}

// hangUp sends a request and closes the connection without reading the answer.
func hangUp(t *testing.T, g *gate, target, header string) {
	t.Helper()
	u, err := url.Parse(g.url)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n%s\r\n\r\n", target, u.Host, header)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}
