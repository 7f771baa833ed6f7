package stream

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// errSlow is why a stream is dropped whose client does not read: what the kernel
// holds for it is full.
var errSlow = errors.New("stream: the client does not read")

const (
	// patience is how long a write may wait where the only way not to wait is a
	// deadline (TLS).
	patience = 100 * time.Millisecond
	// backlog is how many writes wait for a client of HTTP/2, patienceH2 how long
	// one of them may.
	backlog    = 8
	patienceH2 = 10 * time.Second
	// farewell is how long a client has to read the last message.
	farewell = time.Second
)

// sink takes what is written. It never waits for the client, or hardly.
type sink interface {
	write(b []byte) error
	// close ends the connection; after said the client has time to read the rest.
	close(said bool)
}

// connSink is a connection of its own.
type connSink struct{ net.Conn }

func (c connSink) write(b []byte) error {
	if done, err := writeNow(c.Conn, b); done {
		return err
	}
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// close closes our side first: closing both at once, while something unread of the
// client lies here, would have the kernel throw away what it was told last.
func (c connSink) close(said bool) {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !said || !ok || half.CloseWrite() != nil {
		_ = c.Conn.Close()
		return
	}
	time.AfterFunc(farewell, func() { _ = c.Conn.Close() })
}

// queueSink hands over to the handler that writes, as in HTTP/2.
type queueSink struct {
	queue chan []byte
	done  chan struct{}
}

func (q queueSink) write(b []byte) error {
	select {
	case q.queue <- b:
		return nil
	default:
		return errSlow
	}
}

func (q queueSink) close(bool) { close(q.done) }

// serve writes until the stream ends or the client leaves.
func (q queueSink) serve(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	write := func(b []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(patienceH2))
		if _, err := w.Write(b); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	for {
		select {
		case b := <-q.queue:
			if !write(b) {
				return
			}
		case <-q.done:
			for { // what was said before the end
				select {
				case b := <-q.queue:
					if !write(b) {
						return
					}
				default:
					return
				}
			}
		case <-r.Context().Done():
			return
		}
	}
}
