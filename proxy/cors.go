package proxy

import (
	"net/http"
	"strings"
)

const (
	// sharedHeaders are those of our answers that a script of another site has a
	// use for.
	sharedHeaders = "Retry-After, " + headerEntryToken + ", " + headerQueueTicket + ", X-Request-Id"
	// takenHeaders are those that it may send.
	takenHeaders = "Content-Type, Idempotency-Key, " + headerEntryToken + ", " + headerQueueTicket
	// preflightMemory is how long, in seconds, browsers remember our word.
	preflightMemory = "600"
)

// origin is the site whose script sent the request, if it is one of
// Options.AllowOrigins, and else empty.
func (x *exchange) origin() string {
	if values := x.r.Header["Origin"]; len(values) == 1 && x.g.origins[values[0]] {
		return values[0]
	}
	return ""
}

// share lets a script of an allowed site read an answer of ours. The site is
// named: any other would be shown a visitor's place and pass.
func (x *exchange) share(h http.Header) {
	origin := x.origin()
	if origin == "" {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", sharedHeaders)
}

// answersPreflight answers a browser that asks what a script of an allowed site
// may do at one of our endpoints, and reports whether it did.
func (x *exchange) answersPreflight(choices []endpoint) bool {
	if x.r.Method != http.MethodOptions || x.r.Header.Get("Access-Control-Request-Method") == "" || x.origin() == "" {
		return false
	}
	x.decide(Answered, ReasonPreflight)
	methods := make([]string, len(choices))
	for i, e := range choices {
		methods[i] = e.method
	}
	h := x.w.Header()
	h.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	h.Set("Access-Control-Allow-Headers", takenHeaders)
	h.Set("Access-Control-Max-Age", preflightMemory)
	x.share(h)
	x.lines.ownHeaders(h)
	x.w.WriteHeader(http.StatusNoContent)
	return true
}
