//go:build chaos

package main_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// About a minute: ten thousand people leave in the middle of a request.
func TestTenThousandAbortsLeaveNothingBehind(t *testing.T) {
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 5")})
	g := f.gates[0]
	f.shop.behave(streamingShop)
	holder := newApp(t)
	holder.enter(t, g)
	files := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
		require.NoError(t, err)
		return len(list)
	}
	threads := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", g.cmd.Process.Pid))
		require.NoError(t, err)
		return len(list)
	}
	before := files()
	require.NoError(t, all(50, func(n int) error {
		for i := range 200 {
			conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
			if err != nil {
				return err
			}
			path, upgrade := "/checkout/events", ""
			if i%2 == 0 {
				path, upgrade = "/checkout/live", "Connection: Upgrade\r\nUpgrade: websocket\r\n"
			}
			_, err = fmt.Fprintf(conn, "GET %s?%d-%d HTTP/1.1\r\nHost: x\r\nX-Entry-Token: %s\r\n%s\r\n", path, n, i, holder.pass, upgrade)
			if err == nil && i%3 != 0 {
				_, err = io.ReadFull(conn, make([]byte, 12))
			}
			if i%5 == 0 {
				_ = conn.(*net.TCPConn).SetLinger(0)
			}
			_ = conn.Close()
			if err != nil {
				return err
			}
		}
		return nil
	}))
	eventually(t, "descriptors are back", func() bool { return files() <= before+40 })
	t.Logf("%d descriptors before, %d after; %d threads", before, files(), threads())
	got, err := holder.open(g)
	require.NoError(t, err)
	require.Equal(t, 200, got.code)
}
