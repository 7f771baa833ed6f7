package main_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	queuepage "github.com/queuegate/queuegate/proxy/page"
)

// TestInABrowser is what only a real browser shows. Each row is a test of its own
// with a gate, a Redis and a shop; all share one Chromium.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	b := startChromium(t)
	for _, tc := range []struct {
		name string
		test func(*testing.T, *chromium)
	}{
		{"reloads and a second tab keep the one place", reloadsKeepThePlace},
		{"whoever waits is let in by itself at the very address, and no address tells a secret", letInByItself},
		{"back, forward and the queue page opened by hand need no new place", backAndByHand},
		{"a pass that is over leads to one page with a way to join", passIsOver},
		{"status calls that fail are tried again ever more slowly, and the place is kept", statusCallsFail},
		{"a gate before the whole site breaks no part of any page", wholeSiteProtected},
		{"without JavaScript the page refreshes itself and gets in", withoutScript},
		{"nothing done in the browser opens the shop", nothingInTheBrowserOpensTheShop},
		{"without cookies the page says so and stops", withoutCookies},
		{"a tab that was frozen gets in when it wakes", frozenTab},
		{"a tab that is looked at again asks at once", hiddenTab},
		{"a tab that may ask once a minute keeps its place and gets in", onceAMinute},
		{"numbers, notices and a wait that grows are shown, and spoken at most once a minute", numbersAreTold},
		{"a browser that is online again asks at once", offlineAndBack},
		{"a clock that is wrong by a day changes nothing", clockIsWrong},
		{"a turn waits for a shop that does not answer", shopDoesNotAnswer},
		{"a full line, a form and leaving each get their page", fullFormAndLeave},
		{"a Redis that is away is said and survived", redisAway},
		{"a stream tells of moving up and of one's turn", streamTells},
		{"a hidden tab is told of its turn", hiddenTabIsTold},
		{"a stream that is refused, silent or cut leaves a page that asks", streamFails},
		{"of all tabs of a browser one has the stream", oneTabHasTheStream},
		{"EventSource and WebSocket of a page of the shop follow the line", clientsOfOthers},
		{"somebody else's error page is no way in and costs no turn", wayInIsBlocked},
		{"behind a front proxy that asks, a dead shop and a stay that is over need no second click", behindAFrontThatAsks},
		{"a service worker that keeps all it gets keeps nothing of ours", serviceWorkerKeepsNothing},
		{"in a frame of another site the line works where it is allowed, and nowhere else", framedByAnotherSite},
		{"axe finds nothing in any state and language", accessible},
		{"an operator signs in and does everything from the dashboard", operatorRunsTheRoom},
		{"the dashboard says what is wrong, and never shows the old as live", dashboardTellsTrouble},
		{"a preview that was outrun is not confirmed", previewIsNotOutrun},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.test(t, b)
		})
	}
}

func reloadsKeepThePlace(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	const ahead = 4
	var others []*app
	for range ahead {
		others = append(others, joined(t, s.gate))
		others[len(others)-1].waits(t, s.gate)
	}
	v := b.visitor(t)
	v.open(s.URL + "/checkout")
	s.awaitPolls(t, 1)
	behind := newApp(t)
	_, err := behind.join(s.gate, nil)
	require.NoError(t, err)
	inLine := *behind.waits(t, s.gate).doc.Waiting
	require.EqualValues(t, ahead+2, inLine)
	line := s.redis.Client(t)
	before := people(t, line)
	v.shoot("waiting")

	for range 30 {
		v.do(chromedp.Reload())
		require.Equal(t, ahead+1, v.place())
	}
	second := v.another()
	second.open(s.URL + "/checkout?again=1")
	require.Equal(t, ahead+1, second.place())
	require.Equal(t, "0 of 4 places", look[string](second, `document.querySelector("#moved").textContent`))

	require.Equal(t, inLine, *behind.waits(t, s.gate).doc.Waiting)
	require.Equal(t, before, people(t, line))

	// Progress is measured from the first place, whatever is loaded meanwhile.
	for _, a := range others[:3] {
		_, err := a.send(request{method: "DELETE", url: s.gate.url + "/_queue/checkout"})
		require.NoError(t, err)
	}
	const moved = `document.querySelector("#moved").textContent === "3 of 4 places" && document.querySelector("#progress").value === 3`
	second.await("the bar moves", moved)
	for _, page := range []*tab{v, second} {
		page.do(chromedp.Reload())
		page.await("the bar stands where it stood", moved)
	}
	v.quiet()
	second.quiet()
}

