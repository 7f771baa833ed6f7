package stream

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// errSlow is why a stream is dropped whose client does not read: what the kernel
// holds for it is full.
var errSlow = errors.New("stream: the client does not read")

const (
	// backlog is how many writes wait for a client of HTTP/2, mostUnread how many bytes
	// for one of another protocol that cannot be written to without waiting, patience
	// how long such a write may take.
	backlog    = 8
	mostUnread = 64 << 10
	patience   = 10 * time.Second
	// farewell is how long a client has to read the last message.
	farewell = time.Second
)

// sink takes what is written, and keeps none of it. It never waits for the client.
type sink interface {
	write(b []byte) error
	// close ends the connection; after said the client has time to read the rest.
	close(said bool)
}

// sinkOf is the sink of a connection of its own.
func sinkOf(c net.Conn) sink {
	if s, ok := newNowSink(c); ok {
		return s
	}
	return &laterSink{conn: c}
}

// end closes a connection. After said our side goes first: closing both at once, while
// something unread of the client lies here, would have the kernel throw away what it
// was told last.
func end(c net.Conn, said bool) {
	half, ok := c.(interface{ CloseWrite() error })
	if !said || !ok || half.CloseWrite() != nil {
		_ = c.Close()
		return
	}
	time.AfterFunc(farewell, func() { _ = c.Close() })
}

// laterSink is a connection that cannot be written to without waiting, such as one
// with TLS: what is behind is written by a goroutine that is there only as long.
type laterSink struct {
	conn net.Conn

	mu     sync.Mutex
	rest   []byte
	busy   bool
	over   bool // closed: after the rest when it was said
	failed error
}

func (s *laterSink) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return s.failed
	}
	if len(s.rest)+len(b) > mostUnread && s.busy {
		return errSlow
	}
	s.rest = append(s.rest, b...)
	if !s.busy {
		s.busy = true
		go s.flush()
	}
	return nil
}

// flush writes until nothing is left.
func (s *laterSink) flush() {
	for {
		s.mu.Lock()
		b := s.rest
		s.rest = nil
		if len(b) == 0 {
			s.busy = false
			if s.over {
				end(s.conn, true)
			}
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		_ = s.conn.SetWriteDeadline(time.Now().Add(patience))
		if _, err := s.conn.Write(b); err != nil {
			_ = s.conn.Close()
			s.mu.Lock()
			s.failed = err
			s.mu.Unlock()
			return
		}
	}
}

func (s *laterSink) close(said bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if said && s.busy {
		s.over = true
		return
	}
	end(s.conn, said)
}

// queueSink hands over to the handler that writes, as in HTTP/2.
type queueSink struct {
	queue chan []byte
	done  chan struct{}
}

func (q queueSink) write(b []byte) error {
	select {
	case q.queue <- bytes.Clone(b):
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
		_ = control.SetWriteDeadline(time.Now().Add(patience))
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
