package token

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	// entryHeader is where apps send their pass, and a gate with forward_token hands
	// it to the shop.
	entryHeader = "X-Entry-Token"

	// entryCookie begins the name of the cookie that holds a browser's pass; behind it
	// stands the room, before it __Host- where the site is served by https.
	entryCookie = "queuegate_entry_"

	// maxTried bounds the passes of one request that are verified.
	maxTried = 16
)

// Checker verifies passes by exp: a Verifier, an Authority, or a Cache of one.
type Checker interface {
	VerifyAt(raw, room string, now time.Time) (Pass, error)
}

// MiddlewareOptions says who is let through a Middleware.
type MiddlewareOptions struct {
	// Checker verifies; required. Room is whose passes open; required.
	Checker Checker
	Room    string

	// Refused answers those without a good pass; nil: status 403 and a problem
	// document (RFC 9457) of the type urn:queuegate:problem:no-pass.
	Refused http.Handler

	// Now is the clock exp is judged by; nil: time.Now. Gates sign by Redis TIME, and
	// exp lies up to five seconds before the end of the lease.
	Now func() time.Time
}

// Middleware lets through only requests with a good pass of the room, for shops that
// check it themselves: behind a gate with forward_token, so that whoever finds a way
// around the gate finds a closed door, or behind a proxy that asks the gate. The
// handler finds the pass by FromContext.
//
// The pass is taken from the header X-Entry-Token or from the gate's cookie. It is judged
// by signature, room and exp alone: that a pass was given back or used up is known to
// gates only. A shop that sells by it keeps a list of its own by Pass.Admission.
func Middleware(o MiddlewareOptions) (func(http.Handler) http.Handler, error) {
	switch {
	case o.Checker == nil:
		return nil, errors.New("token: middleware has no Checker; make one with NewVerifier")
	case !identifier(o.Room):
		return nil, errors.New("token: middleware has no Room; give the name of the room whose passes open")
	}
	if o.Refused == nil {
		o.Refused = http.HandlerFunc(refused)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, ok := o.passOf(r)
			if !ok {
				o.Refused.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passKey{}, p)))
		})
	}, nil
}

// passOf returns the first good pass of a request. Header values that differ are
// nobody's: two readers would choose differently.
func (o MiddlewareOptions) passOf(r *http.Request) (Pass, bool) {
	var tried []string
	for _, value := range r.Header.Values(entryHeader) {
		if len(tried) > 0 && value != tried[0] {
			return Pass{}, false
		}
		tried = []string{value}
	}
	for _, name := range []string{"__Host-" + entryCookie + o.Room, entryCookie + o.Room} {
		for _, c := range r.CookiesNamed(name) {
			tried = append(tried, c.Value)
		}
	}
	now := o.Now()
	for _, raw := range tried[:min(len(tried), maxTried)] {
		if p, err := o.Checker.VerifyAt(raw, o.Room, now); err == nil {
			return p, true
		}
	}
	return Pass{}, false
}

// passKey is the key of the pass in a request's context.
type passKey struct{}

// FromContext returns the pass by which Middleware let a request through; false outside
// of one.
func FromContext(ctx context.Context) (Pass, bool) {
	p, ok := ctx.Value(passKey{}).(Pass)
	return p, ok
}

// refused answers a request without a good pass.
func refused(w http.ResponseWriter, _ *http.Request) {
	const body = `{"type":"urn:queuegate:problem:no-pass","title":"Forbidden","status":403,` +
		`"detail":"This needs a pass of the waiting room."}` + "\n"
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, body) // a client that went away is not told
}