func letInByItself(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t)
	v.open(s.URL + "/")
	v.click("#in")
	const target = "/checkout/item?id=7&c=a%20b+c"
	address := s.URL + target + "#seat"
	v.awaitState("waiting")
	require.Equal(t, address, v.address())
	s.awaitPolls(t, 1)
	secrets := v.cookies()
	require.Len(t, secrets, 1)
	s.release(t)
	v.awaitShop(address)
	for name, value := range v.cookies() {
		secrets["now "+name] = value
	}
	require.Len(t, secrets, 3)

	require.Equal(t, []string{"about:blank", s.URL + "/", address}, v.history())
	require.Len(t, s.shop.got("/checkout/item"), 1)
	for _, r := range s.shop.got("") {
		require.NotContains(t, strings.Join(r.Header["Cookie"], ";"), "queuegate")
		require.Contains(t, []string{"", s.URL + "/", s.URL + target}, r.Header.Get("Referer"))
	}
	for _, p := range s.passages("") {
		require.Contains(t, []string{"/", target, "/_queue/checkout/status", "/_queue/checkout/events", "/shop.css", "/shop.js", "/shop.svg"}, p.Target)
	}
	log := s.gate.stderr.String()
	require.Contains(t, log, "/_queue/checkout/status")
	for name, secret := range secrets {
		require.Greater(t, len(secret), 20, name)
		require.NotContains(t, log, secret, name)
	}

	// The address by itself is worth nothing.
	other := b.visitor(t)
	other.open(address)
	other.awaitState("waiting")
	v.quiet()
}

func backAndByHand(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t)
	v.open(s.URL + "/")
	v.click("#in")
	v.awaitState("waiting")
	s.release(t)
	address := s.URL + "/checkout/item?id=7&c=a%20b+c#seat"
	v.awaitShop(address)
	line := s.redis.Client(t)
	require.Zero(t, people(t, line))

	v.run("history.back()")
	v.awaitShop(s.URL + "/")
	v.run("history.forward()")
	v.awaitShop(address)
	v.open(s.URL + "/_queue/checkout?return=/checkout/again%3Fa=1")
	v.awaitShop(s.URL + "/checkout/again?a=1")
	v.run("history.back()")
	v.awaitShop(address)

	require.Zero(t, people(t, line), "nobody stands in line again")
	visitor := s.shop.last(t, "/checkout/again").Header.Get("X-Queuegate-Admission")
	require.Equal(t, visitor, s.shop.last(t, "/checkout/item").Header.Get("X-Queuegate-Admission"))
	v.quiet()
}

func passIsOver(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	s.release(t)
	v := b.visitor(t, watchedTimers())
	v.open(s.URL + "/checkout/item?id=7")
	v.awaitShop(s.URL + "/checkout/item?id=7")
	pass := "queuegate_entry_checkout=" + v.cookies()["queuegate_entry_checkout"]
	a := mustSend(t, newClient(t), request{
		method: "POST", url: s.gate.url + "/_queue/checkout/release", header: map[string]string{"Cookie": pass},
	})
	require.Equal(t, "released", a.doc.Status)
	next := newApp(t)
	next.enter(t, s.gate)

	v.open(s.URL + "/_queue/checkout?return=/checkout/item%3Fid=7")
	v.awaitState("ended")
	v.shoot("ended")
	v.idle("the page does nothing by itself")
	require.Empty(t, s.polls())
	require.Len(t, s.passages("/_queue/checkout"), 1)
	require.Zero(t, people(t, s.redis.Client(t)))

	v.click("#continue")
	v.awaitState("waiting")
	require.Equal(t, s.URL+"/checkout/item?id=7", v.address())
	require.Equal(t, 1, v.place())
	_, err := next.release(s.gate)
	require.NoError(t, err)
	v.awaitShop(s.URL + "/checkout/item?id=7")
	v.quiet()
}

