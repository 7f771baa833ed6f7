package main_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// behind is a shop behind two gates behind a front proxy that ends TLS.
type behind struct {
	shop  *recordingShop
	gates []*gate
	front string // its https address
}

// exampleInFront puts the addresses of a test into a file of examples/front. Gates that
// stand on hosts of their own there have an address of the loopback interface here.
func exampleInFront(t testing.TB, name, front, public, admin string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/front", name))
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(front)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "fullchain.pem"), filepath.Join(dir, "privkey.pem")
	pair(t, "front", cert, key)
	chain, err := os.ReadFile(cert)
	require.NoError(t, err)
	secret, err := os.ReadFile(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "combined.pem"), append(chain, secret...), 0o600))
	return strings.NewReplacer("10.0.0.10:443", front, "10.0.0.10:80", freeAddress(t), "http_port 80", "http_port "+queuetest.FreePort(t), "https_port 443", "https_port "+port,
		"https://shop.example", "https://127.0.0.1", "10.0.0.10", "127.0.0.1", "10.0.0.11:8080", "127.0.0.1:"+public, "10.0.0.12:8080", "127.0.0.2:"+public,
		"10.0.0.11:9090", "127.0.0.1:"+admin, "health_port 9090", "health_port "+admin, "check port 9090", "check port "+admin, "/etc/ssl/shop", dir).Replace(string(text))
}

// startBehind starts it all. The gates run with the very file of the example but for
// its addresses.
func startBehind(t testing.TB, start func(t testing.TB, front, public, admin string)) *behind {
	t.Helper()
	b := &behind{shop: newRecordingShop(t), front: freeAddress(t)}
	redis, public, admin := queuetest.Start(t), queuetest.FreePort(t), queuetest.FreePort(t)
	text := strings.Replace(exampleInFront(t, "queuegate.yaml", b.front, public, admin), "total_active_users: 200", "total_active_users: 1", 1)
	file := filepath.Join(t.TempDir(), "queuegate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		g := startGate(t, file, "QUEUEGATE_LISTEN="+host+":"+public, "QUEUEGATE_ADMIN_LISTEN="+host+":"+admin, "QUEUEGATE_UPSTREAM_URL="+b.shop.URL,
			"QUEUEGATE_REDIS_URL="+redis.URL, "QUEUEGATE_REDIS_TIMEOUT=5s", "QUEUEGATE_TOKEN_SECRET="+signingSecret, "QUEUEGATE_SHUTDOWN_DRAIN_DELAY=8s")
		g.waitReady(t)
		b.gates = append(b.gates, g)
	}
	start(t, b.front, public, admin)
	b.front = "https://" + b.front
	eventually(t, "the front proxy knows its gates", func() bool {
		a, err := send(b.browser(t, "127.0.0.1"), request{method: "GET", url: b.front + "/about"})
		return err == nil && a.code == http.StatusOK
	})
	return b
}

// browser is a client at an address of its own.
func (b *behind) browser(t testing.TB, address string) *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{ForceAttemptHTTP2: true, DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // its own
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Jar: jar, Timeout: patience}
}

func TestPeopleBehindNginxThatEndsTLS(t *testing.T) {
	t.Parallel()
	journeyBehind(t, startBehind(t, func(t testing.TB, front, public, admin string) {
		startNginx(t, front, exampleInFront(t, "nginx.conf", front, public, admin))
	}))
}

func TestPeopleBehindHAProxyThatEndsTLS(t *testing.T) {
	t.Parallel()
	journeyBehind(t, startBehind(t, func(t testing.TB, front, public, admin string) {
		file := filepath.Join(t.TempDir(), "haproxy.cfg")
		require.NoError(t, os.WriteFile(file, []byte(exampleInFront(t, "haproxy.cfg", front, public, admin)), 0o600))
		program, err := exec.LookPath("haproxy")
		if err != nil {
			program = "/usr/sbin/haproxy" // not everybody looks there
		}
		daemon(t, front, program, "-db", "-f", file)
	}))
}

// forgeries are what a stranger claims about where a request came from.
var forgeries = map[string]string{"X-Forwarded-For": "10.1.2.3", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "evil.test", "Forwarded": "for=10.1.2.3"}

