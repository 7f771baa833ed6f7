package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/token"
)

// crowd is how many clients of one kind come at once.
const crowd = 100

// door is the gate's own server on connections in memory, whose time is made up. A
// write there waits until it is read.
type door struct {
	*Server
	t     *testing.T
	gate  *Gate
	conns chan net.Conn
	over  chan struct{}
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.over:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error   { return nil }
func (d *door) Addr() net.Addr { return &net.UnixAddr{} }

func newDoor(t *testing.T) *door {
	passes, err := token.New(token.Options{Issuer: "test", Secret: []byte(testSecret)})
	require.NoError(t, err)
	tickets, err := token.NewTickets([]byte(testSecret), "test")
	require.NoError(t, err)
	gate, err := New(Options{
		Upstream: Upstream{URL: &url.URL{Scheme: "http", Host: "shop.invalid"}},
		Rooms:    []Room{{Name: "sale", Protect: []route.Rule{{Paths: []string{"/order"}}}, Suspended: true}},
		Passes:   passes, Tickets: tickets, IdentitySecret: []byte(testSecret),
	})
	require.NoError(t, err)
	s, err := NewServer(ServerOptions{Listen: ":0", Public: gate, H2C: true})
	require.NoError(t, err)
	d := &door{Server: s, t: t, gate: gate, conns: make(chan net.Conn), over: make(chan struct{})}
	go func() { _ = s.public.Serve(d) }()
	t.Cleanup(func() {
		close(d.over)
		_ = s.public.Close()
	})
	return d
}

func (d *door) dial() net.Conn {
	client, server := net.Pipe()
	d.conns <- server
	return client
}

// honest asks as a visitor does and is answered without any time passing.
func (d *door) honest() {
	began, c := time.Now(), d.dial()
	_, err := io.WriteString(c, "GET /_queue/sale/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	require.NoError(d.t, err)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(d.t, err)
	require.Equal(d.t, 200, answer.StatusCode)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(d.t, err)
	require.NoError(d.t, c.Close())
	require.Zero(d.t, time.Since(began))
}

// dribble sends begin and then more every second, reads nothing, and returns when
// the gate has had enough.
func dribble(c net.Conn, begin, more string) {
	for text := begin; ; text = more {
		if _, err := io.WriteString(c, text); err != nil {
			_ = c.Close()
			return
		}
		time.Sleep(time.Second)
	}
}

func TestFloodOfClientsThatDribbleIsBoundedAndDelaysNobody(t *testing.T) {
	const get = "GET /_queue/sale/status HTTP/1.1\r\nHost: x\r\n"
	post := func(path string, length int) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", path, length)
	}
	for _, tc := range []struct {
		name  string
		bound time.Duration
		flood func(c net.Conn)
	}{
		{"heads", readHeaderTimeout, func(c net.Conn) { dribble(c, get, "X: y\r\n") }},
		{"heads of a second request", readHeaderTimeout, func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			dribble(c, get+"\r\n"+get, "X: y\r\n")
		}},
		{"connections that say nothing", readHeaderTimeout, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }},
		{"bodies of joins", joinTime + bodyTime + answerTime, func(c net.Conn) { dribble(c, post("/_queue/sale/join", maxJoinBody), " ") }},
		{"bodies of joins, in chunks", joinTime + bodyTime + answerTime, func(c net.Conn) {
			dribble(c, "POST /_queue/sale/join HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n")
		}},
		{"bodies that are refused", bodyTime + answerTime, func(c net.Conn) { dribble(c, post("/_queue/none", 100), "x") }},
		{"bodies that are refused and too long to be read", answerTime + lingerTime, func(c net.Conn) { dribble(c, post("/_queue/none", lingerBody), "x") }},
		{"bodies that are refused, by clients that read", bodyTime + lingerTime, func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			dribble(c, post("/_queue/none", 100), "x")
		}},
		{"answers that are not read", answerTime, func(c net.Conn) { dribble(c, get+"\r\n", "\n") }},
		{"HTTP/2: answers for which there is no room", answerTime, func(c net.Conn) {
			reset := map[uint32]bool{}
			f := begin2(c, http2.Setting{ID: http2.SettingInitialWindowSize})
			const streams = 12
			for id := uint32(1); id < 2*streams; id += 2 {
				open2(f, id, "GET", "/_queue/sale/status")
			}
			for len(reset) < streams {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				switch frame := frame.(type) {
				case *http2.RSTStreamFrame:
					reset[frame.StreamID] = true
				case *http2.PingFrame:
					_ = f.WritePing(true, frame.Data)
				}
			}
			_ = c.Close()
		}},
		{"HTTP/2: clients that send and read nothing", pingAfter + pingTimeout, func(c net.Conn) {
			f := begin2(c)
			open2(f, 1, "GET", "/_queue/sale/status")
			for f.WriteWindowUpdate(0, 1) == nil {
				time.Sleep(time.Second)
			}
		}},
		{"HTTP/2: bodies of joins", joinTime, func(c net.Conn) {
			go func() { _, _ = io.Copy(io.Discard, c) }()
			f := begin2(c)
			open2(f, 1, "POST", "/_queue/sale/join")
			for range int(joinTime / time.Second) {
				_ = f.WriteData(1, false, []byte(" "))
				time.Sleep(time.Second)
			}
			_ = c.Close()
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDoor(t)
				var flood sync.WaitGroup
				began := time.Now()
				for range crowd {
					c := d.dial()
					flood.Go(func() { tc.flood(c) })
				}
				synctest.Wait()
				d.honest()
				time.Sleep(time.Second)
				d.honest()
				flood.Wait()
				require.LessOrEqual(t, time.Since(began), tc.bound+2*time.Second)
				synctest.Wait()
				require.Zero(t, d.running.count(), "requests go on")
				d.honest()
			})
		})
	}
}

