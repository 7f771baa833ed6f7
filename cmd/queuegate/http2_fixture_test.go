package main_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Client is a connection of HTTP/2 whose frames a test writes: no library mends
// what goes out or comes back.
type h2Client struct {
	t      testing.TB
	conn   net.Conn
	framer *http2.Framer
	ended  chan struct{} // closed when nothing can be read any more

	mu       sync.Mutex // everything below, and writing
	changed  *sync.Cond
	enc      *hpack.Encoder
	block    bytes.Buffer
	next     uint32
	settings map[http2.SettingID]uint32
	windows  map[uint32]int64 // what may still be sent; 0 is the connection
	streams  map[uint32]*h2Stream
	fault    error // why nothing comes any more
}

// h2Stream is what has come back on a stream.
type h2Stream struct {
	heads []map[string][]string // of 1xx, of the answer, and its trailers; names as they came
	body  []byte
	// ended is how it ended: "whole" or the code of the reset; empty while it goes on.
	ended string
}

func (s h2Stream) status() string {
	for _, head := range s.heads {
		if code := head[":status"]; len(code) == 1 && code[0] >= "200" {
			return code[0]
		}
	}
	return ""
}

// dialH2 connects to a server that speaks HTTP/2 at once, or by ALPN where its
// address begins with https.
func dialH2(t testing.TB, address string) *h2Client {
	t.Helper()
	scheme, host, _ := strings.Cut(address, "://")
	conn, err := net.DialTimeout("tcp", host, patience)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	if scheme == "https" {
		over := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}) //nolint:gosec // its own
		require.NoError(t, over.HandshakeContext(t.Context()))
		require.Equal(t, "h2", over.ConnectionState().NegotiatedProtocol)
		conn = over
	}
	c := &h2Client{
		t: t, conn: conn, framer: http2.NewFramer(conn, conn), ended: make(chan struct{}), next: 1,
		settings: map[http2.SettingID]uint32{}, windows: map[uint32]int64{0: 65_535}, streams: map[uint32]*h2Stream{},
	}
	c.changed = sync.NewCond(&c.mu)
	c.enc = hpack.NewEncoder(&c.block)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err = io.WriteString(conn, http2.ClientPreface)
	require.NoError(t, err)
	require.NoError(t, c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}))
	require.NoError(t, c.framer.WriteWindowUpdate(0, 1<<30))
	go c.read()
	t.Cleanup(c.close)
	c.await("the settings", func() bool { return len(c.settings) > 0 })
	return c
}

func (c *h2Client) close() {
	_ = c.conn.Close()
	<-c.ended
}

func (c *h2Client) read() {
	defer close(c.ended)
	for {
		f, err := c.framer.ReadFrame()
		c.mu.Lock()
		if err == nil {
			err = c.take(f)
		}
		if err != nil {
			c.fault = err
		}
		c.changed.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take notes a frame.
func (c *h2Client) take(f http2.Frame) error {
	s := c.streams[f.Header().StreamID]
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if err := f.ForeachSetting(func(s http2.Setting) error {
			c.settings[s.ID] = s.Val
			return nil
		}); err != nil {
			return err
		}
		return c.framer.WriteSettingsAck()
	case *http2.PingFrame:
		return c.framer.WritePing(true, f.Data)
	case *http2.WindowUpdateFrame:
		c.windows[f.StreamID] += int64(f.Increment)
	case *http2.GoAwayFrame:
		return fmt.Errorf("GOAWAY %s %s", f.ErrCode, f.DebugData())
	case *http2.MetaHeadersFrame:
		if s != nil {
			head := map[string][]string{}
			for _, field := range f.Fields {
				head[field.Name] = append(head[field.Name], field.Value)
			}
			s.heads = append(s.heads, head)
			if f.StreamEnded() {
				s.ended = "whole"
			}
		}
	case *http2.DataFrame:
		if s != nil {
			s.body = append(s.body, f.Data()...)
			if f.StreamEnded() {
				s.ended = "whole"
			}
		}
	case *http2.RSTStreamFrame:
		if s != nil && s.ended == "" {
			s.ended = f.ErrCode.String()
		}
	}
	return nil
}

// await waits for what the frames bring about.
func (c *h2Client) await(what string, condition func() bool) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !condition() {
		require.NoError(c.t, c.fault, "%s does not come", what)
		c.changed.Wait() // the connection has a deadline
	}
}

