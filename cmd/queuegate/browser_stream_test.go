package main_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/require"
)

// patient lets a page take a stream for silent only after a minute and more, so that
// a slow machine is not.
const patient = "test.pace = ms => ms > 5000 && ms < 15000 ? 10 * ms : ms"

func streamTells(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	first := joined(t, s.gate)
	first.waits(t, s.gate)
	v := b.visitor(t, watchedTimers(), onEveryPage(patient))
	v.open(s.URL + "/checkout")
	v.awaitStream(1)
	require.Equal(t, 2, v.place())

	// Calls get no answer and timers stand still: what moves now the stream has told.
	holdTimers(v, s)
	s.fail(refuseWith(http.StatusBadGateway))
	_, err := first.send(request{method: "DELETE", url: s.gate.url + "/_queue/checkout"})
	require.NoError(t, err)
	v.await("the stream tells the new number", `document.querySelector("#position").textContent === "1"`)
	require.Equal(t, "1 of 1 place", look[string](v, `document.querySelector("#moved").textContent`))
	s.fail(nil)
	asked := len(s.polls())
	s.awaitPolls(t, asked+2) // each ping is answered by a sign of life
	s.release(t)
	v.awaitShop(s.URL + "/checkout")
	v.quiet()
}

// toldTo notes in the session's store what would be heard and seen of a page.
const toldTo = `{
	const note = text => sessionStorage.setItem("told", (sessionStorage.getItem("told") || "") + text + " ");
	window.Notification = class { constructor(text) { note("notified: " + text); } };
	Notification.permission = "default";
	Notification.requestPermission = () => note("asked");
	const start = OscillatorNode.prototype.start;
	OscillatorNode.prototype.start = function () { note("beep"); return start.call(this); };
}`

func hiddenTabIsTold(t *testing.T, b *chromium) {
	for _, clicks := range []bool{false, true} {
		s := newScene(t, room(ample))
		v := b.visitor(t, watchedTimers(), onEveryPage(patient), onEveryPage(toldTo))
		v.open(s.URL + "/checkout")
		v.awaitStream(1)
		if clicks {
			v.click("#tell")
			v.await("the page promises to tell", visible("#told"))
			require.False(t, look[bool](v, visible("#tell")), "once is enough")
		}
		v.another().open(s.URL + "/")
		v.await("the tab is hidden", "document.visibilityState === 'hidden'")
		holdTimers(v, s) // a browser lets timers of hidden tabs run once a minute
		s.release(t)
		v.awaitShop(s.URL + "/checkout")
		require.Equal(t, "hidden", look[string](v, "document.visibilityState"))
		want := map[bool]string{true: "asked beep notified: It is your turn "}[clicks]
		require.Equal(t, want, look[string](v, `sessionStorage.getItem("told") || ""`))
		v.quiet()
	}
}

// silent answers as a proxy does that keeps everything back until the end.
func (f *front) silent(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	f.hang(w, r)
}

// hurried lets time pass faster for a page; how long it waits for an answer stays.
const hurried = `{
	const now = performance.now.bind(performance);
	performance.now = () => 30 * now();
	test.pace = ms => ms === 15000 ? ms : ms / 5;
}`

func streamFails(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	for _, tc := range []struct {
		name  string
		fault http.HandlerFunc
	}{
		{"refused", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusServiceUnavailable)
		}},
		{"silent", s.silent},
		{"cut", nil},
	} {
		s.failAt("/events", tc.fault)
		v := b.visitor(t, watchedTimers(), onEveryPage(hurried))
		v.open(s.URL + "/checkout?" + tc.name)
		v.awaitStream(1)
		if tc.fault == nil {
			s.CloseClientConnections()
		}
		asked := len(s.polls())
		s.awaitPolls(t, asked+3)
		v.awaitStream(2) // tried again after a while
		require.Equal(t, 1, v.place(), tc.name)
		s.release(t)
		v.awaitShop(s.URL + "/checkout?" + tc.name)
		v.quiet()

		pass := "queuegate_entry_checkout=" + v.cookies()["queuegate_entry_checkout"]
		mustSend(t, newClient(t), request{method: "POST", url: s.gate.url + "/_queue/checkout/release", header: map[string]string{"Cookie": pass}})
		s.holder = newApp(t)
		s.holder.enter(t, s.gate)
	}
}

func oneTabHasTheStream(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	first := b.visitor(t, watchedTimers(), onEveryPage(patient))
	first.open(s.URL + "/checkout")
	first.awaitStream(1)
	second := first.another(watchedTimers(), onEveryPage(patient))
	second.open(s.URL + "/checkout?second=1")
	eventually(t, "the second tab asks", func() bool {
		n := 0
		for _, f := range second.fetched() {
			if strings.HasSuffix(f.URL, "/status") {
				n++
			}
		}
		return n >= 3
	})
	require.Empty(t, second.streams())

	// Whoever comes back to a page that the browser has kept gets the numbers at once.
	first.do(call(page.BringToFront, cdp.Empty{}))
	first.run(`dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }))`)
	second.awaitStream(1)
	first.run(`dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`)
	require.Len(t, first.streams(), 1, "it is the second tab's turn")
	second.open("about:blank")
	first.awaitStream(2)
	s.release(t)
	first.awaitShop(s.URL + "/checkout")
	first.quiet()
	second.quiet()
}

