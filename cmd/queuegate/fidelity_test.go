package main_test

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The differences that the gate may make between a request or an answer and the
// same one on a direct connection. Spelling and order of header names are not
// compared: HTTP gives them no meaning. The shop's word for a status is not
// passed on, nor its version of HTTP.
var (
	addedToRequest  = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"}
	addedToAdmitted = []string{"X-Queuegate-Room", "X-Queuegate-Visitor", "X-Queuegate-Admission"}
	takenOfRequest  = []string{"Connection", "Keep-Alive", "Proxy-Connection", "X-Entry-Token"}
	takenOfAnswer   = []string{"Connection", "Keep-Alive", "X-Queuegate-Command", "X-Queuegate-Stock"}
	addedToAnswer   = []string{"Date"} // when the shop gave none
)

// played is a request and an answer as the other side got them.
type played struct {
	request requestSeen
	answers []answerSeen // 1xx and the last
}

type requestSeen struct {
	Line, Host, Framing, Body string
	Header, Trailer           http.Header
}

type answerSeen struct {
	Code            int
	Body            string
	Length          int64
	Header, Trailer http.Header
}

// tape is a shop that gives one answer, byte for byte, and keeps what it was asked.
type tape struct {
	address string
	mu      sync.Mutex
	answer  string
	seen    []requestSeen
}

func newTape(t *testing.T) *tape {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &tape{address: listener.Addr().String()}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

// lasting is an answer after which a connection stays open. One that were closed
// without a word could be taken for the next request and lose it.
var lasting = regexp.MustCompile(`(?i)\r\ncontent-length:|\r\ntransfer-encoding: *chunked|HTTP/1.1 (204|304) `)

func (s *tape) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for s.serveOne(conn, r) {
	}
}

// serveOne answers one request and reports whether another may follow.
func (s *tape) serveOne(conn net.Conn, from *bufio.Reader) bool {
	r, err := http.ReadRequest(from)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, requestSeen{
		Line: r.Method + " " + r.RequestURI, Host: r.Host, Framing: fmt.Sprint(r.ContentLength, r.TransferEncoding),
		Body: string(body), Header: r.Header, Trailer: r.Trailer,
	})
	_, err = io.WriteString(conn, s.answer)
	return err == nil && lasting.MatchString(s.answer)
}

