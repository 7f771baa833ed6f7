package proxy_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/openapi"
	"github.com/queuegate/queuegate/proxy/openapi/openapitest"
	"github.com/queuegate/queuegate/proxy/page"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/token"
)

const (
	secret         = "0123456789abcdef0123456789abcdef"
	identitySecret = "fedcba9876543210fedcba9876543210"
	browserAccept  = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
)

// rawShop is a shop that keeps every byte it receives and answers what it is
// told to.
type rawShop struct {
	t      testing.TB
	ln     net.Listener
	mu     sync.Mutex
	seen   []shopRequest
	answer func(req shopRequest, conn net.Conn) // writes the whole answer; nil: 200 ok
	conns  map[net.Conn]struct{}
	free   chan struct{} // closed at the end: what is held ends
	over   bool          // hangUp was called
	hasty  bool          // answers who asks before sending a body, without reading one
}

type shopRequest struct {
	line   string // the request line
	lines  []string
	header http.Header
	body   string
}

// target is the request target as it came over the wire.
func (r shopRequest) target() string {
	parts := strings.Split(r.line, " ")
	return strings.Join(parts[1:len(parts)-1], " ")
}

func newRawShop(t testing.TB) *rawShop {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &rawShop{t: t, ln: ln, conns: map[net.Conn]struct{}{}, free: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	t.Cleanup(func() { ln.Close(); wg.Wait(); s.hangUp(); close(s.free) })
	return s
}

// hold waits until there is something in c, or until the test ends.
func (s *rawShop) hold(c <-chan struct{}) {
	select {
	case <-c:
	case <-s.free:
	}
}

func (s *rawShop) serve(conn net.Conn) {
	s.mu.Lock()
	s.conns[conn] = struct{}{}
	over := s.over
	s.mu.Unlock()
	if over {
		conn.Close()
		return
	}
	defer func() {
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
		conn.Close()
	}()
	r := bufio.NewReader(conn)
	for {
		s.mu.Lock()
		hasty := s.hasty
		s.mu.Unlock()
		req, err := readShopRequest(r, hasty)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, req)
		answer := s.answer
		s.mu.Unlock()
		if answer != nil {
			answer(req, conn)
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nshop"); err != nil {
			return
		}
	}
}

func readShopRequest(r *bufio.Reader, hasty bool) (shopRequest, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return shopRequest{}, err
	}
	req := shopRequest{line: strings.TrimRight(line, "\r\n"), header: http.Header{}}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return req, err
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		req.lines = append(req.lines, line)
		// Kept under the name as it came: a test wants to see odd spellings.
		req.header[name] = append(req.header[name], strings.TrimSpace(value))
	}
	if hasty && len(req.header["Expect"]) > 0 {
		return req, nil
	}
	if n, err := strconv.Atoi(strings.Join(req.header["Content-Length"], "")); err == nil {
		body := make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return req, err
		}
		req.body = string(body)
	} else if len(req.header["Transfer-Encoding"]) > 0 {
		body, err := io.ReadAll(newChunkedReader(r))
		if err != nil {
			return req, err
		}
		req.body = string(body)
	}
	return req, nil
}

// newChunkedReader reads a chunked body by means of an answer that has one.
func newChunkedReader(r *bufio.Reader) io.Reader {
	head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader(head), r)), nil)
	if err != nil {
		return strings.NewReader("")
	}
	return resp.Body
}

// hangUp closes all connections of the shop, those that the gate keeps for later
// as well, and from then on each new one.
func (s *rawShop) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for conn := range s.conns {
		_ = conn.Close()
	}
}

// requests returns what the shop has seen.
func (s *rawShop) requests() []shopRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]shopRequest(nil), s.seen...)
}

// last returns the newest request and fails when there is none.
func (s *rawShop) last() shopRequest {
	all := s.requests()
	require.NotEmpty(s.t, all, "the shop saw nothing")
	return all[len(all)-1]
}

// says makes the shop answer every request with these bytes and close.
func (s *rawShop) says(answer string) {
	s.does(func(_ shopRequest, conn net.Conn) { _, _ = io.WriteString(conn, answer) })
}

func (s *rawShop) does(answer func(shopRequest, net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// bench is a gate between a raw shop and a test.
type bench struct {
	t       testing.TB
	shop    *rawShop
	line    *fakeLine
	other   *fakeLine
	gate    *proxy.Gate
	server  *httptest.Server
	log     *safeBuffer
	passes  *token.Authority
	tickets *token.Tickets
	over    sync.Map // by address of the client: closed when its connection's last request is over
}

// served notes when a request is over: an answer is read a moment before that, and
// before its record is written.
func (b *bench) served(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		over := make(chan struct{})
		b.over.Store(r.RemoteAddr, over)
		defer close(over)
		h.ServeHTTP(w, r)
	})
}

