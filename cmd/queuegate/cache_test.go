package main_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// eagerCache is nginx as a cache that keeps every status for an hour under the
// address alone, for whatever visitor, unless Cache-Control forbids it.
const eagerCache = `events {}
http {
    proxy_cache_path FOLDER keys_zone=all:1m;
    server {
        listen FRONT;
        location / {
            proxy_pass http://GATE;
            proxy_set_header Host $http_host;
            proxy_cache all;
            proxy_cache_key $request_uri;
            proxy_cache_methods GET HEAD;
            proxy_cache_valid any 1h;
            proxy_ignore_headers Set-Cookie Vary;
            add_header X-Cache $upstream_cache_status always;
        }
    }
}
`

// TestCacheInFrontKeepsNothingOfOursAndSharesNoPass: the worst cache that still
// reads Cache-Control stands before the gate.
func TestCacheInFrontKeepsNothingOfOursAndSharesNoPass(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1")})
	g := f.gates[0]
	cache := &gate{process: g.process, admin: g.admin, url: "http://" + freeAddress(t)}
	startNginx(t, strings.TrimPrefix(cache.url, "http://"), strings.NewReplacer(
		"FOLDER", filepath.Join(t.TempDir(), "cache"), "GATE", strings.TrimPrefix(g.url, "http://"), "FRONT", strings.TrimPrefix(cache.url, "http://"),
	).Replace(eagerCache))
	f.shop.behave(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=600")
		takeOrder(w, r)
	})
	get := func(client *http.Client, path string) answer {
		t.Helper()
		return mustSend(t, client, request{method: "GET", url: cache.url + path, header: browse()})
	}
	require.Equal(t, "MISS", get(newBrowser(t), "/about").header.Get("X-Cache"))
	require.Equal(t, "HIT", get(newBrowser(t), "/about").header.Get("X-Cache"), "what the shop lets a cache keep is kept")

	holder := newApp(t)
	holder.enter(t, g)
	first, second := newBrowser(t), newBrowser(t)
	for i, who := range []*http.Client{first, second, first} {
		page := get(who, "/checkout")
		require.Equal(t, http.StatusTooManyRequests, page.code)
		require.NotEqual(t, "HIT", page.header.Get("X-Cache"))
		want := []string{"1", "2", "1"}[i]
		require.Contains(t, string(page.body), `<strong id="position">`+want+`</strong>`, "each sees the own place")
		status := get(who, "/_queue/checkout/status")
		require.Equal(t, "waiting", status.doc.Status)
	}
	// Nor is any other answer of ours kept, whatever its status.
	for path, code := range map[string]int{
		"/_queue/nosuch/status": 404, "/_queue/checkout/join": 405, "/_queue/checkout": 429, "/_queue/jwks.json": 404, "/checkout/x%00": 400, "/_QUEUE/x": 404,
	} {
		for range 2 {
			got := get(newClient(t), path)
			require.Equal(t, code, got.code, path)
			if code == 400 { // nginx itself refuses such a target
				continue
			}
			require.Equal(t, "no-store", got.header.Get("Cache-Control"), path)
			require.NotEqual(t, "HIT", got.header.Get("X-Cache"), path)
		}
	}

	// The turn is told at the next poll, and leads into the shop at the very address
	// at which the queue page was.
	_, err := holder.release(g)
	require.NoError(t, err)
	eventually(t, "it is the first one's turn", func() bool { return get(first, "/_queue/checkout/status").doc.Status == "ready" })
	entered := get(first, "/checkout")
	require.Equal(t, http.StatusOK, entered.code)
	require.Contains(t, entered.header.Get("Set-Cookie"), "queuegate_entry_checkout=")
	require.Equal(t, "private, no-store", entered.header.Get("Cache-Control"))

	// The shop calls its page public; with a cookie of ours it is nobody else's.
	for range 2 {
		other := get(second, "/checkout")
		require.Equal(t, http.StatusTooManyRequests, other.code)
		require.NotContains(t, other.header.Get("Set-Cookie"), "queuegate_entry_checkout=")
	}
	// A page that nobody guards has no cookie of ours, also for who waits or is inside.
	for _, who := range []*http.Client{first, second} {
		got := mustSend(t, who, request{method: "GET", url: g.url + "/about", header: browse()})
		require.Empty(t, got.header.Values("Set-Cookie"))
		require.Equal(t, "public, max-age=600", got.header.Get("Cache-Control"))
	}
	// Leaving is seen at once as well.
	left := mustSend(t, second, request{method: "DELETE", url: cache.url + "/_queue/checkout"})
	require.Equal(t, "left", left.doc.Status)
	require.Equal(t, "not_entered", get(second, "/_queue/checkout/status").doc.Status)
}
