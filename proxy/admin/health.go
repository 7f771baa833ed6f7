package admin

import "net/http"

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