// slowShop answers with a body that takes longer than an answer of ours may.
type slowShop struct{}

func (slowShop) RoundTrip(r *http.Request) (*http.Response, error) {
	from, to := io.Pipe()
	go func() {
		time.Sleep(2 * answerTime)
		_, _ = io.WriteString(to, "shop")
		_ = to.Close()
	}()
	return &http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: 4, Body: from, Request: r}, nil
}

// The bounds are of one answer and one body of ours: the connection goes on, and what
// comes from the shop has its time.
func TestConnectionOutlivesTheDeadlinesOfItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		d.gate.shop.proxy.Transport, d.gate.shop.wired.Transport = slowShop{}, slowShop{}
		c := d.dial()
		r := bufio.NewReader(c)
		for range 3 {
			for _, head := range []string{"GET /_queue/sale/status", "GET /public", "POST /_queue/sale/join", "POST /public", "POST /_queue/none"} {
				_, err := io.WriteString(c, head+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
				require.NoError(t, err)
				answer, err := http.ReadResponse(r, nil)
				require.NoError(t, err, head)
				text, err := io.ReadAll(answer.Body)
				require.NoError(t, err, head)
				require.Equal(t, strings.HasSuffix(head, "/public"), string(text) == "shop", head)
				require.False(t, answer.Close)
				time.Sleep(answerTime / 3)
			}
		}
		require.NoError(t, c.Close())
	})
}

// begin2 begins a connection of HTTP/2.
func begin2(c net.Conn, settings ...http2.Setting) *http2.Framer {
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	_ = f.WriteSettings(settings...)
	return f
}

// open2 sends the head of a request.
func open2(f *http2.Framer, id uint32, method, path string) {
	var block bytes.Buffer
	h := hpack.NewEncoder(&block)
	for _, field := range []string{":method " + method, ":path " + path, ":scheme http", ":authority x"} {
		name, value, _ := strings.Cut(field, " ")
		_ = h.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: method == "GET", EndHeaders: true})
}
