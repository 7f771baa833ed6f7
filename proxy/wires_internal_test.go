package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const answerOfFour = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nshop"

// stall is a shop whose every connection the test takes and answers by hand.
type stall struct {
	t     *testing.T
	ln    net.Listener
	wires *wires
}

func newStall(t *testing.T) *stall {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &stall{t: t, ln: ln, wires: newWires(ln.Addr().String(), (&net.Dialer{}).DialContext, time.Minute)}
	t.Cleanup(func() {
		s.wires.close()
		_ = ln.Close()
	})
	return s
}

// seller is the shop's end of a connection.
type seller struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func newSeller(t *testing.T, c net.Conn) *seller {
	t.Cleanup(func() { _ = c.Close() })
	return &seller{Conn: c, t: t, in: bufio.NewReader(c)}
}

// next takes the next connection.
func (s *stall) next() *seller {
	s.t.Helper()
	require.NoError(s.t, s.ln.(*net.TCPListener).SetDeadline(time.Now().Add(20*time.Second)))
	c, err := s.ln.Accept()
	require.NoError(s.t, err, "no connection comes")
	require.NoError(s.t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return newSeller(s.t, c)
}

// nobody says that no connection has come that was not taken.
func (s *stall) nobody() {
	s.t.Helper()
	require.NoError(s.t, s.ln.(*net.TCPListener).SetDeadline(time.Now()))
	_, err := s.ln.Accept()
	require.ErrorContains(s.t, err, "timeout")
}

// hears reads a request.
func (s *seller) hears(method string) {
	s.t.Helper()
	r, err := http.ReadRequest(s.in)
	require.NoError(s.t, err)
	require.Equal(s.t, method, r.Method)
}

func (s *seller) says(text string) {
	s.t.Helper()
	_, err := io.WriteString(s, text)
	require.NoError(s.t, err)
}

// errand is a request on its way, and what came of it.
type errand struct {
	*trip
	client *httptest.ResponseRecorder
	resp   *http.Response
	text   string
	err    error
	done   chan struct{}
}

func newErrand() *errand {
	e := &errand{trip: &trip{}, client: httptest.NewRecorder(), done: make(chan struct{})}
	e.Context, e.cancel = context.WithCancelCause(context.Background())
	e.control = http.NewResponseController(e.client)
	return e
}

func (e *errand) request(method string) *http.Request {
	r := httptest.NewRequest(method, "http://shop.test/", nil).WithContext(e.trip)
	r.RequestURI, r.Body = "", nil
	return r
}

// run sends the request and reads the answer to its end.
func (e *errand) run(p *wires, method string) {
	defer close(e.done)
	if e.resp, e.err = p.RoundTrip(e.request(method)); e.err != nil {
		return
	}
	text, err := io.ReadAll(e.resp.Body)
	e.text, e.err = string(text), err
	_ = e.resp.Body.Close()
}

func (s *stall) asked(method string) *errand {
	e := newErrand()
	go e.run(s.wires, method)
	return e
}

func (e *errand) over(t *testing.T) *errand {
	t.Helper()
	select {
	case <-e.done:
	case <-time.After(20 * time.Second):
		require.Fail(t, "the request does not end")
	}
	return e
}

func (e *errand) answered(t *testing.T, text string) {
	t.Helper()
	e.over(t)
	require.NoError(t, e.err)
	require.Equal(t, text, e.text)
}

// kept returns the wires that are idle.
func (s *stall) kept() []*wire {
	s.wires.mu.Lock()
	defer s.wires.mu.Unlock()
	return append([]*wire(nil), s.wires.idle...)
}

// used makes one wire that has carried a request.
func (s *stall) used() *seller {
	s.t.Helper()
	e := s.asked("GET")
	c := s.next()
	c.hears("GET")
	c.says(answerOfFour)
	e.answered(s.t, "shop")
	require.Len(s.t, s.kept(), 1)
	return c
}

// disturbed waits until the only idle wire has something to read.
func (s *stall) disturbed() {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return !s.kept()[0].quiet() }, 20*time.Second, time.Millisecond)
}

