package proxy_test

import (
	"bytes"
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
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/proxy"
)

// pair is a certificate for localhost and its key, both as PEM.
type pair struct{ cert, key []byte }

func newPair(t *testing.T, name string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
}

// files writes a pair to a folder and returns where.
func (p pair) files(t *testing.T) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	require.NoError(t, os.WriteFile(cert, p.cert, 0o600))
	require.NoError(t, os.WriteFile(key, p.key, 0o600))
	return cert, key
}

// name is whose certificate the server shows.
func (v *served) name(config *tls.Config) (string, *tls.ConnectionState) {
	v.t.Helper()
	config.InsecureSkipVerify = true
	c, err := tls.Dial("tcp", strings.TrimPrefix(v.URL(), "https://"), config)
	require.NoError(v.t, err)
	defer c.Close()
	state := c.ConnectionState()
	return state.PeerCertificates[0].Subject.CommonName, &state
}

func TestTLSBringsHTTP2AndNothingOld(t *testing.T) {
	cert, err := proxy.NewCertificate(pairFiles(t, "first"))
	require.NoError(t, err)
	v := serve(t, proxy.ServerOptions{Public: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ", r.TLS != nil)
	}), Certificate: cert, Grace: soon})
	require.True(t, strings.HasPrefix(v.URL(), "https://"))
	for _, tc := range []struct{ next, want string }{{"h2", "h2"}, {"http/1.1", "http/1.1"}, {"", ""}} {
		config := &tls.Config{}
		if tc.next != "" {
			config.NextProtos = []string{tc.next}
		}
		_, state := v.name(config)
		require.Equal(t, tc.want, state.NegotiatedProtocol)
		require.GreaterOrEqual(t, state.Version, uint16(tls.VersionTLS12))
	}
	_, err = tls.Dial("tcp", strings.TrimPrefix(v.URL(), "https://"), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	require.Error(t, err)
	for proto, transport := range map[string]*http.Transport{
		"HTTP/2.0 true": {ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		"HTTP/1.1 true": {TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}},
	} {
		v.client = &http.Client{Transport: transport}
		_, body := v.get(v.URL())
		require.Equal(t, proto, body)
		transport.CloseIdleConnections()
	}
	v.stop()
	require.NoError(t, v.ended())
}

func pairFiles(t *testing.T, name string) (cert, key string, log *slog.Logger) {
	cert, key = newPair(t, name).files(t)
	return cert, key, nil
}

func TestCertificateFollowsItsFiles(t *testing.T) {
	first, second := newPair(t, "first"), newPair(t, "second")
	certFile, keyFile := first.files(t)
	log := &safeBuffer{}
	cert, err := proxy.NewCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	v := serve(t, proxy.ServerOptions{Public: say("shop"), Certificate: cert, Grace: soon})
	shown := func() string { name, _ := v.name(&tls.Config{}); return name }
	require.Equal(t, "first", shown())

	// The certificate is written before its key: for a while they are no pair.
	require.NoError(t, os.WriteFile(certFile, second.cert, 0o600))
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "cannot be used") }, soon, 10*time.Millisecond)
	require.Equal(t, "first", shown())
	require.NoError(t, os.Remove(keyFile)) // worse still: told already
	require.Never(t, func() bool { return strings.Count(log.String(), "cannot be used") > 1 }, 1500*time.Millisecond, 50*time.Millisecond)
	require.NoError(t, os.WriteFile(keyFile, second.key, 0o600))
	require.Eventually(t, func() bool { return shown() == "second" }, soon, 10*time.Millisecond)
	require.Contains(t, log.String(), "the certificate was read again")
	require.Equal(t, 1, strings.Count(log.String(), "cannot be used"))

	// As a mounted secret changes: the name leads to another file.
	other, _ := first.files(t)
	require.NoError(t, os.Remove(certFile))
	require.NoError(t, os.Symlink(other, certFile))
	require.NoError(t, os.WriteFile(keyFile, first.key, 0o600))
	require.Eventually(t, func() bool { return shown() == "first" }, soon, 10*time.Millisecond)
	v.stop()
	require.NoError(t, v.ended())
}