// clientsOfOthers follow the line from a page of the shop, with what the browser has
// and nothing of ours.
func clientsOfOthers(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t)
	v.open(s.URL + "/")
	v.run(`window.heard = [];
		fetch("/_queue/checkout/join", { method: "POST" }).then(() => {
			const source = new EventSource("/_queue/checkout/events");
			for (const event of ["update", "state", "ping", "ready", "closed"]) {
				source.addEventListener(event, e => {
					heard.push({ event, ...JSON.parse(e.data) });
					if (event === "ping") { fetch("/_queue/checkout/status"); }
					if (event === "ready") { source.close(); }
				});
			}
		})`)
	v.await("an update", `heard.some(m => m.event === "update" && m.position === 1)`)
	v.await("a ping", `heard.some(m => m.event === "ping")`)

	w := b.visitor(t)
	w.open(s.URL + "/")
	w.run(`window.heard = [];
		fetch("/_queue/checkout/join", { method: "POST" }).then(() => {
			window.socket = new WebSocket(location.origin.replace("http", "ws") + "/_queue/checkout/ws");
			socket.onmessage = e => heard.push(JSON.parse(e.data));
		})`)
	w.await("an update", `heard.some(m => m.type === "update" && m.position === 2)`)

	s.release(t)
	v.await("it is the first one's turn", `heard.some(m => m.event === "ready" && m.status === "ready" && m.entry_token)`)
	require.Equal(t, http.StatusOK, await[int](v, `fetch("/checkout").then(r => r.status)`))
	w.await("the second one moves up", `heard.some(m => m.type === "update" && m.position === 1)`)
	require.Equal(t, http.StatusOK, await[int](v, `fetch("/_queue/checkout", { method: "DELETE" }).then(r => r.status)`))
	w.await("it is the second one's turn", `heard.some(m => m.type === "ready")`)
	require.Equal(t, http.StatusOK, await[int](w, `fetch("/checkout", {
		headers: { "X-Entry-Token": heard.find(m => m.type === "ready").entry_token } }).then(r => r.status)`))
	v.quiet()
	w.quiet()
}

// foreignError answers as something does that stands between and knows nothing of
// the line.
func foreignError(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = io.WriteString(w, "<h1>502 Bad Gateway</h1>")
}

func wayInIsBlocked(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	inside := len(s.shop.got("/checkout"))
	v := b.visitor(t, watchedTimers())
	v.open(s.URL + "/checkout")
	s.awaitPolls(t, 1)
	v.run(`window.spoken = [];
		new MutationObserver(() => spoken.push(document.querySelector("#said").textContent)).observe(document.querySelector("#said"), { childList: true })`)
	s.failAt("/checkout", foreignError)
	s.release(t)
	v.awaitState("ready")
	v.await("the page says why it stays", visible("#blocked"))
	const left = "Go in within 4 minutes. After that the next person goes first, and you are called again."
	v.await("it says how long the turn is held", fmt.Sprintf("document.querySelector('#turn').textContent.startsWith(%q)", left))
	v.await("and says it aloud", fmt.Sprintf("spoken.some(text => text.startsWith(%q))", left))
	v.await("the title calls", `document.title === "(!) Your turn - this shop"`)
	v.await("and blinks", `document.title === "Your turn - this shop"`)
	require.Contains(t, look[string](v, `document.querySelector("#icon").href`), "e5484d")
	require.True(t, look[bool](v, visible("#continue")), "there is a way in by hand")
	v.accessible("at one's turn")
	v.shoot("turn-blocked")

	// Each look at the clock is most of a second.
	v.run(`{ let at = performance.now(); performance.now = () => at += 700; test.pace = ms => ms === 1000 ? 1 : ms; }`)
	for _, text := range []string{"3 minutes", "2 minutes", "(60|59) seconds", "(40|39) seconds", "(20|19) seconds"} {
		v.await(text+" are said aloud", fmt.Sprintf("spoken.some(text => /^Go in within %s/.test(text))", text))
	}
	v.await("the end is said aloud", `spoken.some(text => text.startsWith("The time to go in is over."))`)
	require.Equal(t, "ready", look[string](v, `document.querySelector("#queue").dataset.state`), "asked again, it is still their turn")

	s.failAt("/checkout", nil)
	v.awaitShop(s.URL + "/checkout")
	require.Len(t, s.shop.got("/checkout"), inside+2, "the last look, and the way in")
	v.quiet()
}

func behindAFrontThatAsks(t *testing.T, b *chromium) {
	f, shop := startFront(t, startExampleNginx, room(ample))
	shop.behave(serveShopPages)
	holder := newApp(t)
	holder.enter(t, f.gate)
	v := b.visitor(t, watchedTimers())
	target := f.url + "/checkout/item?id=7"
	v.open(target + "#seat")
	v.awaitState("waiting")
	v.awaitStream(1)

	// Somebody's stay that was ended elsewhere begins again with one click.
	ticket := v.cookies()["queuegate_ticket_checkout"]
	got := mustSend(t, newClient(t), request{method: "DELETE", url: f.url + "/_queue/checkout", header: map[string]string{"X-Queue-Ticket": ticket}})
	require.Equal(t, "left", got.doc.Status)
	v.awaitState("left")
	v.idle("the page does nothing by itself")
	v.click("#continue")
	v.awaitState("waiting")
	require.Equal(t, 1, v.place())

	// A shop that does not answer: what nginx says then is no page to be left on.
	shop.behave(reset)
	_, err := holder.release(f.gate)
	require.NoError(t, err)
	v.awaitState("ready")
	v.await("the page says why it stays", visible("#blocked"))
	eventually(t, "the page looks again, as its visitor", func() bool {
		for _, r := range shop.got("/checkout/item") {
			if r.Method == http.MethodGet && r.Header.Get("X-Queuegate-Visitor") != "" {
				return true
			}
		}
		return false
	})
	require.Equal(t, target+"#seat", v.address())
	shop.behave(serveShopPages)
	v.awaitShop(target + "#seat")
	v.quiet()
}
