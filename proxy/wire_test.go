package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// talk sends bytes on a connection of its own and returns the answers to
// requests with these methods and whether the gate then closed it.
func (b *bench) talk(bytes string, methods ...string) (codes []int, closed bool) {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(b.t, err)
	defer conn.Close()
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(soon)))
	_, err = io.WriteString(conn, bytes)
	require.NoError(b.t, err)
	r := bufio.NewReader(conn)
	for _, method := range methods {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return codes, true
		}
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(b.t, err)
		codes = append(codes, resp.StatusCode)
		closed = resp.Close
	}
	return codes, closed
}

func TestTwoLengthsOfOneBodyEndTheConnection(t *testing.T) {
	smuggled := raw("GET", "/admin", "")
	for _, tc := range []struct {
		name, head string
		codes      []int
	}{
		{"a length beside chunks", "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", []int{200}},
		{"chunks beside a length", "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", []int{200}},
		{"chunks alone, for what else was there is not known any more", "Transfer-Encoding: chunked\r\n", []int{200}},
		{"two lengths", "Content-Length: 6\r\nContent-Length: 5\r\n", []int{400}},
		{"a length with a sign", "Content-Length: +5\r\n", []int{400}},
		{"a length in hexadecimal", "Content-Length: 0x5\r\n", []int{400}},
		{"a list of lengths", "Content-Length: 5, 5\r\n", []int{400}},
		{"a space before the colon", "Transfer-Encoding : chunked\r\n", []int{400}},
		{"another coding", "Transfer-Encoding: xchunked\r\n", []int{501}},
		{"two codings", "Transfer-Encoding: chunked, identity\r\n", []int{501}},
		{"two lines of codings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", []int{501}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			codes, closed := b.talk("POST /x HTTP/1.1\r\nHost: shop.test\r\n"+tc.head+"\r\n0\r\n\r\n"+smuggled, "POST", "GET")
			require.Equal(t, tc.codes, codes)
			require.True(t, closed)
			for _, r := range b.shop.requests() {
				require.NotContains(t, r.line, "/admin")
				require.Empty(t, r.header["Content-Length"], "beside chunks")
			}
		})
	}
}

func TestChunksThatAreBrokenNeverMakeAWholeRequest(t *testing.T) {
	for _, body := range []string{"5\nhello\r\n0\r\n\r\n", "5;x=\ny\r\nhello\r\n0\r\n\r\n", "5\r\nhellooo\r\n0\r\n\r\n", "-1\r\n\r\n", "fffffffffffffffff\r\n\r\n"} {
		b := newBench(t)
		codes, closed := b.talk("POST /x HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n"+body, "POST")
		require.True(t, closed, "%q", body)
		if len(codes) > 0 {
			require.Contains(t, []int{400, 502}, codes[0], "%q", body)
		}
		require.Empty(t, b.shop.requests(), "%q", body)
	}
}

func TestEachRequestOfAConnectionIsJudgedByItself(t *testing.T) {
	b := newBench(t)
	pass := b.admit()
	b.fill()
	before := len(b.shop.requests())
	codes, _ := b.talk(
		raw("GET", "/public", "")+raw("GET", "/order", "", "Accept: application/json")+
			raw("GET", "/order", "", "X-Entry-Token: "+pass)+raw("GET", "/order", "", "Accept: application/json"),
		"GET", "GET", "GET", "GET")
	require.Equal(t, []int{200, 429, 200, 429}, codes)
	require.Len(t, b.shop.requests(), before+2)
}

func TestFloodOfEarlyHintsIsGivenUp(t *testing.T) {
	const hint = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Queuegate-Command: release\r\n\r\n"
	b := newBench(t)
	b.shop.says(strings.Repeat(hint, 3) + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nshop")
	read := func() (hints, status int) {
		conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
		_, err = io.WriteString(conn, raw("GET", "/x", ""))
		require.NoError(t, err)
		for r := bufio.NewReader(conn); ; hints++ {
			resp, err := http.ReadResponse(r, nil)
			require.NoError(t, err)
			require.Empty(t, resp.Header.Get("X-Queuegate-Command"))
			if resp.StatusCode != http.StatusEarlyHints {
				return hints, resp.StatusCode
			}
		}
	}
	hints, status := read()
	require.Equal(t, []int{3, 200}, []int{hints, status})

	b.shop.says(strings.Repeat(hint, 10_000) + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nshop")
	hints, status = read()
	require.Equal(t, 502, status)
	require.LessOrEqual(t, hints, 64)
	require.Contains(t, b.log.String(), "more 1xx answers")
	b.shop.does(nil)
	require.Equal(t, 200, b.do("GET", "/x", "").StatusCode)
}

func TestRefusedExpectationDoesNotSpoilTheNextRequests(t *testing.T) {
	b := newBench(t)
	b.shop.hasty = true
	b.shop.does(func(_ shopRequest, conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	for range 50 {
		got := b.talkExpecting()
		require.Equal(t, 403, got)
	}
	b.shop.does(nil)
	for i := range 20 {
		require.Equal(t, 200, b.do("POST", fmt.Sprintf("/x?%d", i), "body").StatusCode)
	}
	require.Equal(t, 417, b.do("POST", "/x", "body", "Expect: something else").StatusCode)
}

// talkExpecting posts a body that it does not send before it is asked to.
func (b *bench) talkExpecting() int {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(b.t, err)
	defer conn.Close()
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(soon)))
	_, err = io.WriteString(conn, "POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
	require.NoError(b.t, err)
	for r := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(r, nil)
		require.NoError(b.t, err)
		if resp.StatusCode != http.StatusContinue { // the way to the shop may be kept by sending the body after all
			return resp.StatusCode
		}
	}
}
