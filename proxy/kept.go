package proxy

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/queuegate/queuegate/proxy/openapi"
	"github.com/queuegate/queuegate/proxy/spa"
)

const (
	// The files below the prefix. No room has a dot in its name.
	jwksPath    = "jwks.json"
	openapiPath = "openapi.yaml"
	scriptPath  = "queue.js"
	// keptAge is how long a verifier, a browser, and a cache in front may keep them, in
	// seconds. A new key is published this long before it signs.
	keptAge = 300
)

// keptFile is an answer of ours that is the same for everybody and may be kept.
type keptFile struct {
	contentType string
	body        []byte
	tag         string // for If-None-Match
	reason      Reason
}

func newKeptFile(contentType string, body []byte, reason Reason) *keptFile {
	sum := sha256.Sum256(body)
	return &keptFile{contentType: contentType, body: body, tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, reason: reason}
}

// keptFiles are those of a gate with these public keys, none when jwks is nil.
func keptFiles(prefix string, jwks []byte) map[string]*keptFile {
	files := map[string]*keptFile{
		scriptPath:  newKeptFile("text/javascript; charset=utf-8", spa.Script, ReasonScript),
		openapiPath: newKeptFile("application/yaml", openapi.Describe(prefix), ReasonDescription),
	}
	if jwks != nil {
		files[jwksPath] = newKeptFile("application/jwk-set+json", jwks, ReasonKeys)
	}
	return files
}

// serve answers with the file, or that it is as the client has it.
func (f *keptFile) serve(x *exchange) {
	x.decide(Answered, f.reason)
	h := x.w.Header()
	x.lines.ownHeaders(h)
	h.Set("Cache-Control", "public, max-age="+strconv.Itoa(keptAge))
	h.Del("Vary")
	h.Set("Etag", f.tag)
	h.Set("X-Request-Id", x.record.id)
	if x.r.Header.Get("If-None-Match") == f.tag {
		x.sendAfterBody(func() { x.w.WriteHeader(http.StatusNotModified) })
		return
	}
	h.Set("Content-Type", f.contentType)
	h.Set("Content-Length", strconv.Itoa(len(f.body)))
	x.sendAfterBody(func() {
		x.w.WriteHeader(http.StatusOK)
		_, _ = x.w.Write(f.body)
	})
}
