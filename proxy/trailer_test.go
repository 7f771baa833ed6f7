package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrailersOfTheShopLoseOurs(t *testing.T) {
	b := newBench(t)
	for _, announced := range []string{"", "Trailer: X-Entry-Token, X-Queuegate-Command, X-Sum\r\n", "Trailer: X-Sum\r\n", "Trailer: X-Entry-Token\r\n"} {
		b.shop.says("HTTP/1.1 200 OK\r\n" + announced + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n" +
			"X-Entry-Token: t\r\nX_queue_ticket: t\r\nX-Queuegate-Command: release\r\nSet-Cookie: queuegate_entry_sale=evil\r\nX-Sum: 1\r\n\r\n")
		got := b.do("GET", "/x", "")
		require.Equal(t, "abc", got.text)
		require.Equal(t, http.Header{"X-Sum": {"1"}}, got.Trailer, announced)
	}
}

func TestTrailersOfAClientLoseOurs(t *testing.T) {
	b := newBench(t)
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /x HTTP/1.1\r\nHost: shop.test\r\nTrailer: X-Queuegate-Visitor, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Queuegate-Visitor: admin\r\nX-Sum: 1\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, []string{"X-Sum"}, b.shop.last().header["Trailer"])
}