func TestWireIsUsedAgain(t *testing.T) {
	s := newStall(t)
	c := s.used()
	for _, method := range []string{"GET", "POST", "HEAD"} {
		e := s.asked(method)
		c.hears(method)
		answer := answerOfFour
		if method == "HEAD" {
			answer = strings.TrimSuffix(answer, "shop")
		}
		c.says("HTTP/1.1 103 Early Hints\r\n\r\n" + answer)
		e.answered(t, strings.TrimPrefix(answer, strings.TrimSuffix(answerOfFour, "shop")))
	}
	s.nobody()
}

// What was said on a connection without being asked for would be the answer to whoever
// comes next: somebody else's cart, or a page of the sender's making.
func TestWhatTheShopSaysUnaskedIsNobodysAnswer(t *testing.T) {
	for name, unasked := range map[string]string{
		"it gives up on an idle connection": "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"one answer too many":               "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother",
		"half a line":                       "HTTP",
	} {
		t.Run(name+" later", func(t *testing.T) {
			s := newStall(t)
			s.used().says(unasked)
			s.disturbed()
			e := s.asked("POST")
			c := s.next()
			c.hears("POST")
			c.says(answerOfFour)
			e.answered(t, "shop")
		})
		t.Run(name+" at once", func(t *testing.T) {
			s := newStall(t)
			e := s.asked("GET")
			c := s.next()
			c.hears("GET")
			c.says(answerOfFour + unasked)
			e.answered(t, "shop")
			require.Empty(t, s.kept())
		})
	}
}

// Shops close what was idle for too long.
func TestWireThatTheShopClosedIsNotUsed(t *testing.T) {
	s := newStall(t)
	require.NoError(t, s.used().Close())
	s.disturbed()
	e := s.asked("POST")
	c := s.next()
	c.hears("POST")
	c.says(answerOfFour)
	e.answered(t, "shop")
}

// It may close a connection in the moment in which a request goes out on it.
func TestRequestIsRepeatedOnlyWhenThatChangesNothing(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} {
		t.Run(method, func(t *testing.T) {
			s := newStall(t)
			c := s.used()
			e := s.asked(method)
			c.hears(method)
			require.NoError(t, c.Close())
			c = s.next()
			c.hears(method)
			require.NoError(t, c.Close())
			e.over(t)
			require.Error(t, e.err, "a new connection is no idle one")
			s.nobody()
		})
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		t.Run(method, func(t *testing.T) {
			s := newStall(t)
			c := s.used()
			e := s.asked(method)
			c.hears(method)
			require.NoError(t, c.Close())
			e.over(t)
			require.Error(t, e.err, "the shop may have carried it out")
			s.nobody()
		})
	}
	t.Run("not when the answer has begun", func(t *testing.T) {
		s := newStall(t)
		c := s.used()
		e := s.asked("GET")
		c.hears("GET")
		c.says("HTTP/1.1 200")
		require.NoError(t, c.Close())
		e.over(t)
		require.ErrorIs(t, e.err, io.ErrUnexpectedEOF)
		s.nobody()
	})
}

func TestWireIsKeptOnlyWhenTheAnswerIsWholeAndMayBeFollowed(t *testing.T) {
	for name, tc := range map[string]struct{ answer, text string }{
		"the shop says close":       {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nshop", "shop"},
		"close without a body":      {"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", ""},
		"HTTP/1.0":                  {"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nshop", "shop"},
		"as long as it is open":     {"HTTP/1.1 200 OK\r\n\r\nshop", "shop"},
		"shorter than it says":      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nshop", "shop"},
		"chunks without an end":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nshop\r\n", "shop"},
		"no answer":                 {"garbage\r\n\r\n", ""},
		"another protocol, unasked": {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStall(t)
			e := s.asked("GET")
			c := s.next()
			c.hears("GET")
			c.says(tc.answer)
			require.NoError(t, c.CloseWrite())
			require.Equal(t, tc.text, e.over(t).text)
			require.Empty(t, s.kept())
			_, err := c.in.ReadByte()
			require.ErrorIs(t, err, io.EOF, "the connection is closed at this end too")
		})
	}
	t.Run("whoever does not read to the end", func(t *testing.T) {
		s := newStall(t)
		e := newErrand()
		answered := make(chan error)
		go func() {
			resp, err := s.wires.RoundTrip(e.request("GET"))
			if err == nil {
				err = resp.Body.Close()
			}
			answered <- err
		}()
		c := s.next()
		c.hears("GET")
		c.says("HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\nshop")
		require.NoError(t, <-answered)
		require.Empty(t, s.kept())
		_, err := c.in.ReadByte()
		require.Error(t, err)
	})
}

