package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/queuegate/queuegate/proxy"
)

// soon bounds what a test waits for; nothing takes that long unless it fails.
const soon = time.Minute

// served is a running server.
type served struct {
	*proxy.Server
	t      *testing.T
	stop   context.CancelFunc
	result chan error
	client *http.Client
}

// serve starts a server on free ports; it must have ended when the test does,
// and leave no goroutine behind.
func serve(t *testing.T, o proxy.ServerOptions) *served {
	t.Helper()
	before := goleak.IgnoreCurrent()
	o.Listen = "127.0.0.1:0"
	if o.Admin != nil {
		o.AdminListen = "127.0.0.1:0"
	}
	s, err := proxy.NewServer(o)
	require.NoError(t, err)
	require.NoError(t, s.Listen())
	ctx, cancel := context.WithCancel(t.Context())
	transport := &http.Transport{}
	v := &served{Server: s, t: t, stop: cancel, result: make(chan error, 1), client: &http.Client{Transport: transport, Timeout: soon}}
	go func() { v.result <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		awaitEnds(before)
		goleak.VerifyNone(t, before)
	})
	return v
}

func (v *served) get(url string) (int, string) {
	v.t.Helper()
	r, err := v.client.Get(url)
	require.NoError(v.t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(v.t, err)
	return r.StatusCode, string(body)
}

func (v *served) ended() error {
	v.t.Helper()
	select {
	case err := <-v.result:
		return err
	case <-time.After(soon):
		require.Fail(v.t, "the server did not end")
		return nil
	}
}

func (v *served) waitDraining() {
	v.t.Helper()
	require.Eventually(v.t, v.Draining, soon, time.Millisecond)
}

func (v *served) dial() net.Conn {
	v.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(v.URL(), "http://"))
	require.NoError(v.t, err)
	require.NoError(v.t, c.SetDeadline(time.Now().Add(soon)))
	v.t.Cleanup(func() { _ = c.Close() })
	return c
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case x := <-c:
		return x
	case <-time.After(2 * soon): // longer than a request waits, whose error says more
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

func say(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
}

func TestServerServesBothListenersAndEndsCleanly(t *testing.T) {
	v := serve(t, proxy.ServerOptions{Public: say("shop"), Admin: say("admin"), Grace: soon})
	_, body := v.get(v.URL())
	require.Equal(t, "shop", body)
	_, body = v.get(v.AdminURL())
	require.Equal(t, "admin", body)
	require.False(t, v.Draining())
	v.stop()
	require.NoError(t, v.ended())
	require.True(t, v.Draining())
	_, err := net.Dial("tcp", strings.TrimPrefix(v.URL(), "http://"))
	require.Error(t, err, "nobody listens any more")
}

func TestServerWithoutAnAdminListener(t *testing.T) {
	v := serve(t, proxy.ServerOptions{Public: say("shop"), Grace: soon})
	require.Empty(t, v.AdminURL())
	_, body := v.get(v.URL())
	require.Equal(t, "shop", body)
	v.stop()
	require.NoError(t, v.ended())
}

func TestReadinessFlipsBeforeAnythingElseChanges(t *testing.T) {
	var v *served
	ready := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if v.Draining() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	v = serve(t, proxy.ServerOptions{Public: say("shop"), Admin: ready, DrainDelay: 4 * time.Second, Grace: soon})
	code, _ := v.get(v.AdminURL())
	require.Equal(t, http.StatusOK, code)
	began := time.Now()
	v.stop()
	v.waitDraining()
	code, _ = v.get(v.AdminURL())
	require.Equal(t, http.StatusServiceUnavailable, code)
	// A new connection, as a balancer that has not noticed yet would open one.
	c := v.dial()
	_, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.StatusCode)
	require.True(t, r.Close, "and is told to open the next one elsewhere")
	require.NoError(t, r.Body.Close())
	require.NoError(t, v.ended())
	require.GreaterOrEqual(t, time.Since(began), 4*time.Second)
}

func TestRequestInFlightFinishesWithinTheGrace(t *testing.T) {
	entered, finish := make(chan struct{}), make(chan struct{})
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		close(entered)
		<-finish
		fmt.Fprintf(w, "took %s", body)
	})
	v := serve(t, proxy.ServerOptions{Public: slow, Admin: say("admin"), Grace: soon})
	answer := make(chan string, 1)
	go func() {
		r, err := v.client.Post(v.URL(), "text/plain", strings.NewReader("order"))
		if err != nil {
			answer <- err.Error()
			return
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		answer <- string(body)
	}()
	receive(t, entered)
	v.stop()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(v.URL(), "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, soon, time.Millisecond, "new connections are refused")
	_, body := v.get(v.AdminURL())
	require.Equal(t, "admin", body, "operators can still look")
	select {
	case err := <-v.result:
		require.Fail(t, "ended before the request", "%v", err)
	default:
	}
	close(finish)
	require.Equal(t, "took order", receive(t, answer))
	require.NoError(t, v.ended())
}

func TestRequestThatOutlastsTheGraceIsCut(t *testing.T) {
	entered := make(chan struct{})
	var gaveBack atomic.Bool
	stuck := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		gaveBack.Store(true)
		panic(http.ErrAbortHandler) // as a proxied answer that stops halfway does
	})
	v := serve(t, proxy.ServerOptions{Public: stuck, Grace: 10 * time.Millisecond})
	failed := make(chan error, 1)
	go func() {
		r, err := v.client.Get(v.URL())
		if err == nil {
			_ = r.Body.Close()
		}
		failed <- err
	}()
	receive(t, entered)
	v.stop()
	require.ErrorIs(t, v.ended(), proxy.ErrCut)
	require.True(t, gaveBack.Load(), "the request was told and waited for")
	require.Error(t, receive(t, failed))
}

