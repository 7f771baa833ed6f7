// Package admin answers operators and their machinery on the admin listener.
//
// GET /healthz tells that the process answers, and nothing else: a probe that
// looked at Redis would restart every gate when Redis is down. GET /readyz tells
// whether requests should be sent here: not while the gate drains, and, only if
// the operator wants it so, not while Redis is away; the state of Redis is in
// its body either way.
//
// GET /preview shows the queue page in every state and language.
package admin

import (
	"encoding/json"
	"net/http"

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
	// Token is asked for by everything but the probes, as a bearer token; empty
	// asks for none.
	Token string
}

// Readiness is how the gate is at one moment.
type Readiness struct {
	// Draining: the end was asked for, nothing new should be sent here.
	Draining bool
	// RequireRedis: without Redis in every room the gate is not ready
	// (readiness.require_redis).
	RequireRedis bool
	Rooms        []RoomHealth
}

// RoomHealth is how one room's Redis is.
type RoomHealth struct {
	Name    string
	RedisUp bool
	// Problem is the class of the last error ("timeout", "refused"), empty when
	// there was none. It is shown without a password, so it must not be the text
	// of an error.
	Problem string
	// Lasting: it stays until somebody changes a setting.
	Lasting bool
}

// why names the reason for not being ready, or is empty.
func (r Readiness) why() string {
	if r.Draining {
		return "draining"
	}
	if !r.RequireRedis {
		return ""
	}
	why := ""
	for _, room := range r.Rooms {
		switch {
		case room.RedisUp:
		case room.Lasting:
			return "redis_setting"
		default:
			why = "redis"
		}
	}
	return why
}

// report is the body of /readyz.
type report struct {
	Status    string       `json:"status"` // ready, or not_ready
	Reason    string       `json:"reason,omitempty"`
	Listening bool         `json:"listening"`
	Draining  bool         `json:"draining"`
	Version   string       `json:"version,omitempty"`
	Rooms     []roomReport `json:"rooms"`
}

type roomReport struct {
	Name  string      `json:"name"`
	Redis redisReport `json:"redis"`
}

type redisReport struct {
	Up        bool   `json:"up"`
	LastError string `json:"last_error,omitempty"`
}

// problem is an error as RFC 9457 has it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// New returns the handler of the admin listener.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", only(healthz))
	mux.HandleFunc("/readyz", only(readyz(o)))
	mux.HandleFunc("/preview", only(guarded(o.Token, preview(o))))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		// The exact path decides, so that the mux never answers with a redirect
		// to a cleaned one.
		switch r.URL.Path {
		case "/healthz", "/readyz", "/preview":
			mux.ServeHTTP(w, r)
		default:
			refuse(w, http.StatusNotFound, "Nothing here", "The admin listener has /healthz, /readyz and /preview.")
		}
	})
}

// only lets GET and HEAD through.
func only(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "Method not allowed", "Use GET.")
			return
		}
		h(w, r)
	}
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

func readyz(o Options) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var now Readiness
		why := "unknown"
		if o.Ready != nil {
			now = o.Ready()
			why = now.why()
		}
		// Listening: who reads this was accepted by a listener bound together
		// with the public one.
		body := report{Status: "ready", Listening: true, Draining: now.Draining, Version: o.Version, Rooms: []roomReport{}}
		status := http.StatusOK
		if why != "" {
			status = http.StatusServiceUnavailable
			body.Status, body.Reason = "not_ready", why
		}
		for _, r := range now.Rooms {
			body.Rooms = append(body.Rooms, roomReport{Name: r.Name, Redis: redisReport{Up: r.RedisUp, LastError: r.Problem}})
		}
		answer(w, status, "application/json", body)
	}
}

func refuse(w http.ResponseWriter, status int, title, detail string) {
	answer(w, status, "application/problem+json", problem{Type: "about:blank", Title: title, Status: status, Detail: detail})
}

func answer(w http.ResponseWriter, status int, contentType string, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // strings, numbers and booleans always marshal
		status, raw = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n'))
}
