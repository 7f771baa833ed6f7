package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/admin"
)

func ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, target, nil)
	r.Host = "localhost:9090"
	h.ServeHTTP(w, r)
	return w
}

func handler(r admin.Readiness) http.Handler {
	return admin.New(admin.Options{Ready: func() admin.Readiness { return r }, Version: "v1.2.3"})
}

func TestHealthIsOfTheProcessOnly(t *testing.T) {
	down := admin.Readiness{Draining: true, RequireRedis: true, Rooms: []admin.RoomHealth{{Name: "checkout", Problem: "timeout"}}}
	w := ask(handler(down), http.MethodGet, "/healthz")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "ok\n", w.Body.String())
	require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))

	w = ask(admin.New(admin.Options{Ready: func() admin.Readiness { panic("asked") }}), http.MethodGet, "/healthz")
	require.Equal(t, http.StatusOK, w.Code, "it asks nobody")
}

func TestReadiness(t *testing.T) {
	up := admin.RoomHealth{Name: "checkout", RedisUp: true}
	down := admin.RoomHealth{Name: "drop", Problem: "timeout"}
	tests := []struct {
		name string
		in   admin.Readiness
		code int
		body string
	}{
		{"all is well", admin.Readiness{RequireRedis: true, Rooms: []admin.RoomHealth{up}}, 200,
			`{"status":"ready","listening":true,"draining":false,"version":"v1.2.3","rooms":[{"name":"checkout","redis":{"up":true}}]}`},
		{"without Redis the gate is ready: unprotected routes live on", admin.Readiness{Rooms: []admin.RoomHealth{up, down}}, 200,
			`{"status":"ready","listening":true,"draining":false,"version":"v1.2.3","rooms":[{"name":"checkout","redis":{"up":true}},{"name":"drop","redis":{"up":false,"last_error":"timeout"}}]}`},
		{"without Redis it is not ready when the operator says so", admin.Readiness{RequireRedis: true, Rooms: []admin.RoomHealth{up, down}}, 503,
			`{"status":"not_ready","reason":"redis","listening":true,"draining":false,"version":"v1.2.3","rooms":[{"name":"checkout","redis":{"up":true}},{"name":"drop","redis":{"up":false,"last_error":"timeout"}}]}`},
		{"what a setting must change is told from what passes", admin.Readiness{RequireRedis: true, Rooms: []admin.RoomHealth{down, {Name: "checkout", Problem: "credentials", Lasting: true}}}, 503,
			`{"status":"not_ready","reason":"redis_setting","listening":true,"draining":false,"version":"v1.2.3","rooms":[{"name":"drop","redis":{"up":false,"last_error":"timeout"}},{"name":"checkout","redis":{"up":false,"last_error":"credentials"}}]}`},
		{"draining", admin.Readiness{Draining: true, Rooms: []admin.RoomHealth{up}}, 503,
			`{"status":"not_ready","reason":"draining","listening":true,"draining":true,"version":"v1.2.3","rooms":[{"name":"checkout","redis":{"up":true}}]}`},
		{"no rooms", admin.Readiness{}, 200, `{"status":"ready","listening":true,"draining":false,"version":"v1.2.3","rooms":[]}`},
		{"an error came and Redis is back", admin.Readiness{RequireRedis: true, Rooms: []admin.RoomHealth{{Name: "checkout", RedisUp: true, Problem: "refused"}}}, 200,
			`{"status":"ready","listening":true,"draining":false,"version":"v1.2.3","rooms":[{"name":"checkout","redis":{"up":true,"last_error":"refused"}}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := ask(handler(tt.in), http.MethodGet, "/readyz")
			require.Equal(t, tt.code, w.Code)
			require.JSONEq(t, tt.body, w.Body.String())
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		})
	}
	t.Run("a gate that cannot say is not ready", func(t *testing.T) {
		require.Equal(t, http.StatusServiceUnavailable, ask(admin.New(admin.Options{}), http.MethodGet, "/readyz").Code)
	})
}

func TestEverythingElseIsRefused(t *testing.T) {
	h := handler(admin.Readiness{})
	for _, tt := range []struct {
		method, target string
		code           int
	}{
		{"POST", "/", 405}, {"GET", "/healthz/", 404}, {"GET", "//healthz", 404}, {"GET", "/a/../healthz", 404}, {"GET", "/HEALTHZ", 404},
		{"GET", "/readyz/x", 404}, {"POST", "/x", 404}, {"GET", "/debug/pprof/", 404},
		{"POST", "/healthz", 405}, {"DELETE", "/readyz", 405},
	} {
		t.Run(tt.method+" "+tt.target, func(t *testing.T) {
			w := ask(h, tt.method, tt.target)
			require.Equal(t, tt.code, w.Code)
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			var p struct {
				Type, Title, Detail string
				Status              int
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
			require.Equal(t, tt.code, p.Status)
			require.NotEmpty(t, p.Title)
			require.NotEmpty(t, p.Detail)
			require.NotContains(t, w.Body.String(), "pprof", "nothing of the request comes back")
			if tt.code == 405 {
				require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
			}
		})
	}
}

func TestNoAnswerIsKeptOrSniffed(t *testing.T) {
	h := handler(admin.Readiness{})
	for _, target := range []string{"/healthz", "/readyz", "/nothing"} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			w := ask(h, method, target)
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		}
	}
}