// Shutdown of net/http returns at once with a live WebSocket that goes on
// working (https://github.com/golang/go/issues/17721).
func TestUpgradedConnectionsAreClosedAtTheEnd(t *testing.T) {
	var handlers atomic.Int32
	echo := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		handlers.Add(1)
		defer handlers.Add(-1)
		if w.Header().Get("Connection") != "" {
			return // would be sent along with the upgrade and spoil it
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		_, _ = io.Copy(c, rw)
	})
	v := serve(t, proxy.ServerOptions{Public: echo, DrainDelay: 4 * time.Second, Grace: soon})
	open := func() (net.Conn, *bufio.Reader) {
		c := v.dial()
		_, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		require.NoError(t, err)
		r := bufio.NewReader(c)
		answer, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
		require.Equal(t, "Upgrade", answer.Header.Get("Connection"))
		return c, r
	}
	talk := func(c net.Conn, r *bufio.Reader) {
		_, err := fmt.Fprintln(c, "hello")
		require.NoError(t, err)
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
	}
	c1, r1 := open()
	talk(c1, r1)
	gone, _ := open()
	require.NoError(t, gone.Close()) // one that ended by itself is forgotten
	v.stop()
	v.waitDraining()
	talk(c1, r1)
	c2, r2 := open()
	talk(c2, r2)
	require.NoError(t, v.ended(), "closing tunnels is a clean end")
	for _, r := range []*bufio.Reader{r1, r2} {
		_, err := r.ReadByte()
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.Zero(t, handlers.Load(), "their handlers were waited for")
}

func TestListenNamesTheAddressAndTheRemedy(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	addr := taken.Addr().String()
	for _, tt := range []struct {
		name, listen, admin string
		want                []string
	}{
		{"taken", addr, "", []string{`proxy: listen "` + addr + `"`, "another process listens there"}},
		{"admin taken", "127.0.0.1:0", addr, []string{`proxy: admin.listen "` + addr + `"`, "another process listens there"}},
		{"no port", "127.0.0.1", "", []string{`proxy: listen "127.0.0.1"`, "missing port", "host:port"}},
		{"no such port", ":99999", "", []string{`":99999"`, "invalid port"}},
		{"not ours", "192.0.2.1:0", "", []string{`"192.0.2.1:0"`, "does not have that address"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := proxy.NewServer(proxy.ServerOptions{Listen: tt.listen, AdminListen: tt.admin, Public: say(""), Admin: say("")})
			require.NoError(t, err)
			err = s.Listen()
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
			require.Empty(t, s.URL())
			require.Empty(t, s.AdminURL())
			require.ErrorIs(t, s.Serve(t.Context()), proxy.ErrNotListening)
		})
	}
}

func TestListenThatFailedLeavesNothingBound(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().String()
	require.NoError(t, free.Close())
	s, err := proxy.NewServer(proxy.ServerOptions{Listen: addr, AdminListen: taken.Addr().String(), Public: say(""), Admin: say("")})
	require.NoError(t, err)
	require.ErrorContains(t, s.Listen(), "admin.listen")
	again, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

func TestURLCanBeOpenedFromThisMachine(t *testing.T) {
	for listen, want := range map[string]string{":0": "http://127.0.0.1:", "0.0.0.0:0": "http://127.0.0.1:", "127.0.0.1:0": "http://127.0.0.1:"} {
		s, err := proxy.NewServer(proxy.ServerOptions{Listen: listen, Public: say("")})
		require.NoError(t, err)
		require.Empty(t, s.URL())
		require.NoError(t, s.Listen())
		require.True(t, strings.HasPrefix(s.URL(), want), s.URL())
		require.NotContains(t, s.URL(), ":0")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, s.Serve(ctx))
	}
}

func TestServerOptionsAreChecked(t *testing.T) {
	_, err := proxy.NewServer(proxy.ServerOptions{AdminListen: ":0", DrainDelay: -1, Grace: -time.Second})
	for _, want := range []string{"listen: must not be empty", "Public must not be nil", "Admin must not be nil", "shutdown.drain_delay", "shutdown.grace: must not be negative (is -1s)"} {
		require.ErrorContains(t, err, want)
	}
}

func TestOnlyHTTP1IsSpoken(t *testing.T) {
	v := serve(t, proxy.ServerOptions{Public: say("shop"), Grace: soon})
	c := v.dial()
	_, err := fmt.Fprint(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	require.NoError(t, err)
	answer, _ := io.ReadAll(c)
	require.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 "), "%q", answer)
	v.stop()
	require.NoError(t, v.ended())
}

func TestHeadOfARequestIsBounded(t *testing.T) {
	v := serve(t, proxy.ServerOptions{Public: say("shop"), Grace: soon})
	request := func(n int) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.URL(), nil)
		require.NoError(t, err)
		r.Header.Set("Cookie", strings.Repeat("a", n))
		answer, err := v.client.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	require.Equal(t, http.StatusOK, request(24<<10), "a shop's cookies fit")
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, request(64<<10))
	v.stop()
	require.NoError(t, v.ended())
}
