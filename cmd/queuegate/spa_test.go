package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInABrowserTheCallsOfASinglePageShopWait is queue.js in a page with a strict
// policy. Each row has a gate, a Redis and a shop; all share one Chromium.
func TestInABrowserTheCallsOfASinglePageShopWait(t *testing.T) {
	t.Parallel()
	b := startChromium(t)
	for _, tc := range []struct {
		name string
		test func(*testing.T, *chromium)
	}{
		{"an order is shown its wait and goes out again by a click alone", orderWaitsForAClick},
		{"calls that say so are repeated by themselves, and share one line", callsRepeat},
		{"a call that is given up while its answer arrives fails as any other", callIsGivenUp},
		{"the page can tell of the wait itself, and give up", pageTellsItself},
		{"who leaves gives the place up", callLeaves},
		{"a page of another origin waits by headers, and polls", otherOrigin},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.test(t, b)
		})
	}
}

// serveSinglePage is a page that has no markup from scripts, with the helper of a
// gate, and an API.
func serveSinglePage(gate string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if origin := r.Header.Get("Origin"); origin != "" {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Headers", "X-Entry-Token, X-Queue-Ticket")
		}
		if strings.HasPrefix(r.URL.Path, "/checkout") {
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, r.Method+" "+string(body))
			return
		}
		source := gate
		if source == "" {
			source = "'self'"
		}
		h.Set("Content-Security-Policy", "default-src 'none'; img-src data:; require-trusted-types-for 'script'; script-src "+source+"; connect-src "+source)
		h.Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>Shop</title><link rel="icon" href="data:,"><h1>Shop</h1><script src="`+gate+`/_queue/queue.js"></script>`)
	}
}

// newSinglePage is a scene whose shop is a single page, opened in a browser.
func newSinglePage(t *testing.T, b *chromium) (*scene, *tab) {
	t.Helper()
	s := newScene(t, room(ample))
	s.shop.behave(serveSinglePage(""))
	v := b.visitor(t)
	v.open(s.URL + "/")
	return s, v
}

// fetches has the page call the shop; what comes of it is written to got.
func (v *tab) fetches(target, options string) {
	v.t.Helper()
	v.run(`window.got = window.got || []; queuegate.fetch("` + target + `", ` + options + `)
		.then(async (a) => got.push(a.status + " " + await a.text()), (e) => got.push(e.name)); 0`)
}

// orders are the calls of the API that the shop has seen from pages.
func (s *scene) orders() []seen { return s.shop.got("/checkout/api") }

func orderWaitsForAClick(t *testing.T, b *chromium) {
	s, v := newSinglePage(t, b)
	v.fetches("/checkout/api", `{method: "POST", body: "one lantern"}`)
	v.await("the wait", `document.querySelector("dialog[open] output")?.textContent.includes("place 1")`)
	require.Equal(t, "Leave the line", look[string](v, `document.querySelector("dialog[open] button").textContent`))
	require.Equal(t, "BUTTON", look[string](v, "document.activeElement.tagName"))
	s.awaitPolls(t, 2)
	s.release(t)
	v.await("the turn", `document.querySelector("dialog[open] button")?.textContent === "Continue"`)
	require.Empty(t, s.orders(), "an order goes out again only when it is asked for")
	v.click("dialog button")
	v.await("the order", `got[0] === "200 POST one lantern"`)
	require.Len(t, s.orders(), 1)
	require.True(t, look[bool](v, `!document.querySelector("dialog[open]")`))
	v.fetches("/checkout/api", `{}`)
	v.await("a call with the pass", `got[1] === "200 GET "`)
	s.shop.behave(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"status":"slow down"}`, http.StatusTooManyRequests)
	})
	v.fetches("/checkout/api", `{}`)
	v.await("a refusal of the shop's own", `got[2]?.startsWith("429 {")`)
	v.quiet()
}

