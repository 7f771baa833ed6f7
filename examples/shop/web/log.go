package web

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// Logged keeps one record of each request: its route and never its path, which may
// name an order; the status; how long it took; and how many requests there were at
// once when it came, itself included.
func Logged(next http.Handler, log *slog.Logger) http.Handler {
	var now atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, atOnce := time.Now(), now.Add(1)
		noted := &noting{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			now.Add(-1)
			log.InfoContext(r.Context(), "request", "method", r.Method, "route", r.Pattern, "status", noted.status,
				"began", began.UTC(), "duration_s", time.Since(began).Seconds(), "at_once", atOnce)
		}()
		next.ServeHTTP(noted, r)
	})
}

// noting notes the status of an answer.
type noting struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status and passes it on.
func (n *noting) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

// Unwrap lets a stream be flushed.
func (n *noting) Unwrap() http.ResponseWriter { return n.ResponseWriter }
