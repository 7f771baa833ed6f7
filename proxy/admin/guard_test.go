package admin_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/admin"
)

const secret = "mQ7rT2xV9bN4kW8s"

// knock is a request with what guards look at. Headers are "Name: value".
func knock(h http.Handler, method, host, peer string, headers ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, "/api/rooms", nil)
	r.Host, r.RemoteAddr = host, peer
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	h.ServeHTTP(w, r)
	return w
}

func TestWhoIsAnsweredOnTheAdminListener(t *testing.T) {
	open := admin.Options{}
	withToken := admin.Options{Token: secret}
	fenced := admin.Options{Token: secret, Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::ffff:192.0.2.0/120")}}
	bearer := "Authorization: Bearer " + secret
	tests := []struct {
		name               string
		o                  admin.Options
		method, host, peer string
		headers            []string
		code               int
		kind               string
	}{
		{"this machine, by name", open, "GET", "localhost:9090", "127.0.0.1:5", nil, 200, ""},
		{"this machine, by address", open, "GET", "127.0.0.1:9090", "127.0.0.1:5", nil, 200, ""},
		{"this machine, by its other address", open, "GET", "[::1]:9090", "[::1]:5", nil, 200, ""},
		{"a name that was made to resolve to this machine", open, "GET", "evil.example:9090", "127.0.0.1:5", nil, 403, "host"},
		{"a name that begins like this machine's", open, "GET", "localhost.evil.example", "127.0.0.1:5", nil, 403, "host"},
		{"an address that is no loopback", open, "GET", "192.0.2.1", "127.0.0.1:5", nil, 403, "host"},
		{"no Host", open, "GET", "", "127.0.0.1:5", nil, 403, "host"},
		{"no token is asked for, one is shown", open, "GET", "localhost", "127.0.0.1:5", []string{bearer}, 200, ""},

		{"the token, by whatever name", withToken, "GET", "admin.example", "198.51.100.1:5", []string{bearer}, 200, ""},
		{"the token, the scheme in small letters", withToken, "GET", "admin.example", "198.51.100.1:5", []string{"Authorization: bearer " + secret}, 200, ""},
		{"no token, on this machine", withToken, "GET", "localhost", "127.0.0.1:5", nil, 401, "unauthorized"},
		{"a wrong token", withToken, "GET", "localhost", "127.0.0.1:5", []string{"Authorization: Bearer " + secret + "x"}, 401, "unauthorized"},
		{"a part of the token", withToken, "GET", "localhost", "127.0.0.1:5", []string{"Authorization: Bearer " + secret[:15]}, 401, "unauthorized"},
		{"the token as a password", withToken, "GET", "localhost", "127.0.0.1:5", []string{"Authorization: Basic " + secret}, 401, "unauthorized"},
		{"the token alone", withToken, "GET", "localhost", "127.0.0.1:5", []string{"Authorization: " + secret}, 401, "unauthorized"},
		{"an empty token", withToken, "GET", "localhost", "127.0.0.1:5", []string{"Authorization: Bearer "}, 401, "unauthorized"},

		{"a peer that is allowed", fenced, "GET", "x", "10.1.2.3:5", []string{bearer}, 200, ""},
		{"a peer that is allowed, spelled in six", fenced, "GET", "x", "[::ffff:10.1.2.3]:5", []string{bearer}, 200, ""},
		{"a peer of a list spelled in six", fenced, "GET", "x", "192.0.2.7:5", []string{bearer}, 200, ""},
		{"another peer", fenced, "GET", "x", "198.51.100.1:5", []string{bearer}, 403, "address"},
		{"another peer that says it is one", fenced, "GET", "x", "198.51.100.1:5", []string{bearer, "X-Forwarded-For: 10.1.2.3", "X-Real-IP: 10.1.2.3", "Forwarded: for=10.1.2.3"}, 403, "address"},
		{"this machine when it is not listed", fenced, "GET", "localhost", "127.0.0.1:5", []string{bearer}, 403, "address"},
		{"a peer without an address", fenced, "GET", "x", "@", []string{bearer}, 403, "address"},

		{"a change by another site's page", withToken, "POST", "localhost", "127.0.0.1:5", []string{bearer, "Sec-Fetch-Site: cross-site"}, 403, "cross-site"},
		{"a change by another site's page, in an old browser", open, "POST", "localhost:9090", "127.0.0.1:5", []string{"Origin: https://evil.example"}, 403, "cross-site"},
		{"a change by a page of our own", open, "POST", "localhost:9090", "127.0.0.1:5", []string{"Sec-Fetch-Site: same-origin", "Origin: http://localhost:9090"}, 405, "method-not-allowed"},
		{"a change by a program", open, "POST", "localhost:9090", "127.0.0.1:5", nil, 405, "method-not-allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := knock(admin.New(tt.o), tt.method, tt.host, tt.peer, tt.headers...)
			require.Equal(t, tt.code, w.Code, w.Body)
			require.NotContains(t, w.Body.String(), secret)
			require.NotContains(t, w.Body.String(), "evil", "nothing of the request comes back")
			if tt.kind != "" {
				require.Contains(t, w.Body.String(), `"type":"urn:queuegate:problem:`+tt.kind+`"`)
			}
			require.Equal(t, tt.code == 401, w.Header().Get("WWW-Authenticate") != "")
		})
	}
	t.Run("probes answer everybody", func(t *testing.T) {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/healthz", nil)
		r.RemoteAddr = "198.51.100.1:5"
		admin.New(fenced).ServeHTTP(w, r)
		require.Equal(t, 200, w.Code)
	})
}