func statusCallsFail(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t, watchedTimers(), noStreams())
	v.open(s.URL + "/checkout")
	s.awaitPolls(t, 1)
	place := v.place()
	v.run("test.pace = ms => ms / 30")

	faults := []http.HandlerFunc{
		reset,
		refuseWith(http.StatusBadGateway),
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprint(w, "<h1>Please log in</h1>")
		},
		s.hang,
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"status":`)
		},
	}
	var calls atomic.Int64
	s.fail(func(w http.ResponseWriter, r *http.Request) { faults[(calls.Add(1)-1)%int64(len(faults))](w, r) })
	v.await("the page says that it is reconnecting", visible("#reconnecting"))
	v.shoot("reconnecting")
	const hang = 15000
	delays := func() (grown []int) {
		for _, d := range look[[]float64](v, "test.delays") {
			if d != hang {
				grown = append(grown, int(d))
			}
		}
		// Below the third failure in a row a delay may be one of a poll that went well.
		for len(grown) > 0 && grown[0] < 4000 {
			grown = grown[1:]
		}
		return grown
	}
	eventually(t, "six failures more", func() bool { return len(delays()) >= 6 })
	for i, most := range []int{8000, 16000, 30000, 30000, 30000, 30000} {
		require.GreaterOrEqual(t, delays()[i], most/2, "delay %d of %v", i, delays())
		require.LessOrEqual(t, delays()[i], most, "delay %d of %v", i, delays())
	}
	require.Equal(t, place, v.place(), "the last number stays")

	s.fail(nil)
	v.run("test.pace = ms => ms") // no answer is late only because time runs fast
	v.await("the page has recovered", "!("+visible("#reconnecting")+")")
	require.Equal(t, place, v.place())
	s.release(t)
	v.awaitShop(s.URL + "/checkout")
	v.quiet()
}

func wholeSiteProtected(t *testing.T, b *chromium) {
	s := newScene(t, "  - {name: checkout, protect: [{paths: [/]}], "+ample+"}\n")
	v := b.visitor(t)
	v.open(s.URL + "/")
	v.awaitState("waiting")
	s.awaitPolls(t, 1)
	weight := 0
	for _, p := range s.passages("") {
		weight += p.Size
	}
	require.Less(t, weight, 30<<10)
	v.sound(s.URL, http.StatusTooManyRequests)

	s.release(t)
	v.await("the shop's own script runs", "document.title === 'The shop works'")
	v.await("the shop's picture is there", "document.images[0].complete && document.images[0].naturalWidth > 0")
	v.await("the shop's style is there", "getComputedStyle(document.querySelector('h1')).color === 'rgb(0, 128, 0)'")
	v.sound(s.URL, http.StatusTooManyRequests, http.StatusOK)
	v.quiet()

	// The recorder of complaints is no ornament: a script that somebody smuggled in
	// does not run, and is complained of.
	w := b.visitor(t)
	w.open(s.URL + "/")
	w.awaitState("waiting")
	w.run(`document.body.insertAdjacentHTML('beforeend', '<img src="data:," onerror="window.smuggled = true">')`)
	eventually(t, "the policy forbids it", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.complaints) > 0
	})
	require.False(t, look[bool](w, "!!window.smuggled"))
}

func withoutScript(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t, call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	const target = "/checkout/item?id=7&c=a%20b+c"
	v.open(s.URL + target + "#seat")
	require.Equal(t, 1, v.place())
	eventually(t, "the page has loaded itself twice", func() bool { return len(s.passages(target)) >= 3 })
	require.Equal(t, 1, v.place())
	require.Empty(t, s.polls())
	require.EqualValues(t, 1, people(t, s.redis.Client(t)))

	v.click(`noscript a`)
	v.await("the page that stays", `!document.querySelector("meta[http-equiv=refresh]") && document.querySelector("#position")`)
	require.Equal(t, 1, v.place())
	v.shoot("without-script-stays")
	v.open(s.URL + target + "#seat")
	s.release(t)
	v.awaitShop(s.URL + target) // a page that loads itself cannot keep what stands behind the hash
	for _, p := range s.passages("/") {
		require.Contains(t, []string{target, "/_queue/checkout", "/shop.css", "/shop.svg"}, strings.SplitN(p.Target, "?return", 2)[0])
	}
	require.Len(t, s.shop.got("/checkout/item"), 1)
}

func nothingInTheBrowserOpensTheShop(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t, watchedTimers())
	v.open(s.URL + "/checkout/item")
	s.awaitPolls(t, 1)
	require.EqualValues(t, http.StatusTooManyRequests, await[int](v, `fetch("/checkout/order", {method: "POST", body: "q=1"}).then(r => r.status)`))
	v.run(`document.querySelector("#queue").dataset.state = "ready"; document.querySelector("#continue").hidden = false`)
	v.click("#continue")
	v.awaitState("waiting")

	// Whoever forges the answer that it is their turn only loads the page again, ever
	// more slowly.
	before := len(s.loads("/checkout/item"))
	s.fail(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"room":"checkout","status":"ready","room_state":"open","entry_token":"x.y.z","return_to":"/checkout/item"}`)
	})
	v.await("the page slows down", visible(`[data-when="cookieless"] h1`)+" && [...test.pending.values()].some(ms => ms >= 4000 && ms !== 15000)")
	require.LessOrEqual(t, len(s.loads("/checkout/item"))-before, 3)
	s.fail(nil)
	v.open(s.URL + "/checkout/item")
	require.Equal(t, 1, v.place())

	v.do(call(network.SetBlockedURLs, network.SetBlockedURLsParams{
		URLPatterns: []*network.BlockPattern{{URLPattern: "*://*:*/_queue/*", Block: true}},
	}))
	v.do(chromedp.Reload())
	v.await("the page says that it is reconnecting", visible("#reconnecting"))
	require.Equal(t, 1, v.place())
	require.Empty(t, s.shop.got("/checkout/"))
	require.EqualValues(t, 1, people(t, s.redis.Client(t)))
}