func (s *seller) CloseWrite() error { return s.Conn.(*net.TCPConn).CloseWrite() }

func TestRequestThatIsBrokenOffClosesItsWire(t *testing.T) {
	why := errors.New("enough")
	t.Run("before the answer", func(t *testing.T) {
		s := newStall(t)
		e := s.asked("GET")
		c := s.next()
		c.hears("GET")
		e.giveUp(why)
		require.ErrorIs(t, e.over(t).err, why)
		_, err := c.in.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	})
	t.Run("in the middle of its body", func(t *testing.T) {
		s := newStall(t)
		e := s.asked("GET")
		c := s.next()
		c.hears("GET")
		c.says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshop")
		e.giveUp(why)
		require.ErrorIs(t, e.over(t).err, why)
		_, err := c.in.ReadByte()
		require.Error(t, err, "it is closed, and what it said is not read")
	})
	t.Run("when it is over", func(t *testing.T) {
		s := newStall(t)
		e := s.asked("GET")
		c := s.next()
		c.hears("GET")
		c.says(answerOfFour)
		e.answered(t, "shop")
		e.giveUp(why)
		require.True(t, s.kept()[0].quiet(), "the wire is another's by then")
	})
	t.Run("before it has begun", func(t *testing.T) {
		s := newStall(t)
		c := s.used()
		e := newErrand()
		e.giveUp(why)
		e.run(s.wires, "GET")
		require.ErrorIs(t, e.err, why)
		_, err := c.in.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	})
}

// A shop that has no room for another connection still answers on those it has.
func TestRequestTakesTheWireThatComesFirst(t *testing.T) {
	s := newStall(t)
	full, dialling := make(chan struct{}), make(chan struct{}, 2)
	dial := s.wires.dial
	e := s.asked("GET")
	c := s.next()
	c.hears("GET")
	s.wires.dial = func(ctx context.Context) (net.Conn, error) {
		dialling <- struct{}{}
		<-full
		return dial(ctx)
	}
	waits, leaves := s.asked("GET"), s.asked("GET")
	<-dialling
	<-dialling
	why := errors.New("no time")
	leaves.giveUp(why)
	require.ErrorIs(t, leaves.over(t).err, why)
	c.says(answerOfFour)
	e.answered(t, "shop")
	c.hears("GET")
	c.says(answerOfFour)
	waits.answered(t, "shop")
	close(full)
	s.next()
	s.next()
	require.Eventually(t, func() bool { return len(s.kept()) == 3 }, 20*time.Second, time.Millisecond, "what was dialled is kept")
}

// Both may happen at once, and then either counts.
func TestWireForARequestThatEndsMeanwhileIsKept(t *testing.T) {
	p, _ := pipeStall(time.Minute)
	defer p.close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 64 {
		ours, _ := net.Pipe()
		waits := &waiter{got: make(chan *wire, 1)}
		waits.got <- newWire(ours, p)
		if w, err := p.await(ended, waits); err == nil {
			p.put(w)
		}
	}
	require.Len(t, p.idle, 64)
}

func TestEachWhoWaitsHearsThatTheShopIsNotThere(t *testing.T) {
	s := newStall(t)
	gone := errors.New("gone")
	s.wires.dial = func(context.Context) (net.Conn, error) { return nil, gone }
	var all []*errand
	for range 50 {
		all = append(all, s.asked("GET"))
	}
	for _, e := range all {
		require.ErrorIs(t, e.over(t).err, gone)
	}
}