// play sends a request to address and returns what each side got.
func (s *tape) play(t *testing.T, address, request, answer string) played {
	t.Helper()
	s.mu.Lock()
	s.answer, s.seen = answer, nil
	s.mu.Unlock()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	method, _, _ := strings.Cut(request, " ")
	p := played{}
	r := bufio.NewReader(conn)
	for len(p.answers) == 0 || p.answers[len(p.answers)-1].Code < 200 {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		p.answers = append(p.answers, answerSeen{Code: resp.StatusCode, Body: string(body), Length: resp.ContentLength, Header: resp.Header, Trailer: resp.Trailer})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Len(t, s.seen, 1)
	p.request = s.seen[0]
	return p
}

func without(h http.Header, names ...string) http.Header {
	h = maps.Clone(h)
	for _, name := range names {
		delete(h, name)
	}
	return h
}

// tapes are requests (PATH is replaced) and what the shop answers.
var tapes = []struct{ name, request, answer string }{
	{
		"duplicate and empty headers, cookies in their order, an odd query",
		"GET PATH?a=1;b=2&q=%zz&q=100%&x=%2B+%20 HTTP/1.1\r\nHost: shop.test:8080\r\nX-Twice: 1\r\nX-Twice: 2\r\nX-Empty:\r\nCookie: a=1; b=\"2 3\"\r\nCookie: c=3\r\n" +
			"Accept-Encoding: br;q=1.0, *;q=0\r\nConnection: close, X-Hop\r\nUser-Agent: x\r\n\r\n",
		"HTTP/1.1 200 Fine\r\nSet-Cookie: s1=1\r\nSet-Cookie: s2=2; Path=/x\r\nVary: A\r\nVary: B\r\nWWW-Authenticate: Basic realm=\"a\"\r\nWWW-Authenticate: Bearer\r\n" +
			"Cache-Control: public, max-age=60\r\nX-Queuegate-Stock: 3\r\nContent-Type: text/x; charset=odd\r\nContent-Length: 3\r\n\r\na\x00b",
	},
	{"no User-Agent and no Accept", "GET PATH HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	{"HTTP/1.0", "GET PATH HTTP/1.0\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{"HTTP/1.0 with a body, and with its connection kept", "POST PATH HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nbody", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
	{"chunks for a client of HTTP/1.0, which knows none", "GET PATH HTTP/1.0\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
	{"an answer of HTTP/1.0 that ends with its connection", "GET PATH HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Type: x/y\r\n\r\nto the end"},
	{"a body of no bytes", "POST PATH HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 201 Created\r\nLocation: /x/../y//z\r\nContent-Length: 0\r\n\r\n"},
	{
		"a body with a length, in gzip", "PUT PATH HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n\x1f\x8b\x08\x00z",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nETag: W/\"1\"\r\nContent-Length: 5\r\n\r\n\x1f\x8b\x08\x00y",
	},
	{
		"chunks and trailers both ways",
		"PATCH PATH HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nX-Sum: 7\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, X-More\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 2\r\nX-More: a\r\n\r\n",
	},
	{"a HEAD with the length of its GET", "HEAD PATH HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: \"e\"\r\n\r\n"},
	{
		"a conditional GET", "GET PATH HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"e\", W/\"f\"\r\nIf-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nCache-Control: max-age=5\r\nVary: Accept\r\n\r\n",
	},
	{
		"early hints", "GET PATH HTTP/1.1\r\nHost: h\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nLink: </b.js>; rel=preload\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </c>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n.",
	},
	{"a range", "GET PATH HTTP/1.1\r\nHost: h\r\nRange: bytes=1-2\r\nIf-Range: \"e\"\r\n\r\n", "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1-2/9\r\nAccept-Ranges: bytes\r\nContent-Length: 2\r\n\r\nbc"},
	{"no content", "DELETE PATH HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"},
	{"an error of the shop", "GET PATH HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 503 Down\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\ndown"},
	{"a redirect", "GET PATH HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9000//x?y=%zz#f\r\nContent-Length: 0\r\n\r\n"},
	{"a method of WebDAV with a body", "PROPFIND PATH HTTP/1.1\r\nHost: h\r\nDepth: 1\r\nContent-Length: 4\r\n\r\n<a/>", "HTTP/1.1 207 Multi-Status\r\nContent-Length: 4\r\n\r\n<b/>"},
	{"two dates of the shop's own", "GET PATH HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: old\r\nContent-Length: 0\r\n\r\n"},
	{"an answer without a type", "GET PATH HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"},
}

// TestWhatPassesIsAsOnADirectConnection compares each tape played directly with
// the same through the gate, on a route that nobody guards and on one with a pass.
func TestWhatPassesIsAsOnADirectConnection(t *testing.T) {
	t.Parallel()
	shop := newTape(t)
	// So long that no pass is renewed while the tapes play: its new cookie is the gate's.
	g := startGate(t, writeConfig(t, plan{rooms: room("total_active_users: 9, session_duration: 1h")}, "http://"+shop.address, ""))
	g.waitReady(t)
	holder := newApp(t)
	got, err := holder.join(g, nil)
	require.NoError(t, err)
	require.Equal(t, "ready", got.doc.Status)
	claimed := shop.play(t, strings.TrimPrefix(g.url, "http://"), "GET /checkout HTTP/1.1\r\nHost: h\r\nX-Entry-Token: "+holder.pass+"\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	pass := "X-Entry-Token: " + claimed.answers[0].Header.Get("X-Entry-Token") + "\r\n"

	for _, tape := range tapes {
		for _, route := range []struct {
			path, line string
			added      []string
		}{{"/a%2Fb//c", "", nil}, {"/checkout/a%2fb", pass, addedToAdmitted}} {
			t.Run(tape.name+" at "+route.path, func(t *testing.T) {
				request := strings.Replace(strings.Replace(tape.request, "PATH", route.path, 1), "\r\n", "\r\n"+route.line, 1)
				direct := shop.play(t, shop.address, request, tape.answer)
				through := shop.play(t, strings.TrimPrefix(g.url, "http://"), request, tape.answer)

				for _, name := range slices.Concat(addedToRequest, route.added) {
					require.Len(t, through.request.Header[name], 1, name)
				}
				direct.request.Header = without(direct.request.Header, takenOfRequest...)
				through.request.Header = without(through.request.Header, slices.Concat(addedToRequest, route.added)...)
				require.Equal(t, direct.request, through.request)

				require.Len(t, through.answers, len(direct.answers))
				for i := range direct.answers {
					d, g := &direct.answers[i], &through.answers[i]
					d.Header = without(d.Header, takenOfAnswer...)
					for _, name := range addedToAnswer {
						if d.Header[name] == nil {
							g.Header = without(g.Header, name)
						}
					}
					g.Header = without(g.Header, "Connection")
					if d.Length < 0 || g.Length < 0 { // an answer that ends with its connection, or in chunks
						require.Equal(t, d.Length, g.Length)
					}
					require.Equal(t, *d, *g)
				}
			})
		}
	}
}

// count reads to the end and returns how much there was and its checksum.
func count(r io.Reader) (string, error) {
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, r)
	return fmt.Sprintf("%d %08x", n, sum.Sum32()), err
}

// pattern is a stream that repeats itself after so odd a number of bytes that a
// buffer sent twice or not at all shows.
type pattern struct{ left, at int64 }

var patternBlock = func() []byte {
	b := make([]byte, 65_537)
	for i := range b {
		b[i] = byte(i * 2654435761 >> 16)
	}
	return b
}()

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(int64(len(b)), p.left)], patternBlock[p.at%int64(len(patternBlock)):])
	p.left, p.at = p.left-int64(n), p.at+int64(n)
	return n, nil
}

// memory is the most resident memory that a process has had, in MiB.
func memory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	require.NotNil(t, found)
	kb, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kb >> 10
}