// awaitOver waits until the request of a connection is over, or for a while.
func (b *bench) awaitOver(conn net.Conn) {
	over, known := b.over.Load(conn.LocalAddr().String())
	if !known {
		return // refused by the server
	}
	select {
	case <-over.(chan struct{}):
	case <-time.After(soon):
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newBench starts a gate with the room "sale" on /order and "drop" on /drop;
// change may alter its options first.
func newBench(t testing.TB, change ...func(*proxy.Options)) *bench {
	t.Helper()
	b := &bench{t: t, shop: newRawShop(t), line: newFakeLine(1), other: newFakeLine(1), log: &safeBuffer{}}
	var err error
	b.passes, err = token.New(token.Options{Issuer: "test", Secret: []byte(secret)})
	require.NoError(t, err)
	b.tickets, err = token.NewTickets([]byte(identitySecret), "test")
	require.NoError(t, err)
	o := proxy.Options{
		Rooms: []proxy.Room{
			{
				Name: "sale", Protect: []route.Rule{{Paths: []string{"/order"}}}, Line: b.line, DefaultExempt: true,
				Exempt: []route.Rule{{Paths: []string{"/order/callback"}, Methods: []string{"POST"}}},
				Page:   page.Options{ShowNumbers: true},
			},
			{Name: "drop", Protect: []route.Rule{{Paths: []string{"/drop"}}}, Line: b.other},
		},
		Upstream: proxy.Upstream{URL: &url.URL{Scheme: "http", Host: b.shop.ln.Addr().String()}},
		Passes:   b.passes, Tickets: b.tickets, IdentitySecret: []byte(identitySecret),
		RedisTimeout: time.Minute, // the fake answers at once; a busy machine must not time out
		Log:          slog.New(slog.NewJSONHandler(b.log, nil)),
	}
	for _, f := range change {
		f(&o)
	}
	b.gate, err = proxy.New(o)
	require.NoError(t, err)
	b.server = httptest.NewUnstartedServer(b.served(b.gate))
	b.server.Config.DisableGeneralOptionsHandler = true // as the gate's own server
	b.server.Start()
	t.Cleanup(func() {
		b.shop.hangUp() // no request waits for it any more, also none that goes on without its client
		b.server.CloseClientConnections()
		b.server.Close()
		b.gate.Close()
	})
	return b
}

func trustLoopback(o *proxy.Options) {
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// reply is an answer of the gate, read to its end.
type reply struct {
	*http.Response
	text string
}

func (r reply) doc(t testing.TB) map[string]any {
	t.Helper()
	var d map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.text), &d), r.text)
	return d
}

// cookie returns the cookie of ours that the answer sets, without host prefix.
func (r reply) cookie(name string) *http.Cookie {
	for _, c := range r.Cookies() {
		if strings.TrimPrefix(c.Name, "__Host-") == name {
			return c
		}
	}
	return nil
}

// do sends a request; header lines are "Name: value", kept as spelled.
func (b *bench) do(method, target string, body string, lines ...string) reply {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(b.t, err)
	defer conn.Close()
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(soon)))
	_, err = io.WriteString(conn, raw(method, target, body, lines...))
	require.NoError(b.t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(b.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	_ = conn.Close()
	b.awaitOver(conn)
	got := reply{Response: resp, text: string(text)}
	b.holds(method, target, body, got)
	return got
}

// contract is the description of the visitor API that every answer of a bench is held
// against.
var contract = sync.OnceValues(func() (*openapitest.Contract, error) {
	return openapitest.New(openapi.Describe("/_queue"), "/_queue")
})

// holds asserts that an answer of ours is described.
func (b *bench) holds(method, target, body string, got reply) {
	b.t.Helper()
	path, _, _ := strings.Cut(target, "?")
	if !strings.HasPrefix(path, "/_queue") {
		return
	}
	c, err := contract()
	require.NoError(b.t, err)
	c.Check(b.t, openapitest.Exchange{
		Method: method, Path: path, Sent: []byte(body), Status: got.StatusCode, Header: got.Header, Body: []byte(got.text),
	})
}

// raw is a request as it goes over the wire.
func raw(method, target, body string, lines ...string) string {
	var s strings.Builder
	s.WriteString(method + " " + target + " HTTP/1.1\r\n")
	host := true
	for _, line := range lines {
		if strings.HasPrefix(line, "Host:") {
			host = false
		}
	}
	if host {
		s.WriteString("Host: shop.test\r\n")
	}
	for _, line := range lines {
		s.WriteString(line + "\r\n")
	}
	if body != "" {
		s.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	return s.String() + "\r\n" + body
}

func (b *bench) navigate(target string, lines ...string) reply {
	b.t.Helper()
	return b.do("GET", target, "", append(lines, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Accept: "+browserAccept)...)
}

func (b *bench) call(method, target, body string, lines ...string) reply {
	b.t.Helper()
	return b.do(method, target, body, append(lines, "Accept: application/json")...)
}

// admit joins somebody who is let in at once and returns the claimed token.
func (b *bench) admit() string {
	b.t.Helper()
	first := b.call("GET", "/order", "")
	require.Equal(b.t, 200, first.StatusCode, first.text)
	ready := first.Header.Get("X-Entry-Token")
	require.NotEmpty(b.t, ready)
	b.idle()
	second := b.call("GET", "/order", "", "X-Entry-Token: "+ready)
	require.Equal(b.t, 200, second.StatusCode)
	active := second.Header.Get("X-Entry-Token")
	require.NotEmpty(b.t, active)
	require.NotEqual(b.t, ready, active)
	b.idle()
	return active
}

// idle waits until no protected request is at the shop: an answer is read a moment
// before its request is over.
func (b *bench) idle() {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return !slices.ContainsFunc(b.gate.Loads(), func(l proxy.Load) bool { return l.InFlight > 0 })
	}, soon, time.Millisecond)
}

// fill takes every slot of the room sale, so that the next one waits.
func (b *bench) fill() {
	b.line.setSlots(0)
}

// pass signs an entry token of the room, changed as told.
func (b *bench) pass(change ...func(*token.Pass)) string {
	b.t.Helper()
	now := b.line.now
	p := token.Pass{
		Room: "sale", Admission: "adm1", Visitor: token.NewVisitor(), Stage: token.Active, Place: 1, Generation: 1, Epoch: 1,
		End: now.Add(time.Minute).UnixMilli(), IssuedAt: now, Expires: now.Add(55 * time.Second),
	}
	for _, f := range change {
		f(&p)
	}
	raw, err := b.passes.Sign(p)
	require.NoError(b.t, err)
	return raw
}