// quicker lets the page ask ten times as often and wait for each answer as long as
// ever, so that a slow machine is not taken for a failure.
const quicker = "test.pace = ms => ms === 15000 ? ms : ms / 10"

func withoutCookies(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	s.dropCookies()
	line := s.redis.Client(t)
	for _, tc := range []struct {
		name  string
		polls int
		tab   *tab
	}{
		{"the browser says that it keeps some", 2, b.visitor(t, watchedTimers(), onEveryPage(quicker))},
		{"the browser says that it keeps none", 0, b.visitor(t, watchedTimers(),
			call(emulation.SetDocumentCookieDisabled, emulation.SetDocumentCookieDisabledParams{Disabled: true}))},
	} {
		v := tc.tab
		loads, entries, polls := len(s.passages("/checkout")), people(t, line), len(s.polls())
		for n := range 3 {
			v.open(s.URL + "/checkout")
			v.awaitState("cookieless")
			require.False(t, look[bool](v, visible("#position")), "%s: no place is promised", tc.name)
			v.idle(tc.name + ": the page does nothing more")
			require.LessOrEqual(t, people(t, line)-entries, int64(n+1), tc.name)
			require.Len(t, s.passages("/checkout"), loads+n+1, tc.name)
			require.Len(t, s.polls(), polls+(n+1)*tc.polls, tc.name)
		}
		v.shoot("cookies")
		v.quiet()
	}
}

func frozenTab(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t, onEveryPage(`document.addEventListener("freeze", () => sessionStorage.setItem("frozen", "yes"))`))
	v.open(s.URL + "/checkout")
	s.awaitPolls(t, 1)
	v.do(call(page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: page.SetWebLifecycleStateStateFrozen}))
	s.release(t)
	v.do(call(page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: page.SetWebLifecycleStateStateActive}),
		call(page.BringToFront, cdp.Empty{}))
	v.awaitShop(s.URL + "/checkout")
	require.Equal(t, "yes", look[string](v, `sessionStorage.getItem("frozen")`))
	v.quiet()
}

