package main_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// streamingShop echoes in tunnels and says one thing in event streams; both last
// until the gate hangs up.
func streamingShop(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if r.Header.Get("Upgrade") == "" {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			takeOrder(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = control.Flush()
		<-r.Context().Done()
		return
	}
	conn, rw, err := control.Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	_ = rw.Flush()
	_, _ = io.Copy(conn, rw)
}

// stream opens a stream with a pass: a tunnel, or events where the path says so.
func (g *gate) stream(t testing.TB, path, pass string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	upgrade, code := "", http.StatusOK
	if !strings.HasSuffix(path, "/events") {
		upgrade, code = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", http.StatusSwitchingProtocols
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: shop.test\r\nX-Entry-Token: %s\r\n%s\r\n", path, pass, upgrade)
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, code, answer.StatusCode)
	return conn, r
}

// ends asserts that a stream is closed.
func ends(t testing.TB, r io.Reader) {
	t.Helper()
	_, err := io.Copy(io.Discard, r)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the stream goes on")
}

func TestStreamsLiveAsLongAsThePass(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 5, session_duration: 10s, claim_window: 30s"), more: "shutdown: {drain_delay: 0s, grace: 10m}"})
	here, there := f.gates[0], f.gates[1]
	f.shop.behave(streamingShop)
	talks, listens, leaves := newApp(t), newApp(t), newApp(t)
	for _, a := range []*app{talks, listens, leaves} {
		a.enter(t, here)
	}
	conn, said := here.stream(t, "/checkout/live", talks.pass)
	_, left := here.stream(t, "/checkout/live", leaves.pass)
	_, leftEvents := here.stream(t, "/checkout/events", leaves.pass)
	_, silent := here.stream(t, "/checkout/events", listens.pass)

	// Given back at the other gate.
	_, err := leaves.release(there)
	require.NoError(t, err)
	word, err := io.ReadAll(left)
	require.NoError(t, err)
	require.Equal(t, "\x88\x14\x03\xf0the pass has ended", string(word), "a close frame, policy violation")
	ends(t, leftEvents)

	// One talks on beyond all sessions of the others, and is never cut off.
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, silent) // ends with the lease: its client says nothing
	}()
	for waiting := true; waiting; {
		select {
		case <-over:
			waiting = false
		case <-time.After(glance * 10):
		}
		_, err := io.WriteString(conn, "hello\n")
		require.NoError(t, err)
		line, err := said.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
	}
	ended := func() int { return strings.Count(here.stderr.String(), `"upstream":"pass_ended"`) }
	eventually(t, "the records of the three are written", func() bool { return ended() >= 3 })
	require.Equal(t, 3, ended())

	// A stop waits for nobody who only talks.
	_, public := here.stream(t, "/public/events", "")
	require.NoError(t, here.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, here.exit(t), here.stderr)
	ends(t, said)
	ends(t, public)
}