func TestGigabytesPassThroughWithoutBeingKept(t *testing.T) {
	t.Parallel()
	const size = 1 << 30
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.Copy(w, &pattern{left: size})
			return
		}
		sum, err := count(r.Body)
		fmt.Fprint(w, sum, " ", err)
	}))
	endWith(t, shop)
	g := startGate(t, writeConfig(t, plan{rooms: room("total_active_users: 9")}, shop.URL, ""))
	client := newClient(t)
	mustSend(t, client, request{method: "POST", url: g.url + "/x", body: "warm"})
	want, err := count(&pattern{left: size})
	require.NoError(t, err)
	before := memory(t, g.cmd.Process.Pid)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, g.url+"/upload", &pattern{left: size})
	require.NoError(t, err)
	resp, err := (&http.Client{}).Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, want+" <nil>", string(text))

	req, err = http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/download", nil)
	require.NoError(t, err)
	resp, err = (&http.Client{}).Do(req)
	require.NoError(t, err)
	got, err := count(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, want, got)
	require.Less(t, memory(t, g.cmd.Process.Pid)-before, 64, "MiB more than before, for 2 GiB")
}

// TestStreamsOutliveEveryTimeoutOfTheShop holds a WebSocket and an event stream
// quiet until a request of the same age was broken off by each timeout.
func TestStreamsOutliveEveryTimeoutOfTheShop(t *testing.T) {
	t.Parallel()
	next := make(chan struct{}, 3)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		switch r.URL.Path {
		case "/slow":
			<-r.Context().Done()
		case "/slow-body":
			_, _ = io.WriteString(w, "begun")
			_ = control.Flush()
			<-r.Context().Done()
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				_ = control.Flush()
				select {
				case <-next:
				case <-r.Context().Done():
					return
				}
			}
		default:
			conn, rw, err := control.Hijack()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(conn, rw)
		}
	}))
	endWith(t, shop)
	g := startGate(t, writeConfig(t, plan{
		rooms: room("total_active_users: 9"), upstream: ", dial_timeout: 5s, response_timeout: 5s, max_request: 6s",
	}, shop.URL, ""))
	address := strings.TrimPrefix(g.url, "http://")

	socket, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = socket.Close() }()
	require.NoError(t, socket.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(socket, "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	require.NoError(t, err)
	socketReader := bufio.NewReader(socket)
	resp, err := http.ReadResponse(socketReader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	echo := func(text string) {
		_, err := io.WriteString(socket, text)
		require.NoError(t, err)
		back := make([]byte, len(text))
		_, err = io.ReadFull(socketReader, back)
		require.NoError(t, err)
		require.Equal(t, text, string(back))
	}
	echo("\x81\x02hi")

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/events", nil)
	require.NoError(t, err)
	stream, err := (&http.Client{}).Do(req)
	require.NoError(t, err)
	defer func() { _ = stream.Body.Close() }()
	events := bufio.NewReader(stream.Body)
	event := func(want string) {
		line, err := events.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, want, line)
		_, err = events.ReadString('\n')
		require.NoError(t, err)
	}
	event("data: 0\n") // before the shop is told to write the next

	client := newClient(t)
	broken := make(chan error, 1)
	go func() {
		_, err := send(client, request{method: "GET", url: g.url + "/slow-body"})
		broken <- err
	}()
	require.Equal(t, http.StatusGatewayTimeout, mustSend(t, client, request{method: "GET", url: g.url + "/slow"}).code)
	require.Error(t, soon(t, broken, "the end of the body"), "broken off by max_request, and seen to be")

	echo("\x81\x05after")
	next <- struct{}{}
	event("data: 1\n")
	next <- struct{}{}
	event("data: 2\n")
	next <- struct{}{}
	_, err = events.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}