// begin opens a stream with these fields, as they are and in this order.
func (c *h2Client) begin(last bool, fields ...string) (id uint32) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	id = c.next
	c.next += 2
	c.streams[id] = &h2Stream{}
	c.windows[id] = int64(c.settings[http2.SettingInitialWindowSize])
	if c.windows[id] == 0 {
		c.windows[id] = 65_535
	}
	c.head(id, last, fields)
	return id
}

func (c *h2Client) head(id uint32, last bool, fields []string) {
	c.t.Helper()
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		require.NoError(c.t, c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	require.NoError(c.t, c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: c.block.Bytes(), EndStream: last, EndHeaders: true,
	}))
}

// trailers ends a stream with these fields.
func (c *h2Client) trailers(id uint32, fields ...string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head(id, true, fields)
}

// data sends as fast as the other side takes it.
func (c *h2Client) data(id uint32, last bool, text string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		n := min(int64(len(text)), 16<<10, c.windows[id], c.windows[0])
		if n > 0 || text == "" {
			require.NoError(c.t, c.framer.WriteData(id, last && int(n) == len(text), []byte(text[:n])))
			c.windows[id] -= n
			c.windows[0] -= n
			if text = text[n:]; text == "" {
				return
			}
			continue
		}
		if c.streams[id].ended != "" {
			return // it is not wanted any more
		}
		require.NoError(c.t, c.fault, "no room for the body")
		c.changed.Wait()
	}
}

// reset breaks a stream off.
func (c *h2Client) reset(id uint32) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NoError(c.t, c.framer.WriteRSTStream(id, http2.ErrCodeCancel))
}

// got is what has come on a stream so far.
func (c *h2Client) got(id uint32) h2Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *c.streams[id]
}

// end waits for the end of a stream.
func (c *h2Client) end(id uint32) h2Stream {
	c.t.Helper()
	c.await(fmt.Sprintf("the end of stream %d", id), func() bool { return c.streams[id].ended != "" })
	return c.got(id)
}

// to are the fields that every request begins with.
func to(method, path string, more ...string) []string {
	return append([]string{":method", method, ":scheme", "https", ":authority", "shop.test:8443", ":path", path}, more...)
}

// h2Shop is a shop that speaks HTTP/2 to whoever comes directly, with TLS and
// without, and HTTP/1.1 to the gate. It notes each request to its end.
type h2Shop struct {
	plain, tls string
	mu         sync.Mutex
	answer     http.HandlerFunc
	seen       []requestSeen
}

func newH2Shop(t *testing.T) *h2Shop {
	s := &h2Shop{}
	start := func(begin func(*httptest.Server)) *httptest.Server {
		server := httptest.NewUnstartedServer(s)
		server.EnableHTTP2 = true
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetHTTP1(true)
		server.Config.Protocols.SetHTTP2(true)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		begin(server)
		endWith(t, server)
		return server
	}
	s.plain = start((*httptest.Server).Start).URL
	s.tls = start((*httptest.Server).StartTLS).URL
	return s
}

func (s *h2Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	answer(w, r)
}

// does makes the shop answer by h, which may call note, and forgets what it saw.
func (s *h2Shop) does(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.seen = h, nil
}

// note reads a request to its end and keeps it.
func (s *h2Shop) note(r *http.Request) {
	body, err := io.ReadAll(r.Body)
	header := r.Header.Clone()
	delete(header, "Content-Length") // where a body ends is said in the way of each version of HTTP
	if err != nil {
		body = append(body, " broken off"...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, requestSeen{
		Line: r.Method + " " + r.RequestURI, Host: r.Host, Framing: fmt.Sprint(r.ContentLength),
		Body: string(body), Header: header, Trailer: r.Trailer,
	})
}

func (s *h2Shop) requests() []requestSeen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]requestSeen(nil), s.seen...)
}
