package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// broken is a listener that fails when told to.
type broken struct {
	net.Listener
	fail chan struct{}
}

var errBroken = errors.New("broken")

func (b broken) Accept() (net.Conn, error) {
	<-b.fail
	return nil, errBroken
}

func TestOneListenerThatFailsEndsBoth(t *testing.T) {
	for _, name := range []string{"public", "admin"} {
		t.Run(name, func(t *testing.T) {
			nothing := http.NotFoundHandler()
			s, err := NewServer(ServerOptions{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Public: nothing, Admin: nothing, DrainDelay: time.Hour, Grace: time.Minute})
			require.NoError(t, err)
			require.NoError(t, s.Listen())
			b := broken{fail: make(chan struct{})}
			if name == "public" {
				b.Listener = s.publicLn
				s.publicLn = b
			} else {
				b.Listener = s.adminLn
				s.adminLn = b
			}
			done := make(chan error, 1)
			go func() { done <- s.Serve(context.Background()) }()
			close(b.fail)
			select {
			case err := <-done:
				require.ErrorIs(t, err, errBroken)
				require.ErrorContains(t, err, "proxy: "+name+" listener:")
				require.True(t, s.Draining())
			case <-time.After(20 * time.Second):
				require.Fail(t, "the other one goes on")
			}
		})
	}
}

func TestTunnelThatEndsByItselfIsForgotten(t *testing.T) {
	var f flights
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	l := &listener{Listener: ln, running: &f}
	accept := func() *conn {
		client, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		c, err := l.Accept()
		require.NoError(t, err)
		return c.(*conn)
	}
	a, b, late := accept(), accept(), accept()
	for _, state := range []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateClosed} {
		f.watch(a, state)
	}
	require.Empty(t, f.endless, "only upgraded ones are kept")
	f.watch(a, http.StateHijacked)
	f.watch(b, http.StateHijacked)
	require.NoError(t, a.Close())
	require.Len(t, f.endless, 1)
	require.Equal(t, 1, f.endAll())
	require.Error(t, b.SetDeadline(time.Time{}), "closed")
	f.watch(late, http.StateHijacked)
	require.Error(t, late.SetDeadline(time.Time{}), "one that comes after the end is closed at once")
	require.Empty(t, f.endless)
}
