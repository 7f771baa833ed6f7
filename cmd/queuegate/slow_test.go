package main_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFloodOfSlowClientsDelaysNobodyAndEnds: hundreds who send heads and bodies a byte
// at a time, or read nothing, while a visitor comes in, orders and goes.
func TestFloodOfSlowClientsDelaysNobodyAndEnds(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 5")})
	g := f.gates[0]
	open := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
		require.NoError(t, err)
		return len(list)
	}
	holder := newApp(t)
	holder.enter(t, g)
	before := open()
	const crowd = 100
	post := fmt.Sprintf("POST /_queue/checkout/join HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 16<<10)
	ended := make(chan struct{}, 2*crowd)
	for i, kind := range []struct{ begin, more string }{
		{"GET /checkout HTTP/1.1\r\nHost: x\r\n", "X: y\r\n"},
		{post, " "},
		{strings.Repeat("GET /_queue/checkout?lang=en HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\nSec-Fetch-Mode: navigate\r\n\r\n", 20), "\n"},
	} {
		for range crowd {
			conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = io.WriteString(conn, kind.begin)
			require.NoError(t, err)
			if i == 2 { // ends when the test does, or half a minute later
				continue
			}
			go func() {
				for {
					select {
					case <-time.After(time.Second):
					case <-t.Context().Done():
						return
					}
					if _, err := io.WriteString(conn, kind.more); err != nil {
						ended <- struct{}{}
						return
					}
				}
			}()
		}
	}
	require.GreaterOrEqual(t, open(), before+2*crowd)
	for range 5 {
		visitor := newApp(t)
		visitor.enter(t, g)
		got, err := visitor.order(g)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, got.code)
		got, err = visitor.release(g)
		require.NoError(t, err)
		require.Equal(t, "released", got.doc.Status)
	}
	for range 2 * crowd {
		select {
		case <-ended:
		case <-time.After(patience):
			require.Fail(t, "a slow client is served for ever")
		}
	}
	got, err := holder.order(g)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.code)
}
