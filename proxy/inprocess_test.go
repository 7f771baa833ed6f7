package proxy_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

// inside makes h the shop of the bench's gate.
func inside(h http.HandlerFunc) func(*proxy.Options) {
	return func(o *proxy.Options) { o.Upstream = proxy.Upstream{Handler: h} }
}

func TestAShopInTheProcessSeesWhatAShopElsewhereSees(t *testing.T) {
	seen := make(chan *http.Request, 100)
	b := newBench(t, consuming, inside(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err) // which breaks the answer
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		seen <- r
		w.Header().Set("X-Queuegate-Stock", "7")
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "kept")
		w.Header().Set("X-Sum", "4")
	}))

	got := b.do("POST", "/a%2Fb//c;x?q=%zz&q=2", "body", "Host: shop.test", "X-Queuegate-Room: forged", "Cookie: a=1; queuegate_ticket_sale=x; b=2")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Equal(t, "kept", got.text)
	require.Equal(t, "4", got.Trailer.Get("X-Sum"))
	require.Empty(t, got.Header.Get("X-Queuegate-Stock"), "the shop's word to the gate is no client's business")
	r := receive(t, seen)
	require.Equal(t, "/a%2Fb//c;x?q=%zz&q=2", r.RequestURI)
	require.Equal(t, "shop.test", r.Host)
	require.Equal(t, "127.0.0.1", r.Header.Get("X-Forwarded-For"))
	require.Equal(t, "a=1; b=2", r.Header.Get("Cookie"))
	require.Empty(t, r.Header.Get("X-Queuegate-Room"))
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, "body", string(body))

	pass := b.admit()
	for range 2 {
		require.Equal(t, "sale", receive(t, seen).Header.Get("X-Queuegate-Room"))
	}
	b.fill()
	require.Equal(t, http.StatusTooManyRequests, b.call("POST", "/order", "{}").StatusCode)
	require.Empty(t, seen, "nobody without a pass is at the shop")
	require.Equal(t, http.StatusOK, b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass).StatusCode)
	require.Equal(t, "sale", receive(t, seen).Header.Get("X-Queuegate-Room"))
}

func TestAShopInTheProcessThatPanicsBreaksOnlyItsAnswer(t *testing.T) {
	b := newBench(t, consuming, inside(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/order/pay" {
			panic("no database")
		}
		_, _ = io.WriteString(w, "shop")
	}))
	pass := b.admit()
	b.line.take()
	require.Equal(t, http.StatusBadGateway, b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass).StatusCode)
	require.Contains(t, b.line.take(), "settle failed", "the order came to nothing, the pass is kept")
	require.Equal(t, "shop", b.call("GET", "/order", "", "X-Entry-Token: "+pass).text)
	require.Contains(t, b.log.String(), "no database")
}

func TestAShopInTheProcessStreamsAndSwitchesToWebSocket(t *testing.T) {
	next := make(chan string, 2)
	b := newBench(t, inside(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/echo" {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			if kind, text, err := c.Read(r.Context()); err == nil {
				_ = c.Write(r.Context(), kind, append([]byte("heard "), text...))
			}
			_ = c.Close(websocket.StatusNormalClosure, "")
			return
		}
		for {
			select {
			case text, more := <-next:
				if !more {
					return
				}
				_, _ = io.WriteString(w, text)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.server.URL+"/public", nil)
	require.NoError(t, err)
	next <- "one"
	got, err := b.server.Client().Do(req)
	require.NoError(t, err)
	defer got.Body.Close()
	buf := make([]byte, 3)
	for _, want := range []string{"one", "two"} {
		_, err = io.ReadFull(got.Body, buf)
		require.NoError(t, err)
		require.Equal(t, want, string(buf), "what was flushed is here before the shop goes on")
		if want == "one" {
			next <- "two"
		}
	}
	close(next)

	c, _, err := websocket.Dial(ctx, b.server.URL+"/echo", nil)
	require.NoError(t, err)
	defer c.CloseNow()
	require.NoError(t, c.Write(ctx, websocket.MessageText, []byte("me")))
	_, text, err := c.Read(ctx)
	require.NoError(t, err)
	require.Equal(t, "heard me", string(text))
}

func TestEachRoomMayHaveAShopInTheProcessOfItsOwn(t *testing.T) {
	says := func(text string) proxy.Upstream {
		return proxy.Upstream{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })}
	}
	b := newBench(t, func(o *proxy.Options) { o.Upstream, o.Rooms[0].Upstream = says("the shop"), says("the sale") })
	require.Equal(t, "the shop", b.call("GET", "/public", "").text)
	require.Equal(t, "the sale", b.call("GET", "/order", "").text)
}

func TestAShopIsInOnePlace(t *testing.T) {
	for _, tc := range []struct {
		upstream proxy.Upstream
		want     string
	}{
		{proxy.Upstream{}, "proxy: upstream: no URL given; set the shop's address, as http://127.0.0.1:9000, or its Handler"},
		{
			proxy.Upstream{URL: &url.URL{Scheme: "http", Host: "shop"}, Handler: http.NotFoundHandler()},
			"proxy: upstream: both a URL and a Handler given; the shop is in one place: leave one out",
		},
	} {
		_, err := proxy.New(proxy.Options{Upstream: tc.upstream})
		require.ErrorContains(t, err, tc.want)
	}
}

// TestGatesWithAShopInTheProcessLeaveNothingBehind makes and forgets gates, as a
// program's own tests do.
func TestGatesWithAShopInTheProcessLeaveNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		t.Run("a gate", func(t *testing.T) {
			b := newBench(t, inside(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
			require.Equal(t, http.StatusOK, b.call("GET", "/public", "").StatusCode)
		})
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+5 }, soon, 10*time.Millisecond)
}
