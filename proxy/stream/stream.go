package stream

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Event is what kind of thing is told.
type Event string

// The events.
const (
	Update Event = "update" // the numbers, a new ticket
	State  Event = "state"  // the room is in another state, or says something else
	Ready  Event = "ready"  // it is their turn; the last one
	Ping   Event = "ping"   // show that you are here
	Closed Event = "closed" // the last one: the stay is over, or come back later
)

// Message is one thing to tell.
type Message struct {
	Event Event
	Data  []byte // one JSON object on one line, with at least one member
	Last  bool   // ends the stream
	// After is when to come back after the end, zero when there is no reason to.
	After time.Duration
}

// Stream is one open connection.
type Stream struct {
	hub      *Hub
	key      string
	follower Follower
	until    time.Time
	hinted   atomic.Bool
	leave    atomic.Bool // the loop is to end it
	gone     atomic.Bool
	// poked is set while it is in the hub's list of those, forgotten when it is in
	// no book. Both belong to the hub's mutex.
	poked, forgotten bool

	mu   sync.Mutex // of what is written, and the sink
	sink sink       // nil before Start
	form form
}

// form is how messages look on the wire.
type form interface {
	append(dst []byte, m Message) []byte
}

// Poke has the stream looked at at once: its follower has something to tell.
func (s *Stream) Poke() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if !s.forgotten {
		s.hub.poke(s)
	}
}

// Drop gives up a stream that was not started.
func (s *Stream) Drop() { s.end(false) }

// start writes head and the first message, and hands the stream to the hub. It
// reports whether the stream goes on.
func (s *Stream) start(to sink, f form, head []byte, first Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sink, s.form = to, f
	if !s.write(f.append(head, first)) {
		return false
	}
	if first.Last {
		s.end(true)
		return false
	}
	s.hub.start(s)
	return true
}

// write writes bytes, or ends the stream of somebody who does not read. The caller
// holds mu.
func (s *Stream) write(b []byte) bool {
	if s.gone.Load() {
		return false
	}
	if s.sink.write(b) == nil {
		return true
	}
	s.end(false)
	return false
}

// end closes the connection and forgets the stream; said leaves the client time to
// read what was said last.
func (s *Stream) end(said bool) {
	if s.gone.Swap(true) {
		return
	}
	if s.sink != nil {
		s.sink.close(said)
	}
	if s.hub != nil { // nil: a stream of one message
		s.hub.forget(s)
	}
}

// hand is what one goroutine uses again from stream to stream.
type hand struct {
	messages []Message
	bytes    []byte
}

// look writes what is new.
func (s *Stream) look(now time.Time, over bool, with *hand) {
	s.mu.Lock()
	started := s.sink != nil
	s.mu.Unlock()
	if s.gone.Load() || !started {
		return
	}
	messages := with.messages[:0]
	if over || s.leave.Load() || now.After(s.until) {
		messages = append(messages, s.follower.Goodbye(rand.N(returnWithin)+time.Second))
	} else {
		messages = s.follower.Next(now, s.hinted.Swap(false), messages)
	}
	with.messages = messages
	if len(messages) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	with.bytes = with.bytes[:0]
	last := false
	for _, m := range messages {
		with.bytes = s.form.append(with.bytes, m)
		last = last || m.Last
	}
	if s.write(with.bytes) && last {
		s.end(true)
	}
}

// events writes server-sent events.
type events struct{}

func (events) append(dst []byte, m Message) []byte {
	if m.After > 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, m.After.Milliseconds(), 10)
		dst = append(dst, '\n')
	}
	dst = append(dst, "event: "...)
	dst = append(dst, m.Event...)
	dst = append(dst, "\ndata: "...)
	dst = append(dst, m.Data...)
	return append(dst, "\n\n"...)
}

// EncodeEvents returns messages as server-sent events.
func EncodeEvents(messages ...Message) []byte {
	var b []byte
	for _, m := range messages {
		b = events{}.append(b, m)
	}
	return b
}
