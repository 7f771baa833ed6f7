package stream

import (
	"bytes"
	"net/http"
	"time"
)

// ServeEvents answers a request with the events of s, first among them, after the
// headers that w holds. In HTTP/1.1 it takes the connection over and returns; else
// when the stream ends. It reports whether the answer was begun.
func (s *Stream) ServeEvents(w http.ResponseWriter, r *http.Request, first Message) bool {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx passes every event on at once
	if r.ProtoMajor != 1 {
		s.serveHere(w, r, first)
		return true
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.Drop()
		return false
	}
	_ = conn.SetDeadline(time.Time{})
	s.start(sinkOf(conn), events{}, head(http.StatusOK, h), first)
	return true
}

// serveHere writes on the request's own goroutine.
func (s *Stream) serveHere(w http.ResponseWriter, r *http.Request, first Message) {
	to := queueSink{queue: make(chan []byte, backlog), done: make(chan struct{})}
	w.WriteHeader(http.StatusOK)
	s.start(to, events{}, nil, first)
	to.serve(w, r)
	s.end(false)
}

// head is the head of an answer that goes on until the connection ends, or has
// another protocol after it.
func head(status int, h http.Header) []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + statusLine(status) + "\r\n")
	if status != http.StatusSwitchingProtocols {
		h.Set("Connection", "close")
	}
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	_ = h.Write(&b) // a buffer takes everything
	b.WriteString("\r\n")
	return b.Bytes()
}

func statusLine(status int) string {
	if status == http.StatusSwitchingProtocols {
		return "101 Switching Protocols"
	}
	return "200 OK"
}

// ServeOnce answers a handshake with one message and the end.
func ServeOnce(w http.ResponseWriter, accept string, m Message) {
	s := &Stream{}
	s.ServeWebSocket(w, accept, m)
}