// pair writes a certificate for localhost and its key.
func pair(t testing.TB, name, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

func TestTLSWithHTTP2AndANewCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	pair(t, "first", cert, key)
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), more: fmt.Sprintf("tls: {cert_file: %q, key_file: %q}", cert, key)})
	g := f.gates[0]
	require.True(t, strings.HasPrefix(g.url, "https://"), g.url)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // its own
	t.Cleanup(transport.CloseIdleConnections)
	holder := newApp(t)
	holder.client = &http.Client{Transport: transport, Timeout: patience}
	holder.enter(t, g)
	got, err := holder.order(g)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, got.code)
	require.Equal(t, "https", f.shop.last(t, "/checkout/order").Header.Get("X-Forwarded-Proto"))

	// Many requests of one connection, each judged by itself.
	resp, err := holder.client.Get(g.url + "/checkout") //nolint:noctx // a test
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 2, resp.ProtoMajor)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	for _, cookie := range resp.Cookies() {
		require.True(t, cookie.Secure)
		require.True(t, strings.HasPrefix(cookie.Name, "__Host-"), cookie.Name)
	}

	shown := func() string {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(g.url, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // its own
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	require.Equal(t, "first", shown())
	require.NoError(t, os.WriteFile(cert, []byte("half a file"), 0o600))
	eventually(t, "the log tells of the broken file", func() bool { return strings.Contains(g.stderr.String(), "the last good pair stays in use") })
	require.Equal(t, "first", shown())
	pair(t, "second", cert, key)
	eventually(t, "the new certificate is shown", func() bool { return shown() == "second" })

	require.NoError(t, os.WriteFile(key, nil, 0o600))
	p := run(t, nil, "serve", "-c", f.config)
	require.Equal(t, 2, p.exit(t))
	for _, part := range []string{"tls.cert_file", cert, "tls.key_file", key} {
		require.Contains(t, p.stderr.String(), part)
	}
}

// TestWebSocketsPassWithTLS: browsers open them in HTTP/1.1 beside their HTTP/2.
func TestWebSocketsPassWithTLS(t *testing.T) {
	t.Parallel()
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	pair(t, "gate", cert, key)
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), more: fmt.Sprintf("tls: {cert_file: %q, key_file: %q}\nshutdown: {drain_delay: 0s, grace: 10m}", cert, key)})
	g := f.gates[0]
	f.shop.behave(streamingShop)
	open := func(path string) (*tls.Conn, *bufio.Reader, int) {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(g.url, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}) //nolint:gosec // its own
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		require.NoError(t, err)
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		return conn, r, resp.StatusCode
	}
	_, _, code := open("/checkout/live")
	require.Equal(t, http.StatusTooManyRequests, code)
	conn, said, code := open("/live")
	require.Equal(t, http.StatusSwitchingProtocols, code)
	for range 3 {
		_, err := io.WriteString(conn, "hello\n")
		require.NoError(t, err)
		line, err := said.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
	}
	require.Equal(t, "https", f.shop.last(t, "/live").Header.Get("X-Forwarded-Proto"))
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, g.exit(t), g.stderr)
	ends(t, said)
}

func TestCurlSpeaksHTTP2WithoutTLSWhenSetAndElseHTTP1(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ more, option, want string }{
		{"h2c: true", "--http2-prior-knowledge", "2 200"},
		{"h2c: true", "--http2", "1.1 200"}, // never by an upgrade
		{"h2c: false", "--http2", "1.1 200"},
		{"h2c: false", "--http1.1", "1.1 200"},
	} {
		f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), more: tc.more})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := exec.CommandContext(ctx, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_version} %{http_code}", tc.option, f.gates[0].url+"/about").CombinedOutput()
		cancel()
		require.NoError(t, err, "%s", out)
		require.Equal(t, tc.want, string(out), "%s %s", tc.more, tc.option)
		require.Empty(t, f.shop.last(t, "/about").Header["Upgrade"])
		require.Empty(t, f.shop.last(t, "/about").Header["Http2-Settings"])
	}
}

func TestGateWithoutDescriptorsRecovers(t *testing.T) {
	t.Parallel()
	shop, store := newRecordingShop(t), queuetest.Start(t)
	g := startGate(t, writeConfig(t, plan{rooms: room("total_active_users: 1")}, shop.URL, store.URL))
	g.waitReady(t)
	out, err := exec.Command("prlimit", "--pid", strconv.Itoa(g.cmd.Process.Pid), "--nofile=256:256").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var crowd []net.Conn
	defer func() {
		for _, conn := range crowd {
			_ = conn.Close()
		}
	}()
	for range 400 {
		conn, err := net.DialTimeout("tcp", strings.TrimPrefix(g.url, "http://"), patience)
		require.NoError(t, err)
		crowd = append(crowd, conn)
		_, err = io.WriteString(conn, "GET /about HTTP/1.1\r\nHost: shop.test\r\n\r\n")
		require.NoError(t, err)
	}
	eventually(t, "the log says what is wrong", func() bool { return strings.Contains(g.stderr.String(), "too many open files") })
	for _, conn := range crowd {
		require.NoError(t, conn.Close())
	}
	client := newClient(t)
	eventually(t, "people are served again", func() bool {
		a, err := send(client, request{method: "GET", url: g.url + "/about"})
		return err == nil && a.code == http.StatusOK
	})
	eventually(t, "descriptors are free again", func() bool {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.cmd.Process.Pid))
		return err == nil && len(list) < 200
	})
	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, g.exit(t), g.stderr)
}
