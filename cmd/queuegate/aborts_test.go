package main_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAThousandAbortsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	leaveInTheMiddle(t, 1000)
}

// leaveInTheMiddle has n people leave in the middle of a request, each in one of
// many ways, and looks for what stays behind of them in the gate.
func leaveInTheMiddle(t *testing.T, n int) {
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 5"), more: "h2c: true"})
	g, quiet := f.gates[0], f.gates[1]
	f.shop.behave(streamingShop)
	holder := newApp(t)
	holder.enter(t, g)
	files := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
		require.NoError(t, err)
		return len(list)
	}
	before := files()
	const hands = 50
	require.NoError(t, all(hands, func(hand int) error {
		for i := range n / hands {
			if err := g.abort(holder.pass, hand, i); err != nil {
				return err
			}
		}
		return nil
	}))
	for range 5 { // over HTTP/2, where the connection outlives them
		c := dialH2(t, g.url)
		for i := range n / 50 {
			path, ended := "/checkout/events", i%2 == 0
			if !ended {
				path = "/upload"
			}
			id := c.begin(ended, to("POST", path, "x-entry-token", holder.pass)...)
			if i%3 == 0 && ended {
				c.await("the answer", func() bool { return len(c.streams[id].heads) > 0 || c.streams[id].ended != "" })
			}
			c.reset(id)
		}
		c.close()
	}
	holder.client.CloseIdleConnections()
	eventually(t, "descriptors are back", func() bool {
		f.shop.CloseClientConnections() // those that are kept for the next request
		return files() <= before
	})
	got, err := holder.open(g)
	require.NoError(t, err)
	require.Equal(t, 200, got.code, "the pass is as good as before")
	holder.client.CloseIdleConnections()
	f.shop.CloseClientConnections()
	after, base := g.goroutines(t), quiet.goroutines(t)
	t.Logf("%d descriptors before; %d goroutines, %d in a gate where nobody was", before, after, base)
	require.LessOrEqual(t, after, base+10)
}

// abort opens a request on a connection of its own and leaves.
func (g *gate) abort(pass string, hand, i int) error {
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	line, more := "GET /checkout/events", ""
	switch i % 4 {
	case 0:
		line, more = "GET /checkout/live", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	case 1:
		line, more = "POST /checkout/order", "Content-Length: 100\r\n" // half of the body
	}
	_, err = fmt.Fprintf(conn, "%s?%d-%d HTTP/1.1\r\nHost: x\r\nX-Entry-Token: %s\r\n%s\r\nhalf", line, hand, i, pass, more)
	if err == nil && i%3 != 0 && i%4 != 1 {
		_, err = io.ReadFull(conn, make([]byte, 12))
	}
	if i%5 == 0 {
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
	return err
}

// goroutines ends a gate by the signal at which Go writes down what runs, and
// counts that.
func (g *gate) goroutines(t *testing.T) int {
	t.Helper()
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGQUIT))
	g.exit(t)
	return strings.Count(g.stderr.String(), "\ngoroutine ")
}
