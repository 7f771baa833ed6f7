package proxy

import (
	"net/http"
	"strconv"
)

const (
	// jwksPath is where the public keys are, below the prefix. No room has a dot in its
	// name.
	jwksPath = "jwks.json"
	// jwksAge is how long a verifier, and a cache in front, may keep them in seconds. A
	// new key is published this long before it signs.
	jwksAge = 300
)

// serveJWKS publishes the public halves of the keys by which passes are verified. It is
// the only answer of ours that is the same for everybody and may be kept.
func (x *exchange) serveJWKS() {
	x.decide(Answered, ReasonKeys)
	h := x.w.Header()
	ownHeaders(h)
	h.Set("Cache-Control", "public, max-age="+strconv.Itoa(jwksAge))
	h.Del("Vary")
	h.Set("Content-Type", "application/jwk-set+json")
	h.Set("Content-Length", strconv.Itoa(len(x.g.jwks)))
	h.Set("X-Request-Id", x.record.id)
	x.sendAfterBody(func() {
		x.w.WriteHeader(http.StatusOK)
		_, _ = x.w.Write(x.g.jwks)
	})
}