func TestHeadOfAnAnswerIsBounded(t *testing.T) {
	s := newStall(t)
	e := s.asked("GET")
	c := s.next()
	c.hears("GET")
	var said atomic.Int64
	go func() {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		for line := "X: " + strings.Repeat("x", 1<<16) + "\r\n"; ; {
			n, err := io.WriteString(c, line)
			if said.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	require.ErrorIs(t, e.over(t).err, errLongHead)
	require.Less(t, said.Load(), int64(headMost+16<<20), "buffers of the system are full of it, at most")
}

// pipeStall is a stall under a clock of the test's, whose connections are never idle.
func pipeStall(timeout time.Duration) (*wires, chan net.Conn) {
	conns := make(chan net.Conn, 1)
	return newWires("shop", func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		conns <- theirs
		return ours, nil
	}, timeout), conns
}

func TestHeadOfAnAnswerHasItsTimeAndItsBodyHasAny(t *testing.T) {
	for name, tc := range map[string]struct {
		head, first, rest string
	}{
		"of known length": {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", "sh", "op"},
		"in chunks":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nsh", "op\r\n0\r\n\r\n"},
		"to the end":      {"HTTP/1.1 200 OK\r\n\r\n", "sh", "op"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, conns := pipeStall(time.Second)
				e := newErrand()
				go e.run(p, "GET")
				c := newSeller(t, <-conns)
				c.hears("GET")
				time.Sleep(time.Second - 1)
				c.says(tc.head)
				time.Sleep(time.Hour)
				c.says(tc.first)
				time.Sleep(time.Hour)
				c.says(tc.rest)
				_ = c.Close()
				e.answered(t, "shop")
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		p, conns := pipeStall(time.Second)
		e := newErrand()
		go e.run(p, "GET")
		newSeller(t, <-conns).hears("GET")
		before := time.Now()
		e.over(t)
		require.True(t, isTimeout(e.trip, e.err), "%v", e.err)
		require.Equal(t, time.Second+time.Second/16, time.Since(before))
	})
}

// The bound of one request is not set anew for the next one while it leaves it its time.
func TestEachRequestOfAWireHasTheWholeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		w := newWire(ours, nil)
		c := newSeller(t, theirs)
		sets := 0
		for i, tc := range []struct {
			pause, takes time.Duration
			sets         int
		}{
			{0, 0, 1}, {time.Second / 32, 0, 1}, {time.Second / 64, time.Second - 1, 1}, {0, time.Second - 1, 2}, {time.Second / 2, 0, 3},
			{time.Second / 2, time.Second - 1, 4}, {time.Hour, time.Second - 1, 5},
		} {
			time.Sleep(tc.pause)
			before := w.until
			e := newErrand()
			answered := make(chan error)
			go func() {
				_, err := w.exchange(e.request("GET"), time.Second)
				answered <- err
			}()
			c.hears("GET")
			time.Sleep(tc.takes)
			c.says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			require.NoError(t, <-answered, "request %d", i)
			if w.until != before {
				sets++
			}
			require.Equal(t, tc.sets, sets, "request %d", i)
		}
	})
}

// flushes counts what is sent to a client before the end.
type flushes struct {
	*httptest.ResponseRecorder
	n *atomic.Int64
}

func (f flushes) Flush() { f.n.Add(1) }

func TestPartOfABodyDoesNotWaitLongForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conns := pipeStall(time.Minute)
		e := newErrand()
		var sent atomic.Int64
		e.control = http.NewResponseController(flushes{e.client, &sent})
		go e.run(p, "GET")
		c := newSeller(t, <-conns)
		c.hears("GET")
		c.says("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n")
		for i, part := range []string{"sh", "op", "fu", "ll"} {
			time.Sleep(flushAfter - 1)
			synctest.Wait()
			require.EqualValues(t, i, sent.Load(), "not yet: the next part may be on its way")
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.EqualValues(t, i+1, sent.Load())
			c.says(part)
		}
		e.answered(t, "shopfull")
		require.EqualValues(t, 4, sent.Load(), "the end flushes itself")
	})
}

func TestWiresThatAreIdleForLongAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := pipeStall(time.Minute)
		put := func() (ended chan struct{}) {
			ours, theirs := net.Pipe()
			p.put(newWire(ours, p))
			ended = make(chan struct{})
			go func() {
				_, _ = theirs.Read(make([]byte, 1))
				close(ended)
			}()
			return ended
		}
		closed := func(c chan struct{}) bool {
			synctest.Wait()
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		first := put()
		time.Sleep(idleConnTimeout / 2)
		second := put()
		time.Sleep(idleConnTimeout/2 - 1)
		require.False(t, closed(first))
		time.Sleep(time.Nanosecond)
		require.True(t, closed(first))
		require.False(t, closed(second))
		time.Sleep(idleConnTimeout / 2)
		require.True(t, closed(second))

		time.Sleep(idleConnTimeout)
		third := put()
		p.close()
		require.True(t, closed(third))
		require.True(t, closed(put()), "nothing is kept any more")
	})
}

