package proxy

import (
	"net/http"
	"strconv"
	"time"
)

// problemBase begins the type of every problem; the rest of it is stable and
// what programs should compare.
const problemBase = "urn:queuegate:problem:"

// problem is an error answer as RFC 9457 describes it. Texts are for people
// and hold nothing of the request.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Room   string `json:"room,omitempty"`
	// RoomState is "degraded" when Redis does not answer.
	RoomState string `json:"room_state,omitempty"`
}

// newProblem returns the problem kind with the title that HTTP gives its status.
func newProblem(status int, kind, detail string) problem {
	return problem{Type: problemBase + kind, Title: http.StatusText(status), Status: status, Detail: detail}
}

// ownHeaders sets what every answer of ours says: a shared cache in front that
// kept it would show one visitor's place to another, or the line to somebody
// who is admitted.
func (l *lines) ownHeaders(h http.Header) {
	l.set(h, "Cache-Control", "no-store")
	l.set(h, "X-Content-Type-Options", "nosniff")
	l.set(h, "X-Robots-Tag", "noindex")
	l.set(h, "Vary", "Cookie, Accept, Origin")
	l.set(h, "Referrer-Policy", "same-origin")
}

// retryAfter tells the client to come back in d, rounded up to whole seconds
// and never less than one.
func retryAfter(h http.Header, d time.Duration) {
	seconds := max(int64((d+time.Second-1)/time.Second), 1)
	h.Set("Retry-After", strconv.FormatInt(seconds, 10))
}
