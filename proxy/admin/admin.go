// Package admin answers operators and their machinery on the admin listener.
//
// GET /healthz tells that the process answers, and nothing else: a probe that
// looked at Redis would restart every gate when Redis is down. GET /readyz tells
// whether requests should be sent here: not while the gate drains, and, only if
// the operator wants it so, not while Redis is away; the state of Redis is in
// its body either way. GET /metrics are the numbers for Prometheus. These three
// answer everybody.
//
// The rest is for operators and guarded (see guard.go). GET / is the live dashboard,
// a page without data that asks for the token itself. /api/ shows and changes the
// rooms while they run, and its description is at /api/openapi.yaml; GET /preview
// shows the queue page in every state and language; /debug/pprof/ the
// profiles of Go, when they are wanted.
package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"github.com/queuegate/queuegate/proxy/page"
)

// Options are what New needs.
type Options struct {
	// Ready tells how the gate is; it is called for every GET /readyz and must
	// not wait for anything. Without it the gate is never ready.
	Ready func() Readiness
	// Version is shown in /readyz; empty leaves it out.
	Version string
	// Pages are what /preview shows, by room.
	Pages map[string]*page.Renderer
	// Rooms are what /api/rooms shows, in this order.
	Rooms []Room
	// ShopRefuses tells whether the shop of a room takes no connections of this gate;
	// nil: all do.
	ShopRefuses func(room string) bool
	// Token is asked for by everything but the probes, as a bearer token; empty
	// asks for none, and then only requests for this very machine are answered.
	Token string
	// Allow are the peers that are answered, but for the probes; none means all.
	Allow []netip.Prefix
	// Metrics answers GET /metrics; nil: there are none.
	Metrics http.Handler
	// Pprof serves the profiles of Go.
	Pprof bool
	// Now is the time by which wrong tokens are counted; nil means time.Now.
	Now func() time.Time
	// Log gets every change and every refusal of a token; nil discards it.
	Log *slog.Logger
}

// New returns the handler of the admin listener.
func New(o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ShopRefuses == nil {
		o.ShopRefuses = func(string) bool { return false }
	}
	probes := map[string]http.HandlerFunc{"/healthz": only(healthz), "/readyz": only(readyz(o))}
	if o.Metrics != nil {
		probes["/metrics"] = only(o.Metrics.ServeHTTP)
	}
	guard := newGuard(o)
	guarded, home := guard.protect(operators(o)), guard.admit(only(newDashboard().serve))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if probe, ok := probes[r.URL.Path]; ok {
			probe(w, r)
			return
		}
		if r.URL.EscapedPath() == "/" {
			home(w, r)
			return
		}
		guarded(w, r)
	})
}

// operators are the addresses for operators. The exact path decides: nothing is
// answered with a redirect to a cleaned one.
func operators(o Options) http.HandlerFunc {
	show, rooms := only(preview(o)), newAPI(o)
	return func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.EscapedPath(); {
		case path == "/preview":
			show(w, r)
		case path == "/api/rooms" || strings.HasPrefix(path, "/api/rooms/"):
			rooms.serve(w, r, strings.TrimPrefix(strings.TrimPrefix(path, "/api/rooms"), "/"))
		case path == "/api/gates":
			only(rooms.gates)(w, r)
		case path == "/api/openapi.yaml":
			only(openAPI)(w, r)
		case o.Pprof && strings.HasPrefix(path, profiles):
			profile(w, r, strings.TrimPrefix(path, profiles))
		default:
			refuse(w, http.StatusNotFound, "not-found", "The admin listener has /, /healthz, /readyz, /metrics, /preview, /api/rooms, /api/gates and /api/openapi.yaml.")
		}
	}
}

// profiles is where the profiles of Go are.
const profiles = "/debug/pprof/"

func profile(w http.ResponseWriter, r *http.Request, name string) {
	switch name {
	case "profile":
		pprof.Profile(w, r)
	case "trace":
		pprof.Trace(w, r)
	case "cmdline", "symbol": // the first shows what was said at the start, and nobody needs the second
		refuse(w, http.StatusNotFound, "not-found", "There is no such profile.")
	default:
		pprof.Index(w, r)
	}
}

// only lets GET and HEAD through.
func only(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "method-not-allowed", "Use GET.")
			return
		}
		h(w, r)
	}
}

// problemBase begins the type of every problem; the rest of it is stable and what
// programs should compare.
const problemBase = "urn:queuegate:problem:"

// Problem is an error as RFC 9457 has it.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Errors name what is wrong in a body, one a field.
	Errors []FieldProblem `json:"errors,omitempty"`
}

// FieldProblem is what is wrong with one field of a body, and the remedy.
type FieldProblem struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

func refuse(w http.ResponseWriter, status int, kind, detail string, errs ...FieldProblem) {
	answer(w, status, "application/problem+json", Problem{
		Type: problemBase + kind, Title: http.StatusText(status), Status: status, Detail: detail, Errors: errs,
	})
}

func answer(w http.ResponseWriter, status int, contentType string, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // texts, numbers and times always marshal
		status, raw = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n'))
}
