package stream_test

import (
	"bufio"
	"bytes"
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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := hub.Open(r.URL.Path, f)
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.ServeEvents(w, r, stream.Message{Event: stream.Update, Data: []byte(`{"first":1}`)})
	}))
	t.Cleanup(server.Close)
	t.Cleanup(hub.Close)
	return server
}

func TestWhoDoesNotReadIsDroppedAndDelaysNobody(t *testing.T) {
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
