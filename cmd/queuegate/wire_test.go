package main_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exchanged sends bytes on one connection and returns the codes of all answers
// until it is closed or n have come.
func (g *gate) exchanged(t testing.TB, text string, n int) (codes []int, closed bool) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	for r := bufio.NewReader(conn); len(codes) < n; {
		code, _, ends, err := readOne(r)
		if err != nil {
			return codes, true
		}
		codes, closed = append(codes, code), ends
	}
	return codes, closed
}

// TestEveryRequestOfAConnectionIsJudgedAndNoneIsSmuggled: what was said before on
// a connection lets nobody in, and a body is never taken for a request.
func TestEveryRequestOfAConnectionIsJudgedAndNoneIsSmuggled(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), more: "shutdown: {drain_delay: 0s, grace: 80s}"})
	g := f.gates[0]
	holder := newApp(t)
	holder.enter(t, g)
	const host = " HTTP/1.1\r\nHost: shop.test\r\n"
	hidden := "GET /hidden" + host + "\r\n"
	pass := "X-Entry-Token: " + holder.pass + "\r\n"
	body := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(hidden), hidden)
	chunk := fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	for _, tc := range []struct {
		name, text string
		codes      []int
		atShop     int
		closed     bool
	}{
		{"requests in a row", "GET /about" + host + "\r\nGET /checkout" + host + "\r\nGET /checkout" + host + pass + "\r\nGET /checkout" + host + "\r\n", []int{200, 429, 200, 429}, 2, false},
		{"a request after an upgrade that the shop refused", "GET /checkout" + host + pass + upgrade + "\r\nGET /checkout" + host + "\r\n", []int{200, 429}, 1, false},
		{"a request after an upgrade that the gate refused", "GET /checkout" + host + upgrade + "\r\nGET /checkout" + host + "\r\n", []int{429, 429}, 0, false},
		{"a refused body that reads like a request", "POST /checkout" + host + body, []int{429}, 0, false},
		{"the same in chunks", "POST /checkout" + host + chunk, []int{429}, 0, true},
		{"the same, with a request behind it", "POST /checkout" + host + body + "GET /about" + host + "\r\n", []int{429, 200}, 1, false},
		{"a body that passes and reads like a request", "POST /about" + host + body, []int{201}, 1, false},
		{"chunks and a length that is too short", "POST /about" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, []int{201}, 1, true},
		{"two lengths", "POST /about" + host + "Content-Length: 3\r\nContent-Length: 0\r\n\r\n" + hidden, []int{400}, 0, true},
		{"a length with a sign", "POST /about" + host + "Content-Length: +0\r\n\r\n" + hidden, []int{400}, 0, true},
		{"a space before the colon", "POST /about" + host + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden, []int{400}, 0, true},
		{"a coding that hides another", "POST /about" + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden, []int{501}, 0, true},
		{"two hosts", "GET /checkout" + host + "Host: other.test\r\n\r\n", []int{400}, 0, true},
		{"no host", "GET /checkout HTTP/1.1\r\n\r\n", []int{400}, 0, true},
		{"an empty host", "GET /checkout HTTP/1.1\r\nHost:\r\n\r\n", []int{429}, 0, false},
		{"no host in HTTP/1.0", "GET /checkout HTTP/1.0\r\n\r\n", []int{429}, 0, true},
		{"another host in the target", "GET http://other.test/checkout" + host + "\r\n", []int{429}, 0, false},
		{"a host in capitals, with a dot and a port", "GET /checkout HTTP/1.1\r\nHost: SHOP.TEST.:8080\r\n\r\n", []int{429}, 0, false},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", []int{400}, 0, true},
		{"a tunnel, and a request in it", "CONNECT 127.0.0.1:1" + host + "\r\n" + hidden, []int{405}, 0, true},
		{"the gate's own address in capitals", "GET /_QUEUE/checkout/status" + host + "\r\n", []int{404}, 0, false},
		{"dots into the gate's own", "GET /about/../_queue/checkout/x" + host + "\r\n", []int{404}, 0, false},
		{"dots out of the gate's own", "GET /_queue/../checkout" + host + "\r\n", []int{404}, 0, false},
		{"an expectation nobody knows", "POST /about" + host + "Expect: a miracle\r\nContent-Length: 0\r\n\r\n", []int{417}, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := len(f.shop.got(""))
			codes, closed := g.exchanged(t, tc.text, len(tc.codes))
			require.Equal(t, tc.codes, codes)
			require.Equal(t, tc.closed, closed)
			require.Len(t, f.shop.got(""), before+tc.atShop)
			require.Empty(t, f.shop.got("/hidden"))
		})
	}
	// A request may reach the shop, and its end be seen there, long after the client has
	// left: each has a name, and they are judged when all are over.
	var mu sync.Mutex
	arrived, ended := 0, map[string]bool{} // whether it was whole
	f.shop.behave(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		arrived++
		mu.Unlock()
		_, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		ended[r.URL.Path] = err == nil
	})
	for name, broken := range map[string]string{
		"no CR": "5\nhello\r\n0\r\n\r\n", "too long": "5\r\nhellooo\r\n0\r\n\r\n", "negative": "-1\r\n\r\n", "huge": "fffffffffffffffff\r\n\r\n", "cut": "5\r\nhel",
	} {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(conn, "POST /broken/"+url.PathEscape(name)+host+"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"+broken)
		require.NoError(t, err)
		if name == "cut" {
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		}
		_, _ = io.Copy(io.Discard, conn)
		require.NoError(t, conn.Close())
	}
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, g.exit(t), g.stderr)
	eventually(t, "what reached the shop is over", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ended) == arrived
	})
	f.shop.Close() // and nothing comes any more
	mu.Lock()
	defer mu.Unlock()
	require.NotContains(t, slices.Collect(maps.Values(ended)), true, "whole, of what was broken: %v", ended)
}

// TestEarlyWordsOfTheShopEndWhenTheyDoNot: a shop that floods 1xx, or that answers
// before it has read, costs nobody else anything.
func TestEarlyWordsOfTheShopEndWhenTheyDoNot(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1")})
	g := f.gates[0]
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
			}
		}
	}
	f.shop.behave(raw(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n", 10_000) + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	for range 5 {
		codes, _ := g.exchanged(t, "GET /flood HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 100)
		require.Equal(t, http.StatusBadGateway, codes[len(codes)-1])
	}
	f.shop.behave(raw("HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	for range 50 {
		codes, _ := g.exchanged(t, "POST /hasty HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n", 1)
		require.Contains(t, []int{100, 403}, codes[0])
	}
	f.shop.behave(nil)
	client := newClient(t)
	for range 20 {
		require.Equal(t, http.StatusCreated, mustSend(t, client, request{method: "POST", url: g.url + "/about", body: "x"}).code)
	}
}