// journeyBehind is what a front proxy must not spoil.
func journeyBehind(t *testing.T, b *behind) {
	// Address and scheme are the proxy's to say, whatever a client claims.
	visitor := b.browser(t, "127.0.0.3")
	about := mustSend(t, visitor, request{method: "GET", url: b.front + "/about", header: forgeries})
	require.Equal(t, "max-age=31536000", about.header.Get("Strict-Transport-Security"))
	seen := b.shop.last(t, "/about")
	require.Equal(t, []string{"127.0.0.3, 127.0.0.1"}, seen.Header["X-Forwarded-For"])
	require.Equal(t, []string{"https"}, seen.Header["X-Forwarded-Proto"])
	require.Equal(t, []string{strings.TrimPrefix(b.front, "https://")}, seen.Header["X-Forwarded-Host"])
	require.Empty(t, seen.Header["Forwarded"])
	require.Equal(t, strings.TrimPrefix(b.front, "https://"), seen.Host)
	// And nobody's who comes to a gate around the proxy.
	stranger := b.browser(t, "127.0.0.4")
	mustSend(t, stranger, request{method: "GET", url: b.gates[0].url + "/about?stranger", header: map[string]string{"X-Forwarded-For": "10.1.2.3", "X-Forwarded-Proto": "https"}})
	seen = b.shop.last(t, "/about")
	require.Equal(t, []string{"127.0.0.4"}, seen.Header["X-Forwarded-For"])
	require.Equal(t, []string{"http"}, seen.Header["X-Forwarded-Proto"])

	// Somebody is inside, the next one waits: the page is the gate's own, its cookies are for https alone.
	holder := newApp(t)
	holder.client = b.browser(t, "127.0.0.3")
	through := &gate{url: b.front}
	holder.enter(t, through)
	page := mustSend(t, visitor, request{method: "GET", url: b.front + "/checkout?a=1", header: browse()})
	direct := mustSend(t, stranger, request{method: "GET", url: b.gates[0].url + "/checkout?a=1", header: browse()})
	require.Equal(t, http.StatusTooManyRequests, page.code)
	for _, name := range []string{"Content-Type", "Cache-Control", "X-Robots-Tag", "X-Content-Type-Options", "Referrer-Policy", "Vary"} {
		require.Equal(t, direct.header.Values(name), page.header.Values(name), name)
	}
	require.Regexp(t, `^[1-9]\d*$`, page.header.Get("Retry-After"))
	require.NotEmpty(t, page.header.Get("Content-Security-Policy"))
	require.Equal(t, "max-age=31536000", page.header.Get("Strict-Transport-Security"), "also on the page")
	require.Contains(t, string(page.body), `data-state="waiting"`)
	require.Contains(t, page.header.Get("Set-Cookie"), "__Host-queuegate_ticket_checkout=")
	require.Contains(t, page.header.Get("Set-Cookie"), "; Secure")
	streamsArrive(t, b, holder.pass)

	// A gate that ends drops nobody.
	stopped := b.gates[0]
	require.NoError(t, stopped.cmd.Process.Signal(syscall.SIGTERM))
	for ended := false; !ended; {
		select {
		case <-stopped.ended:
			ended = true
		case <-time.After(glance):
		}
		a := mustSend(t, visitor, request{method: "GET", url: b.front + "/about"})
		require.Equal(t, http.StatusOK, a.code, "%s", a.body)
		a = mustSend(t, visitor, request{method: "GET", url: b.front + "/checkout?a=1", header: browse()})
		require.Equal(t, http.StatusTooManyRequests, a.code, "%s", a.body)
		require.Contains(t, string(a.body), `data-state="waiting"`, "the other gate knows the place")
	}
	require.Zero(t, stopped.exit(t), stopped.stderr)
	got, err := holder.order(through)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.code, "%s", got.body)
}

// streamsArrive: events as they are written, and WebSockets both ways.
func streamsArrive(t *testing.T, b *behind, pass string) {
	b.shop.behave(streamingShop)
	defer b.shop.behave(nil)
	open := func(path, head string) (net.Conn, *bufio.Reader, *http.Response) {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(b.front, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}) //nolint:gosec // its own
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Entry-Token: %s\r\n%s\r\n", path, strings.TrimPrefix(b.front, "https://"), pass, head)
		require.NoError(t, err)
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil) //nolint:bodyclose // ends with the connection
		require.NoError(t, err)
		return conn, r, resp
	}
	_, _, events := open("/checkout/events", "")
	require.Equal(t, http.StatusOK, events.StatusCode)
	line, err := bufio.NewReader(events.Body).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "data: 1\n", line, "the shop has written no more, and goes on")

	_, _, status := open("/_queue/checkout/events", "Accept: text/event-stream\r\n")
	require.Equal(t, http.StatusOK, status.StatusCode)
	line, err = bufio.NewReader(status.Body).ReadString('\n')
	require.NoError(t, err)
	require.NotEmpty(t, strings.TrimSpace(line))

	conn, said, upgraded := open("/checkout/live", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
	require.Equal(t, http.StatusSwitchingProtocols, upgraded.StatusCode)
	for range 3 {
		_, err := io.WriteString(conn, "hello\n")
		require.NoError(t, err)
		line, err := said.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
	}
}

// TestVisitorsBehindACDNAreFoundByItsRanges: the address is the first from the right
// that is neither the proxy's nor the CDN's.
func TestVisitorsBehindACDNAreFoundByItsRanges(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../examples/front/cdn.yaml")
	require.NoError(t, err)
	part := strings.Replace(string(text), "10.0.0.10/32", "127.0.0.1/32", 1)
	require.NotEqual(t, string(text), part)
	f := startFleet(t, plan{gates: 1, more: part, rooms: "  - {name: checkout, protect: [{paths: [/checkout]}], exempt: [{cidrs: [203.0.113.7/32]}], total_active_users: 1, queue_all: true}"})
	for _, tc := range []struct {
		name, chain string
		code        int
	}{
		{"a visitor through the CDN", "203.0.113.7, 198.51.100.9", http.StatusOK},
		{"the same over IPv6 of the CDN", "203.0.113.7, 2001:db8:cd12::1", http.StatusOK},
		{"somebody who claims to be that visitor, through the CDN", "203.0.113.7, 203.0.113.99, 198.51.100.9", http.StatusTooManyRequests},
		{"somebody who comes around the CDN", "203.0.113.7, 198.51.100.9, 203.0.113.99", http.StatusTooManyRequests},
		{"an address beside the CDN's range", "203.0.113.7, 198.51.101.9", http.StatusTooManyRequests},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := mustSend(t, newClient(t), request{method: "GET", url: f.gates[0].url + "/checkout", header: map[string]string{"X-Forwarded-For": tc.chain}})
			require.Equal(t, tc.code, a.code)
		})
	}
}
