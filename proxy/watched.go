package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"
)

// watched is the way to the client with eyes for status and length. It is part of the
// exchange: a writer wrapped in closures was the first thing that the profile of a poll named.
type watched struct {
	next http.ResponseWriter
	rec  *record
}

// Unwrap leads http.ResponseController to whatever else the server's writer can do.
func (w *watched) Unwrap() http.ResponseWriter { return w.next }

// Header implements http.ResponseWriter.
func (w *watched) Header() http.Header { return w.next.Header() }

// WriteHeader implements http.ResponseWriter. What a 1xx answer of the shop says to
// the gate is removed here, for the reverse proxy passes these on by itself.
func (w *watched) WriteHeader(code int) {
	switch {
	case code >= 200 || code == http.StatusSwitchingProtocols:
		if w.rec.status == 0 {
			w.rec.status = code
		}
		if w.rec.last { // set late: a 1xx answer before clears all headers
			w.next.Header().Set("Connection", "close")
		}
	case !w.rec.inform():
		return
	default:
		scrubAnswer(w.next.Header())
	}
	w.next.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *watched) Write(b []byte) (int, error) {
	n, err := w.next.Write(b)
	w.rec.wrote(int64(n))
	return n, err
}

// WriteString implements io.StringWriter.
func (w *watched) WriteString(s string) (int, error) {
	n, err := io.WriteString(w.next, s)
	w.rec.wrote(int64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom.
func (w *watched) ReadFrom(src io.Reader) (int64, error) {
	n, err := io.Copy(w.next, src)
	w.rec.wrote(n)
	return n, err
}

// Flush implements http.Flusher.
func (w *watched) Flush() { _ = w.FlushError() }

// FlushError is what http.ResponseController flushes by.
func (w *watched) FlushError() error { return http.NewResponseController(w.next).Flush() }

// Hijack implements http.Hijacker.
func (w *watched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.next).Hijack()
	if err == nil {
		w.rec.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// SetWriteDeadline is what http.ResponseController bounds the answer by. Each answer of
// ours asks for it: the server's own writer is asked at once.
func (w *watched) SetWriteDeadline(at time.Time) error {
	if own, ok := w.next.(interface{ SetWriteDeadline(time.Time) error }); ok {
		return own.SetWriteDeadline(at)
	}
	return http.NewResponseController(w.next).SetWriteDeadline(at)
}

// inform counts a 1xx answer and reports whether it is passed on.
func (rec *record) inform() bool {
	rec.informed++
	if rec.informed == informedMost+1 && rec.trip != nil {
		rec.trip.giveUp(errManyInformed)
	}
	return rec.informed <= informedMost
}

func (rec *record) wrote(n int64) {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	rec.bytes += n
}
