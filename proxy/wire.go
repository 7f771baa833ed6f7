package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"time"
)

// headMost bounds the head of an answer of the shop, as net/http bounds it.
const headMost = 10 << 20

var (
	errLongHead = errors.New("proxy: the head of the shop's answer is longer than 10 MiB")
	errUnasked  = errors.New("proxy: the shop switched protocols without being asked")
)

// wire is one connection to the shop. It carries one request at a time, which has no
// body, and the answer, whose reader brings it back to where it came from.
//
// What goes over it is written and read by net/http. What http.Transport adds are two
// goroutines a connection, by which a body can go out while an answer comes in; each
// request wakes both of them and is woken by both. Without a body there is nothing to
// do at the same time.
type wire struct {
	net.Conn
	from  *wires
	in    *bufio.Reader
	out   *bufio.Writer
	quiet func() bool // whether nothing has come in and the other end is there
	left  int64       // how much of a head may still be read; no bound while negative
	heard bool        // something came in since the request went out
	again bool        // it has carried a request before
	trip  *trip       // that it carries
	held  bool        // the client has not been sent all that was read of a body
	since time.Time   // when it became idle
	until time.Time   // when reading gives up
}

func newWire(c net.Conn, from *wires) *wire {
	w := &wire{Conn: c, from: from, quiet: quietness(c)}
	w.in, w.out = bufio.NewReader(w), bufio.NewWriter(c)
	return w
}

// Read implements io.Reader for what reads ahead.
func (w *wire) Read(p []byte) (int, error) {
	if w.left == 0 {
		return 0, errLongHead
	}
	if w.left > 0 && int64(len(p)) > w.left {
		p = p[:w.left]
	}
	n, err := w.read(p)
	w.heard = w.heard || n > 0
	if w.left > 0 {
		w.left -= int64(n)
	}
	return n, err
}

// read reads from the connection. What came before is sent to the client when nothing
// follows it for flushAfter.
func (w *wire) read(p []byte) (int, error) {
	if !w.held {
		return w.Conn.Read(p)
	}
	if err := w.bound(time.Now().Add(flushAfter)); err != nil {
		return 0, err
	}
	n, err := w.Conn.Read(p)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	w.trip.flush()
	if err := w.bound(time.Time{}); err != nil {
		return 0, err
	}
	return w.Conn.Read(p)
}

// exchange sends r and reads the head of the answer, which takes timeout at most and a
// sixteenth. It does not close the wire.
func (w *wire) exchange(r *http.Request, timeout time.Duration) (*http.Response, error) {
	w.heard, w.held, w.left = false, false, headMost
	if err := w.hurry(timeout); err != nil {
		return nil, err
	}
	if err := r.Write(w.out); err != nil {
		return nil, err
	}
	if err := w.out.Flush(); err != nil {
		return nil, err
	}
	for {
		resp, err := http.ReadResponse(w.in, r)
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errUnasked
		case resp.StatusCode >= http.StatusOK:
			w.left = -1
			return resp, w.unhurried(resp.ContentLength)
		}
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header)); err != nil {
				return nil, err
			}
			w.left = headMost // somebody counts them
		}
	}
}

// hurry bounds the wait for the head of an answer. The bound of the request before is
// good enough as long as it leaves this one its time: setting one for each request was
// 2 % of what the gate did under load.
func (w *wire) hurry(timeout time.Duration) error {
	now := time.Now()
	if !now.Add(timeout).After(w.until) {
		return nil
	}
	return w.bound(now.Add(timeout + timeout/16))
}

// bound sets when reading gives up; never, if until is zero.
func (w *wire) bound(until time.Time) error {
	w.until = until
	return w.SetReadDeadline(until)
}

// unhurried lets what has still to come of an answer take as long as it takes. Of a
// body of known length the reverse proxy holds parts back: it flushes the others.
func (w *wire) unhurried(length int64) error {
	if length >= 0 {
		w.held = int64(w.in.Buffered()) < length
		return nil
	}
	return w.bound(time.Time{})
}

// over ends a request: the wire is kept for the next one, or closed.
func (w *wire) over(keep bool) {
	if w.trip.alight() && keep && w.in.Buffered() == 0 {
		w.again = true
		w.from.put(w)
		return
	}
	_ = w.Conn.Close()
}

// wiredBody is the body of an answer. The wire is free when it has been read to its
// end; what is closed before that takes the wire with it.
type wiredBody struct {
	io.ReadCloser
	wire *wire
	keep bool
	err  error // what every further Read returns
}

// Read implements io.Reader.
func (b *wiredBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(err)
	}
	return n, b.err
}

// Close implements io.Closer.
func (b *wiredBody) Close() error {
	if b.err == nil {
		b.end(http.ErrBodyReadAfterClose)
	}
	return nil
}

func (b *wiredBody) end(err error) {
	b.err = err
	if !errors.Is(err, io.EOF) {
		b.err, b.keep = b.wire.trip.because(err), false
	}
	b.wire.over(b.keep)
}