func TestWhoShowsWrongTokensHasToWait(t *testing.T) {
	now := time.Now()
	var log strings.Builder
	h := admin.New(admin.Options{
		Token: secret, Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	show := func(peer, token string) *httptest.ResponseRecorder {
		return knock(h, "GET", "x", peer, "Authorization: Bearer "+token)
	}
	for range 30 {
		require.Equal(t, 401, knock(h, "GET", "x", "192.0.2.1:5").Code, "who shows nothing guesses nothing")
	}
	for range 10 {
		require.Equal(t, 401, show("192.0.2.1:5", "guess").Code)
	}
	w := show("192.0.2.1:6", secret)
	require.Equal(t, 429, w.Code, "not even the right one is looked at")
	require.Equal(t, "6", w.Header().Get("Retry-After"))
	require.Equal(t, 200, show("192.0.2.2:5", secret).Code, "another address")
	now = now.Add(6 * time.Second)
	require.Equal(t, 200, show("192.0.2.1:5", secret).Code)
	require.Equal(t, 401, show("192.0.2.1:5", "guess").Code)
	require.Equal(t, 429, show("192.0.2.1:5", "guess").Code)
	now = now.Add(time.Minute)
	for range 10 {
		require.Equal(t, 401, show("[2001:db8::1]:5", "guess").Code)
	}
	require.Equal(t, 429, show("[2001:db8::ffff]:5", secret).Code, "a household is one address")
	require.Equal(t, 200, show("[2001:db8:0:1::1]:5", secret).Code)
	require.NotContains(t, log.String(), secret)
	require.NotContains(t, log.String(), "guess")
	require.Contains(t, log.String(), "peer=192.0.2.1")
}

func TestProfilesAreServedOnlyWhenWanted(t *testing.T) {
	for _, target := range []string{"/debug/pprof/", "/debug/pprof/heap?debug=1"} {
		require.Equal(t, 404, ask(admin.New(admin.Options{}), "GET", target).Code)
		require.Equal(t, 200, ask(admin.New(admin.Options{Pprof: true}), "GET", target).Code)
		require.Equal(t, 401, ask(admin.New(admin.Options{Pprof: true, Token: secret}), "GET", target).Code)
	}
	require.Equal(t, 404, ask(admin.New(admin.Options{Pprof: true}), "GET", "/debug/pprof/cmdline").Code)
}

func prefixList(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range list {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}