// holdTimers lets no long timer run any more, so that nothing but an event makes
// the page ask. It returns how often it has asked.
func holdTimers(v *tab, s *scene) int {
	v.t.Helper()
	v.run("test.held = ms => ms > 1000 && ms !== 15000") // that one bounds a call under way
	v.await("the page waits for a timer that does not run", "[...test.pending.keys()].some(id => id < 0)")
	return len(s.polls())
}

func hiddenTab(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t, watchedTimers(), noStreams())
	v.open(s.URL + "/checkout")
	other := v.another()
	other.open(s.URL + "/")
	v.await("the tab is hidden", "document.visibilityState === 'hidden'")
	s.awaitPolls(t, 1)
	asked := holdTimers(v, s)
	v.do(call(page.BringToFront, cdp.Empty{}))
	s.awaitPolls(t, asked+1)

	// Again, now that it is this visitor's turn.
	v.do(call(page.BringToFront, cdp.Empty{}))
	other.do(call(page.BringToFront, cdp.Empty{}))
	v.await("the tab is hidden again", "document.visibilityState === 'hidden'")
	holdTimers(v, s)
	s.release(t)
	v.do(call(page.BringToFront, cdp.Empty{}))
	v.awaitShop(s.URL + "/checkout")
	v.quiet()
}

func onceAMinute(t *testing.T, b *chromium) {
	s := newScene(t, room("total_active_users: 1, presence_window: 1s, claim_window: 5m"))
	v := b.visitor(t, watchedTimers(), noStreams())
	v.open(s.URL + "/checkout")
	s.awaitPolls(t, 1)
	behind := joined(t, s.gate)
	v.another().open(s.URL + "/")
	v.await("the tab is hidden", "document.visibilityState === 'hidden'")
	holdTimers(v, s)
	stepsAside := func() { // as somebody sees who comes then, for what was told never grows
		t.Helper()
		last := joined(t, s.gate)
		require.Eventually(t, func() bool {
			got, err := last.poll(s.gate)
			_, alsoHere := behind.poll(s.gate)
			return err == nil && alsoHere == nil && got.doc.Ahead != nil && *got.doc.Ahead == 1
		}, patience, lookIn, "who does not ask steps aside")
		_, err := last.send(request{method: "DELETE", url: s.gate.url + "/_queue/checkout"})
		require.NoError(t, err)
	}
	stepsAside()
	asked := len(s.polls())
	v.run("test.minute()")
	s.awaitPolls(t, asked+1)
	v.await("the place is kept", `document.querySelector("#position").textContent === "1"`)

	// While it is silent somebody who is here goes in; it comes in with its next call.
	stepsAside()
	s.release(t)
	behind.await(t, s.gate)
	_, err := behind.release(s.gate)
	require.NoError(t, err)
	v.run("test.minute()")
	v.awaitShop(s.URL + "/checkout")
	require.Equal(t, "hidden", look[string](v, "document.visibilityState"))
	v.quiet()
}

