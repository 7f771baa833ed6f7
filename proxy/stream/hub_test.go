package stream_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/stream"
)

// talker tells the same at every look.
type talker struct {
	data  []byte
	looks atomic.Int64
	heard atomic.Int64
}

func (f *talker) Next(_ time.Time, _ bool, dst []stream.Message) []stream.Message {
	f.looks.Add(1)
	return append(dst, stream.Message{Event: stream.Update, Data: f.data})
}
func (f *talker) Heard() { f.heard.Add(1) }
func (f *talker) Goodbye(after time.Duration) stream.Message {
	return stream.Message{Event: stream.Closed, Data: []byte(`{"a":1}`), Last: true, After: after}
}

// serve runs a hub whose streams follow f.
func serve(t *testing.T, hub *stream.Hub, f *talker) *httptest.Server {
	server := httptest.NewServer(serving(hub, f))
	t.Cleanup(server.Close)
	t.Cleanup(hub.Close)
	return server
}

// serving opens a stream for every request.
func serving(hub *stream.Hub, f *talker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := hub.Open(r.URL.Path, f)
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.ServeEvents(w, r, stream.Message{Event: stream.Update, Data: []byte(`{"first":1}`)})
	})
}

func TestWhoDoesNotReadIsDroppedAndDelaysNobody(t *testing.T) {
	t.Parallel()
	quota := stream.NewQuota(10)
	hub := stream.NewHub(quota, nil)
	f := &talker{data: append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), 1<<20)...), `"}`...)}
	server := serve(t, hub, f)
	slow, err := http.Get(server.URL + "/slow")
	require.NoError(t, err)
	defer slow.Body.Close()
	require.Eventually(t, func() bool { return quota.Open() == 0 }, time.Minute, 10*time.Millisecond, "who does not read is kept")
}

func TestAStreamBeyondAVisitorsShareReplacesTheOldest(t *testing.T) {
	t.Parallel()
	hub := stream.NewHub(stream.NewQuota(100), nil)
	server := serve(t, hub, &talker{data: []byte(`{"a":1}`)})
	oldest, err := http.Get(server.URL + "/one")
	require.NoError(t, err)
	defer oldest.Body.Close()
	other, err := http.Get(server.URL + "/other")
	require.NoError(t, err)
	defer other.Body.Close()
	for range 8 {
		resp, err := http.Get(server.URL + "/one")
		require.NoError(t, err)
		defer resp.Body.Close()
	}
	text, err := io.ReadAll(oldest.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "event: closed\n")
	require.Contains(t, string(text), "retry: ")
	line, err := bufio.NewReader(other.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "event: update\n", line)
}

// open reads the stream of a server over a transport until stop.
func open(t *testing.T, client *http.Client, address string) (next func() string, body io.Closer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a stream never ends by itself
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	resp, err := client.Do(r)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	lines := bufio.NewReader(resp.Body)
	return func() string {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		return line
	}, resp.Body
}

// overTLS runs a hub behind TLS, with HTTP/2 if both sides can.
func overTLS(t *testing.T, hub *stream.Hub, f *talker, http2 bool) *httptest.Server {
	server := httptest.NewUnstartedServer(serving(hub, f))
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(hub.Close)
	return server
}

func TestStreamsOverTLSAndHTTP2TellAndEnd(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quota := stream.NewQuota(10)
			hub := stream.NewHub(quota, nil)
			server := overTLS(t, hub, &talker{data: []byte(`{"a":1}`)}, http2)
			next, body := open(t, server.Client(), server.URL+"/one")
			require.Equal(t, "event: update\n", next())
			require.Equal(t, "data: {\"first\":1}\n", next())
			for next() != "data: {\"a\":1}\n" {
			}
			gone, left := open(t, server.Client(), server.URL+"/leaves")
			gone()
			require.Equal(t, 2, quota.Open())
			require.NoError(t, left.Close())
			require.Eventually(t, func() bool { return quota.Open() == 1 }, time.Minute, 10*time.Millisecond, "who left is kept")
			hub.Close()
			for next() != "event: closed\n" {
			}
			next()
			_, err := io.Copy(io.Discard, body.(io.Reader))
			require.NoError(t, err, "the end is told")
			require.Zero(t, quota.Open())
		})
	}
}

// A thousand bytes more than any buffer holds are told to somebody who reads nothing.
func TestWhoDoesNotReadOverTLSOrHTTP2DelaysNobody(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quota := stream.NewQuota(10)
			hub := stream.NewHub(quota, nil)
			f := &talker{data: []byte(`{"a":1}`)}
			server := overTLS(t, hub, f, http2)
			long := &talker{data: append(append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), 8<<20)...), `"}`...)}
			slow := overTLS(t, hub, long, http2)
			_, body := open(t, slow.Client(), slow.URL+"/slow")
			defer body.Close()
			// Who reads may be dropped as well, where the machine gives them no time to: they
			// come again.
			lines := func() *bufio.Reader {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				t.Cleanup(cancel)
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/reads", http.NoBody)
				require.NoError(t, err)
				resp, err := server.Client().Do(r)
				require.NoError(t, err)
				t.Cleanup(func() { _ = resp.Body.Close() })
				return bufio.NewReader(resp.Body)
			}
			reads, alive := lines(), false
			for end := time.Now().Add(2 * time.Minute); !alive || quota.Open() > 1; {
				require.True(t, time.Now().Before(end), "who does not read is kept")
				told := f.looks.Load()
				for alive = true; alive && f.looks.Load() < told+2; {
					_, err := reads.ReadString('\n')
					alive = err == nil
				}
				if !alive {
					reads = lines()
				}
			}
			require.Equal(t, 1, quota.Open())
		})
	}
}