func TestCertificateThatCannotBeUsedNamesItsFiles(t *testing.T) {
	cert, key := newPair(t, "a").files(t)
	_, otherKey := newPair(t, "b").files(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, tc := range []struct {
		name, cert, key string
		want            []string
	}{
		{"no certificate", cert + ".no", key, []string{"tls.cert_file", cert + ".no", "no such file"}},
		{"no key", cert, key + ".no", []string{"tls.key_file", key + ".no", "no such file"}},
		{"neither", cert + ".no", key + ".no", []string{"tls.cert_file", "tls.key_file"}},
		{"another key", cert, otherKey, []string{cert, otherKey, "are no pair", "does not match"}},
		{"swapped", key, cert, []string{"are no pair"}},
		{"an empty file", empty, key, []string{empty, "are no pair"}},
		{"a folder", t.TempDir(), key, []string{"tls.cert_file", "is a directory"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := proxy.NewCertificate(tc.cert, tc.key, nil)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "PRIVATE KEY-----")
		})
	}
	good, err := proxy.NewCertificate(cert, key, nil)
	require.NoError(t, err)
	_, err = proxy.NewServer(proxy.ServerOptions{Listen: ":0", Public: say(""), Certificate: good, H2C: true})
	require.ErrorContains(t, err, "h2c")
}

func TestHTTP2WithoutTLSIsSpokenToWhoBeginsWithItWhenSet(t *testing.T) {
	proto := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
	v := serve(t, proxy.ServerOptions{Public: proto, H2C: true, Grace: soon})
	_, body := v.get(v.URL())
	require.Equal(t, "HTTP/1.1", body)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	v.client = &http.Client{Transport: transport}
	_, body = v.get(v.URL())
	require.Equal(t, "HTTP/2.0", body)
	transport.CloseIdleConnections()

	c := v.dial()
	_, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", strings.Join(h2cOffer, "\r\n"))
	require.NoError(t, err)
	answer := make([]byte, 12)
	_, err = io.ReadFull(c, answer)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200", string(answer), "nobody is upgraded")
	v.stop()
	require.NoError(t, v.ended())
}

// rawH2 is a connection of HTTP/2 whose frames a test writes.
type rawH2 struct {
	t    *testing.T
	conn net.Conn
	*http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
}

func (v *served) dialH2() *rawH2 {
	v.t.Helper()
	h := &rawH2{t: v.t, conn: v.dial()}
	_, err := io.WriteString(h.conn, http2.ClientPreface)
	require.NoError(v.t, err)
	h.Framer = http2.NewFramer(h.conn, h.conn)
	h.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.enc = hpack.NewEncoder(&h.block)
	require.NoError(v.t, h.WriteSettings())
	return h
}

// ask opens a stream with a GET of a path.
func (h *rawH2) ask(stream uint32, path string, more ...string) error {
	h.block.Reset()
	fields := append([]string{":method", "GET", ":scheme", "http", ":authority", "shop.test", ":path", path}, more...)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(h.t, h.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return h.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: h.block.Bytes(), EndStream: true, EndHeaders: true})
}

// status reads frames up to the answer's head on a stream, or the end of it.
func (h *rawH2) status(stream uint32) string {
	h.t.Helper()
	for {
		f, err := h.ReadFrame()
		if err != nil {
			return err.Error()
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == stream {
				return f.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				return f.ErrCode.String()
			}
		case *http2.GoAwayFrame:
			return f.ErrCode.String()
		}
	}
}