func numbersAreTold(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t, watchedTimers(), noStreams())
	v.open(s.URL + "/checkout")
	s.awaitPolls(t, 1)
	// The page's clock stands still but when it is moved.
	v.run(`{ let at = performance.now(); window.later = ms => at += ms; performance.now = () => at; }
		window.spoken = [];
		new MutationObserver(() => spoken.push(document.querySelector("#said").textContent)).observe(document.querySelector("#said"), { childList: true })`)
	answer := func(stay string, position, wait int, message string) {
		s.fail(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"room":"checkout","status":"waiting","room_state":"open","position":%d,"ahead":%d,"behind":3,"waiting":900,
				"estimated_wait_seconds":%d,"poll_after_ms":1000,"joined_at":%q,"message":%q}`, position, position-1, wait, stay, message)
		})
	}
	shows := func(text string) {
		t.Helper()
		v.await("the page shows "+text, fmt.Sprintf("document.querySelector('main').innerText.includes(%q)", text))
	}
	answer("2026-05-04T14:00:00Z", 500, 700, "")
	shows("about 10-15 minutes")
	shows("500")
	answer("2026-05-04T14:00:00Z", 420, 1500, "Doors at seven")
	shows("Doors at seven")
	shows("about 20-30 minutes")
	shows("80 of 499 places")
	shows("The wait has grown: people are let in more slowly than before.")
	answer("2026-05-04T14:00:00Z", 430, 1400, "Doors at seven") // another gate is a moment behind
	v.await("the page has asked again", "test.delays.length > "+fmt.Sprint(look[int](v, "test.delays.length")+4))
	shows("80 of 499 places")
	answer("2026-05-04T14:00:00Z", 400, 100, "")
	shows("about 1-2 minutes")
	shows("You are nearly there.")
	v.await("the notice is gone", "!"+visible("#message"))
	require.False(t, look[bool](v, visible("#slower")))
	answer("2026-05-04T15:00:00Z", 800, 1500, "") // joined again in another tab
	shows("800")
	shows("0 of 799 places")
	require.Empty(t, look[[]string](v, "spoken"), "no minute has passed")
	v.run("later(61000)")
	v.await("it is spoken", "spoken.length === 1")
	require.Equal(t, []string{"You are number 800. Estimated wait: about 20-30 minutes"}, look[[]string](v, "spoken"))
	v.quiet()
}

// offline takes the network away from a tab, or gives it back.
func offline(away bool) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(
		call(network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{{Offline: away, DownloadThroughput: -1, UploadThroughput: -1}},
		}),
		call(network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: away, DownloadThroughput: -1, UploadThroughput: -1}),
	)
}

func offlineAndBack(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t, watchedTimers(), noStreams())
	v.open(s.URL + "/checkout")
	s.awaitPolls(t, 1)
	v.do(offline(true))
	v.await("the page says that it is reconnecting", visible("#reconnecting"))
	v.accessible("offline")
	asked := holdTimers(v, s)
	v.do(offline(false))
	s.awaitPolls(t, asked+1)
	v.await("the page has recovered", "!("+visible("#reconnecting")+")")
	require.Equal(t, 1, v.place())
	v.quiet()
}

func clockIsWrong(t *testing.T, b *chromium) {
	s := newScene(t, room("total_active_users: 2, presence_window: 5m, claim_window: 5m"))
	second := newApp(t)
	second.enter(t, s.gate)
	behind := b.visitor(t, watchedTimers(), noStreams(), wrongClock(-24))
	behind.open(s.URL + "/checkout?behind=1")
	require.Equal(t, 1, behind.place())
	ahead := b.visitor(t, watchedTimers(), noStreams(), wrongClock(24))
	ahead.open(s.URL + "/checkout?ahead=1")
	s.awaitPolls(t, 2)
	require.Equal(t, 2, ahead.place())

	// The clock is put right while the page is open.
	asked := holdTimers(ahead, s)
	ahead.run("window.off = 0")
	ahead.click("#check")
	eventually(t, "the page asks when told to", func() bool { return len(s.polls()) > asked })
	ahead.run("test.held = () => false")
	ahead.do(chromedp.Reload())

	s.release(t)
	_, err := second.release(s.gate)
	require.NoError(t, err)
	behind.awaitShop(s.URL + "/checkout?behind=1")
	ahead.awaitShop(s.URL + "/checkout?ahead=1")
	behind.quiet()
	ahead.quiet()
}

func shopDoesNotAnswer(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t, watchedTimers())
	v.open(s.URL + "/checkout")
	s.awaitPolls(t, 1)
	v.run("test.held = ms => ms === 0") // the page does not go on yet
	s.release(t)
	v.awaitState("ready")
	v.shoot("ready")
	s.shop.behave(reset)
	v.click("#continue")
	v.awaitState("shop_down")
	v.shoot("shop-down")
	s.shop.behave(serveShopPages)
	v.awaitShop(s.URL + "/checkout")
	v.quiet()
}

func fullFormAndLeave(t *testing.T, b *chromium) {
	s := newScene(t, room(ample+", max_waiting: 1"))
	s.release(t)
	v := b.visitor(t, watchedTimers())
	v.open(s.URL + "/checkout")
	v.awaitShop(s.URL + "/checkout")
	pass := "queuegate_entry_checkout=" + v.cookies()["queuegate_entry_checkout"]
	mustSend(t, newClient(t), request{
		method: "POST", url: s.gate.url + "/_queue/checkout/release", header: map[string]string{"Cookie": pass},
	})
	next := newApp(t)
	next.enter(t, s.gate)
	v.click("#order")
	v.awaitState("waiting")
	v.shoot("not-accepted")
	require.Empty(t, s.shop.got("/checkout/order"), "the form has not reached the shop")

	late := b.visitor(t, watchedTimers())
	late.open(s.URL + "/checkout?late=1")
	late.awaitState("full")
	late.shoot("full")

	v.click("#leave")
	v.awaitState("left")
	v.idle("the page does nothing more")
	v.shoot("left")
	late.do(chromedp.Reload())
	late.awaitState("waiting")
	_, err := next.release(s.gate)
	require.NoError(t, err)
	late.awaitShop(s.URL + "/checkout?late=1")
	v.quiet()
	late.quiet()
}

func redisAway(t *testing.T, b *chromium) {
	s := newScene(t, room(ample))
	v := b.visitor(t, watchedTimers())
	v.open(s.URL + "/checkout")
	s.awaitPolls(t, 1)
	s.redis.Kill()
	v.awaitState("degraded")
	require.Equal(t, 1, v.place())
	v.shoot("degraded")
	late := b.visitor(t, watchedTimers())
	late.open(s.URL + "/checkout?late=1")
	late.awaitState("unreachable")
	late.shoot("unreachable")

	s.redis.Resume(t)
	late.run(quicker)
	v.awaitState("waiting")
	require.Equal(t, 1, v.place())
	late.awaitState("waiting")
	require.Equal(t, 2, late.place())
	v.quiet()
	late.quiet()
}

// accessible has axe, which knows what assistive technology stumbles over, look at
// the page in every state and language, by day or by night. One language is read
// from right to left.
func accessible(t *testing.T, b *chromium) {
	dir := t.TempDir()
	english, err := os.ReadFile("../../proxy/page/locales/en.json")
	require.NoError(t, err)
	persian := strings.NewReplacer(`"lang": "en"`, `"lang": "fa"`, `"dir": "ltr"`, `"dir": "rtl"`, `"name": "English"`, `"name": "فارسی"`).Replace(string(english))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fa.json"), []byte(persian), 0o600))
	s := newScene(t, room(ample+fmt.Sprintf(", page: {languages: [en, ko, ja, fa], locales: %q, message: Doors at seven., contact: help@shop.example}", dir)))
	v := b.visitor(t, onEveryPage(axe(t)))
	night := false
	for _, lang := range []string{"en", "ko", "ja", "fa"} {
		for _, state := range queuepage.States() {
			if lang == "fa" && state != queuepage.Waiting {
				continue // the same texts from the other side
			}
			scheme := map[bool]string{false: "light", true: "dark"}[night]
			night = !night
			v.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			}))
			v.open(s.gate.admin + "/preview?room=checkout&state=" + string(state) + "&lang=" + lang)
			require.Equal(t, lang, look[string](v, "document.documentElement.lang"))
			require.Empty(t, await[string](v, findings), "%s in %s, %s", state, lang, scheme)
			if state == queuepage.Waiting {
				v.shoot("preview-" + lang)
			}
		}
	}
	v.click(`button[value="ko"]`)
	v.await("the language is a click away, also in a preview", `document.documentElement.lang === "ko"`)
	// It does find what is wrong.
	v.run(`document.querySelector("h1").style.color = "#eee"; document.documentElement.lang = ""`)
	require.Contains(t, await[string](v, findings), "html-has-lang")
}

// axe is the source of axe.
func axe(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("../../proxy/page/testdata/axe-core/axe.min.js")
	require.NoError(t, err)
	return string(source)
}

// accessible asserts that axe finds nothing in the page as it stands.
func (v *tab) accessible(what string) {
	v.t.Helper()
	v.run(axe(v.t))
	require.Empty(v.t, await[string](v, findings), what)
}

// findings is a script: what axe finds in the page, empty when it is nothing.
const findings = `axe.run({ resultTypes: ["violations"], rules: { "target-size": { enabled: true } } }).then(r =>
	r.violations.map(f => f.id + " " + f.nodes.map(n => n.html.slice(0, 200) + " " + n.failureSummary).join(" ")).join("\n"))`
