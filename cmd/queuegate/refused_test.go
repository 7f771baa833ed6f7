package main_test

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

// inFront is nginx as an ordinary reverse proxy before the gate.
const inFront = `events {}
http {
    upstream gate { server GATE; keepalive 8; }
    server {
        listen FRONT;
        client_max_body_size 0;
        location / {
            proxy_pass http://gate;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_request_buffering BUFFERING;
        }
    }
}
`

// TestLargeBodyThatIsRefusedNeverHidesTheAnswer posts what is refused to the gate
// and to an nginx before it, with a client that looks for an answer only after it
// has sent everything.
func TestLargeBodyThatIsRefusedNeverHidesTheAnswer(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1, queue_all: true")})
	gateAddress := strings.TrimPrefix(f.gates[0].url, "http://")
	nginx := func(buffering string) string {
		address := freeAddress(t)
		startNginx(t, address, strings.NewReplacer("GATE", gateAddress, "FRONT", address, "BUFFERING", buffering).Replace(inFront))
		return address
	}
	block := strings.Repeat("0123456789abcdef", 1<<12)
	for _, c := range []struct {
		name, address string
		size, times   int
		kept          bool // the connection can be used again, each time
	}{
		{"directly", gateAddress, 20 << 20, 100, false},
		// nginx ends the connection after an answer that came early, and says so to nobody.
		{"through nginx that streams", nginx("off"), 20 << 20, 100, false},
		{"through nginx that keeps the body first", nginx("on"), 20 << 20, 10, true},
		{"directly, short enough to be read", gateAddress, 128 << 10, 50, true},
		{"through nginx, short enough to be read", nginx("off"), 128 << 10, 50, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var conn net.Conn
			var r *bufio.Reader
			for i := range c.times {
				if conn == nil {
					var err error
					conn, err = net.Dial("tcp", c.address)
					require.NoError(t, err)
					r = bufio.NewReader(conn)
				}
				require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
				_, err := fmt.Fprintf(conn, "POST /checkout HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", c.size)
				require.NoError(t, err)
				for range c.size / len(block) {
					_, err := io.WriteString(conn, block)
					require.NoError(t, err, "round %d: the body could not be sent", i)
				}
				code, text, ends, err := readOne(r)
				require.NoError(t, err, "round %d: no answer", i)
				require.Equal(t, http.StatusTooManyRequests, code)
				require.Contains(t, text, `"urn:queuegate:problem:queued"`)
				if !ends {
					_, err = io.WriteString(conn, "GET /about HTTP/1.1\r\nHost: h\r\n\r\n")
					if err == nil {
						code, text, ends, err = readOne(r)
					}
				}
				if ends || err != nil {
					require.False(t, c.kept, "the connection ended: %v", err)
					require.NoError(t, conn.Close())
					conn = nil
					continue
				}
				require.Equal(t, http.StatusOK, code, "the next request on the connection")
				require.Equal(t, "the shop's answer to GET /about", text)
			}
			if conn != nil {
				require.NoError(t, conn.Close())
			}
		})
	}
	require.Empty(t, f.shop.got("/checkout"))

	// Who asks before sending is answered and sends nothing.
	for _, address := range []string{gateAddress, nginx("off")} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(conn, "POST /checkout HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n")
		require.NoError(t, err)
		r := bufio.NewReader(conn)
		code, _, _, err := readOne(r)
		if address != gateAddress && code == http.StatusContinue {
			code, _, _, err = readOne(r) // nginx says it by itself
		}
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, code)
		require.NoError(t, conn.Close())
	}
}

// TestSiteThatIsProtectedWholeLeavesTheUsualFilesOpen: crawlers, browsers and
// certificates need them, and nobody thinks of them.
func TestSiteThatIsProtectedWholeLeavesTheUsualFilesOpen(t *testing.T) {
	t.Parallel()
	shop := newRecordingShop(t)
	files := []string{"/.well-known/acme-challenge/x", "/favicon.ico", "/robots.txt", "/sitemap.xml"}
	for _, c := range []struct {
		keys string
		code int
	}{{"", http.StatusOK}, {", default_exempt: false", http.StatusTooManyRequests}} {
		g := startGate(t, writeConfig(t, plan{
			rooms: "  - {name: all, protect: [{paths: [/]}], total_active_users: 1, queue_all: true" + c.keys + "}\n",
		}, shop.URL, ""))
		g.waitReady(t)
		for _, file := range files {
			got := mustSend(t, newClient(t), request{method: "GET", url: g.url + file})
			require.Equal(t, c.code, got.code, file)
			if c.code == http.StatusOK {
				require.Empty(t, got.header.Values("Set-Cookie"))
			}
			require.Equal(t, http.StatusTooManyRequests, mustSend(t, newClient(t), request{method: "POST", url: g.url + file}).code, file)
		}
		require.Equal(t, c.keys == "", strings.Contains(g.stderr.String(), `"room":"all","paths":["/.well-known/","/favicon.ico","/robots.txt","/sitemap.xml"]`),
			"the gate says at its start what it leaves open")
	}
}

// readOne reads one answer and tells whether its connection ends with it.
func readOne(r *bufio.Reader) (code int, text string, ends bool, err error) {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, "", true, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), resp.Close, err
}
