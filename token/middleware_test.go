package token_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/token"
)

// shopBehind is a shop whose orders need a pass; it answers with the visitor of it.
func shopBehind(t *testing.T, o token.MiddlewareOptions) http.Handler {
	t.Helper()
	wrap, err := token.Middleware(o)
	require.NoError(t, err)
	return wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := token.FromContext(r.Context())
		if ok {
			_, _ = io.WriteString(w, p.Visitor+" "+p.Admission)
		}
	}))
}

func TestMiddlewareLetsThroughOnlyAGoodPassOfTheRoom(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret, Installation: install})
	now := func() time.Time { return issuedAt.Add(time.Minute) }
	cache, err := token.NewCache(a.Verifier, 0)
	require.NoError(t, err)
	good := sign(t, a, samplePass())
	old := samplePass()
	old.Expires = now()
	drop := samplePass()
	drop.Room = "drop"
	expired, elsewhere := sign(t, a, old), sign(t, a, drop)
	stranger := sign(t, authority(t, token.Options{Secret: oldSecret, Installation: install}), samplePass())
	sibling := sign(t, authority(t, token.Options{Secret: secret, Installation: "queuegate/staging"}), samplePass())
	twins := func(n int) string {
		return strings.Repeat("queuegate_entry_checkout=bad; ", n) + "queuegate_entry_checkout=" + good
	}
	for name, checker := range map[string]token.Checker{"verifier": a.Verifier, "authority": a, "cache": cache} {
		shop := shopBehind(t, token.MiddlewareOptions{Checker: checker, Room: room, Now: now})
		for _, tt := range []struct {
			name   string
			header http.Header
			code   int
		}{
			{"nothing", nil, 403},
			{"a pass in the header", http.Header{"X-Entry-Token": {good}}, 200},
			{"the same twice", http.Header{"X-Entry-Token": {good, good}}, 200},
			{"two that differ", http.Header{"X-Entry-Token": {good, stranger}}, 403},
			{"two that differ, the good one last", http.Header{"X-Entry-Token": {"", good}}, 403},
			{"a cookie", http.Header{"Cookie": {"a=1; queuegate_entry_checkout=" + good}}, 200},
			{"a cookie of an https site", http.Header{"Cookie": {"__Host-queuegate_entry_checkout=" + good}}, 200},
			{"a cookie behind bad twins", http.Header{"Cookie": {twins(15)}}, 200},
			{"a cookie behind more than any browser sends", http.Header{"Cookie": {twins(16)}}, 403},
			{"a cookie beside an old header", http.Header{"X-Entry-Token": {expired}, "Cookie": {"queuegate_entry_checkout=" + good}}, 200},
			{"a cookie of another room", http.Header{"Cookie": {"queuegate_entry_drop=" + good}}, 403},
			{"a pass of another room", http.Header{"X-Entry-Token": {elsewhere}}, 403},
			{"a pass of another installation", http.Header{"X-Entry-Token": {sibling}}, 403},
			{"a pass of another secret", http.Header{"X-Entry-Token": {stranger}}, 403},
			{"a pass whose exp is now", http.Header{"X-Entry-Token": {expired}}, 403},
			{"a bearer token", http.Header{"Authorization": {"Bearer " + good}}, 403},
			{"a pass without its signature", http.Header{"X-Entry-Token": {good[:strings.LastIndexByte(good, '.')+1]}}, 403},
			{"a pass with a line end", http.Header{"X-Entry-Token": {good + "\n"}}, 403},
		} {
			for range 2 {
				r := httptest.NewRequest(http.MethodPost, "/order?X-Entry-Token="+good, nil)
				if tt.header != nil {
					r.Header = tt.header
				}
				w := httptest.NewRecorder()
				shop.ServeHTTP(w, r)
				require.Equal(t, tt.code, w.Code, "%s: %s", name, tt.name)
				if tt.code == 200 {
					require.Equal(t, visitor+" 1772366400000001", w.Body.String(), tt.name)
					continue
				}
				require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
				require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
				require.Contains(t, w.Body.String(), `"urn:queuegate:problem:no-pass"`)
				require.NotContains(t, w.Body.String(), good)
			}
		}
	}
}

func TestMiddlewareRefusesInTheShopsOwnWords(t *testing.T) {
	t.Parallel()
	a := authority(t, token.Options{Secret: secret})
	shop := shopBehind(t, token.MiddlewareOptions{Checker: a, Room: room, Refused: http.RedirectHandler("/", http.StatusSeeOther)})
	w := httptest.NewRecorder()
	shop.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/order", nil))
	require.Equal(t, http.StatusSeeOther, w.Code)
}

func TestMiddlewareRefusesOptionsItCannotWorkWith(t *testing.T) {
	t.Parallel()
	_, err := token.Middleware(token.MiddlewareOptions{Room: room})
	require.ErrorContains(t, err, "token: middleware has no Checker")
	_, err = token.Middleware(token.MiddlewareOptions{Checker: authority(t, token.Options{Secret: secret})})
	require.ErrorContains(t, err, "token: middleware has no Room")
}

func TestThereIsNoPassOutsideOfTheMiddleware(t *testing.T) {
	t.Parallel()
	p, ok := token.FromContext(t.Context())
	require.False(t, ok)
	require.Zero(t, p)
}
