package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// greedyWorker is a service worker that asks its cache first and keeps every page that
// was answered with success.
const greedyWorker = `
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", e => e.waitUntil(clients.claim()));
self.addEventListener("fetch", e => {
  if (e.request.mode !== "navigate") return;
  e.respondWith((async () => {
    const kept = await caches.match(e.request);
    if (kept) return kept;
    const answer = await fetch(e.request);
    if (answer.ok) await (await caches.open("shop")).put(e.request, answer.clone());
    return answer;
  })());
});`

func serviceWorkerKeepsNothing(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	s.shop.behave(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sw.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, greedyWorker)
			return
		}
		serveShopPages(w, r)
	})
	v := b.visitor(t)
	v.open(s.URL + "/")
	require.True(t, await[bool](v, `navigator.serviceWorker.register("/sw.js").then(() => navigator.serviceWorker.ready).then(
		() => navigator.serviceWorker.controller || new Promise(done => navigator.serviceWorker.addEventListener("controllerchange", done))).then(() => true)`))
	const kept = `caches.keys().then(names => Promise.all(names.map(n => caches.open(n).then(c => c.keys())))).then(all => all.flat().map(r => new URL(r.url).pathname).join())`
	v.open(s.URL + "/other")
	v.await("the worker keeps the shop's pages", "document.querySelector('#shop')")
	require.Equal(t, "/other", await[string](v, kept))

	v.open(s.URL + "/checkout")
	s.awaitPolls(t, 1)
	require.Equal(t, 1, v.place(), "a navigation through the worker gets the page")
	require.Equal(t, "/other", await[string](v, kept), "the queue page is kept")
	s.release(t)
	v.awaitShop(s.URL + "/checkout")
}

func framedByAnotherSite(t *testing.T, b *chromium) {
	var shop string
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><title>Another site</title><link rel="icon" href="data:,"><iframe src="%s/checkout" width="600" height="600"></iframe>`, shop)
	}))
	t.Cleanup(outer.Close)
	// localhost and 127.0.0.1 are two sites, and both are safe enough for Secure.
	site := strings.Replace(outer.URL, "127.0.0.1", "localhost", 1)
	for _, allowed := range []bool{true, false} {
		more := ample + ", cookie: {same_site: none, secure: always, partitioned: true}"
		if allowed {
			more += fmt.Sprintf(", page: {frame_ancestors: [%q]}", site)
		}
		s := newScene(t, room(more))
		shop = s.URL
		v := b.visitor(t)
		v.open(site)
		if !allowed {
			eventually(t, "the frame was refused", func() bool { return len(s.passages("/checkout")) > 0 })
			s.release(t)
			require.Empty(t, s.polls(), "a page that may not be framed runs")
			continue
		}
		s.awaitPolls(t, 2)
		require.EqualValues(t, 1, people(t, s.redis.Client(t)), "each poll brings the cookie back")
		s.release(t)
		eventually(t, "whoever waited in the frame is in the shop", func() bool { return len(s.loads("/checkout")) > 1 })
		require.Len(t, s.loads("/checkout"), 2)
		require.Len(t, s.shop.got("/checkout"), 2, "the holder and whoever waited")
	}
}
