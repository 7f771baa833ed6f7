package proxy

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

// One that stays in flight for ever counts against max_in_flight for ever.
func TestClientThatDoesNothingIsNotWaitedForPastMaxRequest(t *testing.T) {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		for line := []byte(strings.Repeat("x", 1<<16)); ; {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}))
	defer shop.Close()
	at, err := url.Parse(shop.URL)
	require.NoError(t, err)
	passes, err := token.New(token.Options{Issuer: "test", Secret: []byte(testSecret)})
	require.NoError(t, err)
	tickets, err := token.NewTickets([]byte(testSecret), "test")
	require.NoError(t, err)
	gate, err := New(Options{
		Upstream: Upstream{URL: at, MaxRequest: 200 * time.Millisecond},
		Passes:   passes, Tickets: tickets, IdentitySecret: []byte(testSecret),
	})
	require.NoError(t, err)
	gate.shop.patience = 50 * time.Millisecond
	for name, request := range map[string]string{
		"it does not read the answer": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"it does not send the body":   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nAccept: text/html\r\n\r\n1",
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(over)
				gate.ServeHTTP(w, r)
			}))
			defer server.Close()
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			_, err = io.WriteString(c, request)
			require.NoError(t, err)
			select {
			case <-over:
			case <-time.After(20 * time.Second):
				_ = c.Close()
				require.Fail(t, "still in flight")
			}
		})
	}
}
