package proxy_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

// newCountingShop is a shop that counts the connections made to it.
func newCountingShop(t *testing.T, h http.HandlerFunc) (made *atomic.Int64, at func(*proxy.Options)) {
	t.Helper()
	made = &atomic.Int64{}
	shop := httptest.NewUnstartedServer(h)
	shop.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	shop.Start()
	t.Cleanup(shop.Close)
	u, err := url.Parse(shop.URL)
	require.NoError(t, err)
	return made, func(o *proxy.Options) { o.Upstream, o.Log = proxy.Upstream{URL: u}, nil }
}

// The default Transport keeps two idle connections to one host: with a hundred
// requests at once nearly each is then dialled anew, and the gate passes on less than
// half of what it can.
func TestAHundredRequestsAtOnceUseTheConnectionsOfTheHundredBefore(t *testing.T) {
	const atOnce, waves = 100, 6
	var here atomic.Int64
	var all atomic.Pointer[chan struct{}]
	made, at := newCountingShop(t, func(_ http.ResponseWriter, r *http.Request) {
		together := *all.Load()
		if here.Add(1) == atOnce {
			close(together)
		}
		select {
		case <-together:
		case <-r.Context().Done():
		}
	})
	b := newBench(t, at)
	client := &http.Client{Timeout: soon, Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}}
	defer client.CloseIdleConnections()
	for range waves {
		here.Store(0)
		all.Store(new(make(chan struct{})))
		var asked sync.WaitGroup
		failed := make([]error, atOnce)
		for i := range atOnce {
			asked.Go(func() {
				resp, err := client.Get(b.server.URL + "/lanterns")
				if failed[i] = err; err != nil {
					return
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					failed[i] = fmt.Errorf("answered %s", resp.Status)
				}
			})
		}
		asked.Wait()
		for _, err := range failed {
			require.NoError(t, err)
		}
	}
	require.Less(t, made.Load(), int64(3*atOnce), "connections for %d waves of %d requests", waves, atOnce)
}

// Without a pool each answer is copied through a buffer of 32 KB of its own, and the
// collector has most of the work.
func TestAnAnswerIsCopiedThroughABufferThatIsUsedAgain(t *testing.T) {
	const requests = 300
	_, at := newCountingShop(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("lanterns")) })
	b := newBench(t, at)
	ask := func() {
		w := httptest.NewRecorder()
		b.gate.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://shop.test/lanterns", nil))
		require.Equal(t, http.StatusOK, w.Code)
	}
	ask()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range requests {
		ask()
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / requests
	t.Logf("%d bytes allocated a request, the shop's and the test's included", each)
	require.Less(t, each, uint64(32<<10))
}
