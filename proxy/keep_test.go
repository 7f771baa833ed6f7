package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
)

// renewals are the renewals that the line has seen so far.
func (l *fakeLine) renewals(flight bool) (list []queue.Holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, h := range l.holdings {
		if l.kinds[i] == "renew" && (h.Flight > 0) == flight {
			list = append(list, h)
		}
	}
	return list
}

func TestRequestInFlightKeepsItsSlotAlsoWithRenewalOff(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].Line.(*fakeLine).settings.DisableRenewal = true })
	token := b.admit()
	b.line.advance(b.line.session - 200*time.Millisecond)
	b.shop.does(func(_ shopRequest, conn net.Conn) {
		require.Eventually(t, func() bool { return len(b.line.renewals(true)) > 0 }, soon, time.Millisecond)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	require.Equal(t, http.StatusOK, b.call("POST", "/order", "", "X-Entry-Token: "+token).StatusCode)
	require.NotEmpty(t, b.line.renewals(true)[0].Admission)
	require.Empty(t, b.line.renewals(false), "the session itself is not renewed")
}

func TestQuickRequestDoesNotRenewItsSlot(t *testing.T) {
	b := newBench(t)
	token := b.admit()
	require.Equal(t, http.StatusOK, b.call("GET", "/order", "", "X-Entry-Token: "+token).StatusCode)
	require.Empty(t, b.line.renewals(true))
}

func TestSocketKeepsItsSlotByWhatTheClientSays(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].Line.(*fakeLine).settings.Session = 200 * time.Millisecond })
	token := b.admit()
	upgrade := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	b.shop.does(func(_ shopRequest, conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, raw("GET", "/order/live", "", append(upgrade, "X-Entry-Token: "+token)...))
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	before := len(b.line.renewals(false))
	require.Eventually(t, func() bool {
		_, _ = io.WriteString(conn, "hello")
		return len(b.line.renewals(false)) > before
	}, soon, 10*time.Millisecond)
	require.Empty(t, b.line.renewals(true), "an open connection is not work in flight")
}

func TestPassOfALostEpochIsRegisteredAgain(t *testing.T) {
	b := newBench(t)
	token := b.admit()
	b.line.take()
	b.line.change(func() { b.line.epoch = 2 })
	got := b.call("GET", "/order", "", "X-Entry-Token: "+token)
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Equal(t, []string{"claim"}, b.line.take())
	pass, err := b.passes.Verify(got.Header.Get("X-Entry-Token"), "sale")
	require.NoError(t, err)
	require.EqualValues(t, 2, pass.Epoch)
}