func callsRepeat(t *testing.T, b *chromium) {
	s, v := newSinglePage(t, b)
	for range 3 {
		v.fetches("/checkout/api", `{repeat: true}`)
		v.await("the wait", `document.querySelector("dialog[open]")`)
	}
	v.fetches("/checkout/api", `{method: "POST", body: "x"}`)
	v.run(`window.gone = new AbortController(); 0`)
	v.fetches("/checkout/api", `{repeat: true, signal: gone.signal}`)
	v.run(`gone.abort(); 0`)
	v.await("the call that was given up", `got[0] === "AbortError"`)
	require.EqualValues(t, 1, *joined(t, s.gate).waits(t, s.gate).doc.Ahead, "all are one visitor")
	s.release(t)
	v.await("the calls", `got.length === 4`)
	require.Equal(t, "200 GET ", look[string](v, "got[3]"))
	require.Len(t, s.orders(), 3)
	v.await("the question for the order", `document.querySelector("dialog[open] button")?.textContent === "Continue"`)
	v.click("dialog button")
	v.await("the order", `got[4] === "200 POST x"`)
	v.quiet()
}

func callIsGivenUp(t *testing.T, b *chromium) {
	s, v := newSinglePage(t, b)
	s.failAt("/halting", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_ = http.NewResponseController(w).Flush()
		s.hang(w, r)
	})
	v.run(`window.gone = new AbortController(); 0`)
	v.fetches("/checkout/halting", `{signal: gone.signal}`)
	eventually(t, "the head of the answer is there", func() bool {
		return slices.ContainsFunc(v.fetched(), func(f fetched) bool { return f.Status == http.StatusTooManyRequests })
	})
	v.run(`gone.abort(); 0`)
	v.await("the call that was given up", `got[0] === "AbortError"`)
}

func pageTellsItself(t *testing.T, b *chromium) {
	s, v := newSinglePage(t, b)
	v.run(`window.told = []; 0`)
	v.fetches("/checkout/api", `{onWait: (s) => { told.push(s.status + " " + s.position); if (told.length > 2) return false; }}`)
	v.await("giving up", `got[0]?.startsWith("429 ")`)
	require.Equal(t, "waiting 1", look[string](v, "told[2]"))
	v.run(`told = {}; 0`)
	v.fetches("/checkout/api", `{onWait: (s, turn) => { told.a = 1; return turn ? "later" : undefined; }}`)
	v.fetches("/checkout/api", `{onWait: (s, turn) => { told.b = 1; return turn || undefined; }}`)
	v.await("both", `told.a && told.b`)
	s.release(t)
	v.await("the calls", `got.length === 3`)
	require.Equal(t, "200 GET ", look[string](v, `got.find((g) => g.startsWith("200"))`))
	require.Len(t, s.orders(), 1, "one did not want to be sent again")
	require.True(t, look[bool](v, `!document.querySelector("dialog")`))
	v.quiet()
}

func callLeaves(t *testing.T, b *chromium) {
	s, v := newSinglePage(t, b)
	v.fetches("/checkout/api", `{repeat: true}`)
	v.await("the wait", `document.querySelector("dialog[open]")`)
	v.click("dialog button")
	v.await("the end", `got[0]?.startsWith("429 ")`)
	eventually(t, "nobody waits", func() bool { return len(s.passages("/_queue/checkout")) > 0 && people(t, s.redis.Client(t)) == 0 })
	require.Empty(t, s.orders())
	v.quiet()
}

func otherOrigin(t *testing.T, b *chromium) {
	page := httptest.NewUnstartedServer(nil)
	f := startFleet(t, plan{gates: 1, rooms: room(ample), more: "cors: {allow_origins: [\"http://" + page.Listener.Addr().String() + "\"]}"})
	f.shop.behave(serveSinglePage(""))
	page.Config.Handler = serveSinglePage(f.gates[0].url)
	page.Start()
	defer page.Close()
	holder := newApp(t)
	holder.enter(t, f.gates[0])
	v := b.visitor(t)
	v.open(page.URL + "/")
	v.fetches(f.gates[0].url+"/checkout/api", `{method: "POST", body: "from afar", repeat: true}`)
	v.await("the wait", `document.querySelector("dialog[open] output")?.textContent.includes("place 1")`)
	_, err := holder.release(f.gates[0])
	require.NoError(t, err)
	v.await("the order", `got[0] === "200 POST from afar"`)
	v.fetches(f.gates[0].url+"/checkout/api", `{}`)
	v.await("a call with the pass", `got[1] === "200 GET "`)
	require.Empty(t, v.cookies())
}