func TestOneConnectionOfHTTP2RunsBoundedRequestsAtOnce(t *testing.T) {
	var running, most, all atomic.Int64
	release := make(chan struct{})
	v := serve(t, proxy.ServerOptions{H2C: true, Grace: soon, Public: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		all.Add(1)
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
	})})
	h := v.dialH2()
	f, err := h.ReadFrame()
	require.NoError(t, err)
	settings, ok := f.(*http2.SettingsFrame)
	require.True(t, ok)
	n, ok := settings.Value(http2.SettingMaxConcurrentStreams)
	require.True(t, ok)
	require.EqualValues(t, 128, n)
	for i := range uint32(200) {
		require.NoError(t, h.ask(2*i+1, "/"))
	}
	require.Equal(t, "REFUSED_STREAM", h.status(2*199+1))
	close(release)
	require.LessOrEqual(t, most.Load(), int64(128))
	require.Equal(t, "200", v.dialH2Status("/"))

	// Streams that are reset at once make room for the next on the wire, but not
	// for the next request that runs.
	flood := v.dialH2()
	var sent uint32
	for ; sent < 10_000; sent++ {
		if flood.ask(2*sent+1, "/") != nil || flood.WriteRSTStream(2*sent+1, http2.ErrCodeCancel) != nil {
			break // the server has hung up
		}
	}
	require.LessOrEqual(t, most.Load(), int64(128))
	require.Equal(t, "200", v.dialH2Status("/"), "others are served")
	require.Eventually(t, func() bool { return running.Load() == 0 }, soon, time.Millisecond)
	v.stop()
	require.NoError(t, v.ended())
}

func (v *served) dialH2Status(path string, more ...string) string {
	h := v.dialH2()
	require.NoError(v.t, h.ask(1, path, more...))
	return h.status(1)
}

func TestHeadOfARequestIsBoundedInHTTP2AsWell(t *testing.T) {
	v := serve(t, proxy.ServerOptions{Public: say("shop"), H2C: true, Grace: soon})
	require.Equal(t, "200", v.dialH2Status("/", "cookie", strings.Repeat("a", 8<<10)))
	h := v.dialH2()
	require.NoError(t, h.WriteSettingsAck())
	// As many frames as it takes: the head ends with the last one.
	h.block.Reset()
	for _, kv := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "x"}, {":path", "/"}} {
		require.NoError(t, h.enc.WriteField(hpack.HeaderField{Name: kv[0], Value: kv[1]}))
	}
	for i := range 64 {
		require.NoError(t, h.enc.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d", i), Value: strings.Repeat("a", 1<<10), Sensitive: true}))
	}
	block := h.block.Bytes()
	require.NoError(t, h.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:16<<10], EndStream: true}))
	for block = block[16<<10:]; len(block) > 0; {
		n := min(len(block), 16<<10)
		if h.WriteContinuation(1, n == len(block), block[:n]) != nil {
			break
		}
		block = block[n:]
	}
	require.NotEqual(t, "200", h.status(1))
	v.stop()
	require.NoError(t, v.ended())
}

func TestEachStreamOfAConnectionIsJudgedByItself(t *testing.T) {
	b := newBench(t)
	pass := b.admit()
	b.fill()
	v := serve(t, proxy.ServerOptions{Public: b.gate, H2C: true, Grace: soon})
	t.Cleanup(b.shop.hangUp)
	before := len(b.shop.requests())
	h := v.dialH2()
	for i, tc := range []struct {
		path, want string
		more       []string
	}{
		{"/public", "200", nil},
		{"/order", "429", nil},
		{"/order", "200", []string{"x-entry-token", pass}},
		{"/order", "429", nil},
		{"/public?x", "200", []string{"x-entry-token", pass}},
		{"//order", "429", nil},
		{"/x/../order", "429", nil},
		{"http:http://inner/order", "400", nil},
		{"*", "400", nil},
	} {
		stream := uint32(2*i + 1)
		require.NoError(t, h.ask(stream, tc.path, tc.more...))
		require.Equal(t, tc.want, h.status(stream), tc.path)
	}
	require.Len(t, b.shop.requests(), before+3)
	for _, r := range b.shop.requests()[before:] {
		require.True(t, strings.HasSuffix(r.line, "HTTP/1.1"), r.line)
		require.Equal(t, []string{"shop.test"}, r.header["Host"])
	}
	v.stop()
	require.NoError(t, v.ended())
}

func TestStreamThatWasResetGetsNoPlace(t *testing.T) {
	b := newBench(t)
	b.fill()
	gone, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(gone, "GET", "/order", nil)
	r.ProtoMajor, r.ProtoMinor, r.Proto = 2, 0, "HTTP/2.0"
	b.gate.ServeHTTP(httptest.NewRecorder(), r)
	require.Empty(t, b.line.take(), "Redis was asked for nobody")
	require.Contains(t, b.log.String(), `"status":499`)
}