func TestOnlySoManyWiresAreKept(t *testing.T) {
	p, _ := pipeStall(time.Minute)
	defer p.close()
	var theirs []net.Conn
	for range idleConns + 1 {
		ours, other := net.Pipe()
		p.put(newWire(ours, p))
		theirs = append(theirs, other)
	}
	require.Len(t, p.idle, idleConns)
	_, err := theirs[idleConns].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// Which requests go by a wire: the rest of the tests of this package see to it that
// nobody can tell the difference.
func TestWiresCarryWhatHasNoBody(t *testing.T) {
	s := newShop(Upstream{URL: &url.URL{Scheme: "http", Host: "shop"}}.withDefaults(), nil)
	plain := func(method string, change ...func(*http.Request)) *http.Request {
		r := httptest.NewRequest(method, "/", nil)
		for _, f := range change {
			f(r)
		}
		return r
	}
	require.Equal(t, s.wired, s.way(plain("GET")))
	require.Equal(t, s.wired, s.way(plain("POST")))
	require.Equal(t, s.proxy, s.way(plain("GET", func(r *http.Request) { r.Header.Set("Upgrade", "websocket") })))
	require.Equal(t, s.proxy, s.way(plain("POST", func(r *http.Request) { r.ContentLength = 1 })))
	require.Equal(t, s.proxy, s.way(plain("GET", func(r *http.Request) { r.ContentLength = -1 })))
	secure := newShop(Upstream{URL: &url.URL{Scheme: "https", Host: "shop"}}.withDefaults(), nil)
	require.Equal(t, secure.proxy, secure.way(plain("GET")))
	inside := newShop(Upstream{Handler: http.NotFoundHandler()}.withDefaults(), slog.New(slog.DiscardHandler))
	require.Equal(t, inside.proxy, inside.way(plain("GET")))
	for at, dialled := range map[string]string{"shop": "shop:80", "shop:8080": "shop:8080", "[::1]": "[::1]:80", "[::1]:81": "[::1]:81", "bücher.example": "xn--bcher-kva.example:80"} {
		addr, ok := Upstream{URL: &url.URL{Scheme: "http", Host: at}}.wired()
		require.True(t, ok)
		require.Equal(t, dialled, addr)
	}
}

// Many at once, of which some are broken off and some connections closed: nobody gets
// another's answer.
func TestNobodyGetsTheAnswerToAnothersRequest(t *testing.T) {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Do") {
		case "close":
			w.Header().Set("Connection", "close")
		case "break":
			_, _ = io.WriteString(w, r.Header.Get("Who"))
			panic(http.ErrAbortHandler)
		case "long":
			w.Header().Set("Content-Length", "65536")
			_, _ = io.WriteString(w, r.Header.Get("Who")+strings.Repeat("x", 1<<15))
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<15-len(r.Header.Get("Who"))))
			return
		}
		_, _ = io.WriteString(w, r.Header.Get("Who"))
	}))
	defer shop.Close()
	p := newWires(shop.Listener.Addr().String(), (&net.Dialer{}).DialContext, time.Minute)
	defer p.close()
	var all sync.WaitGroup
	wrong := make([]string, 16)
	for i := range wrong {
		all.Go(func() {
			for j := range 60 {
				e := newErrand()
				r := e.request("GET")
				who := strings.Repeat(string(rune('a'+i)), 1+j)
				r.Header.Set("Who", who)
				do := []string{"", "close", "break", "long", "leave"}[(i+j)%5]
				r.Header.Set("Do", do)
				if do == "leave" {
					go e.giveUp(context.Canceled)
				}
				resp, err := p.RoundTrip(r)
				if err != nil {
					if do == "" || do == "close" || do == "long" {
						wrong[i] = err.Error()
					}
					continue
				}
				text, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if got := strings.TrimRight(string(text), "x"); got != who && do != "break" && do != "leave" {
					wrong[i] = got
				} else if !strings.HasPrefix(who, got) {
					wrong[i] = got
				}
			}
		})
	}
	all.Wait()
	for i, got := range wrong {
		require.Empty(t, got, "asker %c", 'a'+i)
	}
}
