package main_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// screenshots is where a picture of each state goes that a test reaches.
const screenshots = "../../build/screenshots"

// chromium is the one browser process that all tests in a browser share.
type chromium struct {
	ctx context.Context
}

// startChromium starts Debian's Chromium without a window. It ends with the test.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	require.NoError(t, err, "install chromium (Debian: apt-get install -y chromium fonts-liberation)")
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // which root in a container does not have
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("lang", "en-GB"),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		}),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeBrowser := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		closeBrowser()
		stop()
	})
	require.NoError(t, chromedp.Do(ctx), "Chromium does not start")
	return &chromium{ctx: ctx}
}

// tab is one tab of one visitor's browser. It notes what the page asks for and
// what it complains of.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	requests   map[network.RequestID]*fetched
	order      []*fetched
	complaints []string // errors in the console, exceptions, violations of the policy
}

// fetched is one request of a tab.
type fetched struct {
	URL    string
	Method string
	Type   network.ResourceType
	Status int64
	Failed string // the browser's name of what went wrong
}

// visitor opens a browser that knows nothing yet: its cookies and storage are its
// own. What prepare does holds for every page of the tab.
func (b *chromium) visitor(t *testing.T, prepare ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	return openTab(t, b.ctx, []chromedp.ContextOption{chromedp.WithNewBrowserContext()}, prepare)
}

// another opens a second tab of the same browser, in the same window, so that the
// first one is hidden.
func (v *tab) another(prepare ...chromedp.Action[chromedp.Void]) *tab {
	v.t.Helper()
	return openTab(v.t, v.ctx, []chromedp.ContextOption{chromedp.WithNewWindow(false)}, prepare)
}

func openTab(t *testing.T, parent context.Context, options []chromedp.ContextOption, prepare []chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	v := &tab{t: t, requests: map[network.RequestID]*fetched{}}
	ctx, closeTab := chromedp.NewContext(parent, append(options, chromedp.WithListener(v.note))...)
	v.ctx = ctx
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("a tab at %s shows:\n%s\nand has asked for %v", v.quietly("location.href"), v.quietly("document.body.innerText"), v.fetched())
		}
		closeTab()
	})
	require.NoError(t, chromedp.Do(ctx), "no tab opens")
	v.do(prepare...)
	return v
}

// note runs for every event of the tab.
func (v *tab) note(event any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		f := &fetched{URL: e.Request.URL, Method: e.Request.Method, Type: e.Type}
		v.requests[e.RequestID] = f
		v.order = append(v.order, f)
	case *network.EventResponseReceived:
		if f := v.requests[e.RequestID]; f != nil {
			f.Status = e.Response.Status
		}
	case *network.EventLoadingFailed:
		if f := v.requests[e.RequestID]; f != nil {
			f.Failed = e.ErrorText
		}
	case *log.EventEntryAdded:
		// What the network did is noted above: here an answer of 429 is an error.
		if e.Entry.Source != log.EntrySourceNetwork {
			v.complaints = append(v.complaints, fmt.Sprint(e.Entry.Source, " ", e.Entry.Level, ": ", e.Entry.Text))
		}
	case *runtime.EventExceptionThrown:
		v.complaints = append(v.complaints, "exception: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		v.complaints = append(v.complaints, fmt.Sprint("console.", e.Type))
	case *page.EventJavascriptDialogOpening:
		// A dialog stands still until it is answered, which this goroutine must not do.
		go func() {
			_, _ = chromedp.Call(v.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		}()
	}
}

// fetched returns what the tab has asked for so far.
func (v *tab) fetched() []fetched {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []fetched
	for _, f := range v.order {
		all = append(all, *f)
	}
	return all
}

// quiet asserts that no page of the tab had anything to complain of.
func (v *tab) quiet() {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	require.Empty(v.t, v.complaints)
}

func (v *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	require.NoError(v.t, chromedp.Do(ctx, steps...))
}

// open opens an address as somebody who types it.
func (v *tab) open(address string) {
	v.t.Helper()
	v.do(chromedp.Navigate(address))
}

// click clicks on what selector finds, as a script can: it also works where the
// click leads to another page.
func (v *tab) click(selector string) {
	v.t.Helper()
	v.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// evaluate runs a script in the page and returns its value.
func evaluate[T any](v *tab, script string) (T, error) {
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](script))
}

// look evaluates a script in the page, which must have an answer.
func look[T any](v *tab, script string) T {
	v.t.Helper()
	value, err := evaluate[T](v, script)
	require.NoError(v.t, err, script)
	return value
}

// await waits for a promise in the page.
func await[T any](v *tab, script string) T {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	require.NoError(v.t, err, script)
	return value
}

// run runs a script in the page as somebody at its console.
func (v *tab) run(script string) {
	v.t.Helper()
	v.do(chromedp.Evaluate[chromedp.Void](script))
}

// idle asserts that the page has come to rest: it waits for no answer, each of
// which has a timer, and for no time to come.
func (v *tab) idle(what string) {
	v.t.Helper()
	v.await(what, "test.pending.size === 0")
}

// address is what stands in the address bar.
func (v *tab) address() string {
	v.t.Helper()
	entries := v.history()
	return entries[len(entries)-1]
}

// history are the addresses that the tab has been at, up to the present one.
func (v *tab) history() []string {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.NavigationEntries())
	require.NoError(v.t, err)
	var addresses []string
	for _, e := range got.Entries[:got.CurrentIndex+1] {
		addresses = append(addresses, e.URL)
	}
	return addresses
}

// streams are the streams that the tab has asked for so far.
func (v *tab) streams() []fetched {
	return slices.DeleteFunc(v.fetched(), func(f fetched) bool { return f.Type != network.ResourceTypeEventSource })
}

// awaitStream waits until the tab has asked for so many streams, the last of which
// was answered.
func (v *tab) awaitStream(n int) {
	v.t.Helper()
	eventually(v.t, fmt.Sprintf("%d streams", n), func() bool {
		all := v.streams()
		return len(all) >= n && all[len(all)-1].Status != 0
	})
}

// sound asserts that the tab asked only the site, that nothing failed, and that the
// pages themselves, and the look at them, had one of the codes and everything else
// 200. A stream ends with its page.
func (v *tab) sound(site string, pages ...int64) {
	v.t.Helper()
	for _, f := range v.fetched() {
		if strings.HasPrefix(f.URL, "data:") {
			continue
		}
		require.True(v.t, strings.HasPrefix(f.URL, site+"/"), f.URL)
		if f.Type != network.ResourceTypeEventSource {
			require.Empty(v.t, f.Failed, f.URL)
		}
		switch {
		case f.Type == network.ResourceTypeDocument, f.Method == http.MethodHead:
			require.Contains(v.t, pages, f.Status, f.URL)
		case f.Status != 0: // else it is still on its way
			require.EqualValues(v.t, http.StatusOK, f.Status, f.URL)
		}
	}
}

func (v *tab) quietly(script string) string {
	text, err := evaluate[string](v, script)
	if err != nil {
		return err.Error()
	}
	return text
}

// await waits until a condition, a script, holds. A page on its way to the next one
// has no answer, which is no failure.
func (v *tab) await(what, condition string) {
	v.t.Helper()
	eventually(v.t, what, func() bool {
		holds, err := evaluate[bool](v, "!!("+condition+")")
		return err == nil && holds
	})
}

// awaitState waits for one of the states of the queue page.
func (v *tab) awaitState(state string) {
	v.t.Helper()
	v.await("the page is in the state "+state, visible(`[data-when="`+state+`"] h1`))
}

// awaitShop waits until the tab is in the shop at an address, and nowhere else.
func (v *tab) awaitShop(address string) {
	v.t.Helper()
	v.await("the shop at "+address, fmt.Sprintf("document.querySelector('#shop') && location.href === %q", address))
}

// visible is a condition: what selector finds is seen.
func visible(selector string) string {
	return fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.getClientRects().length > 0)", selector)
}

// place is the number that the page shows.
func (v *tab) place() int {
	v.t.Helper()
	v.await("the page shows a place", visible("#position"))
	return look[int](v, "Number(document.querySelector('#position').textContent)")
}

// cookies are the cookies of the tab by name.
func (v *tab) cookies() map[string]string {
	v.t.Helper()
	got, err := chromedp.Call(v.ctx, network.GetCookies, network.GetCookiesParams{})
	require.NoError(v.t, err)
	values := map[string]string{}
	for _, c := range got.Cookies {
		values[c.Name] = c.Value
	}
	return values
}

// shoot takes pictures of the page, on a telephone and on a desk, by day and by
// night, and asserts that nothing sticks out at the side.
func (v *tab) shoot(name string) {
	v.t.Helper()
	require.NoError(v.t, os.MkdirAll(screenshots, 0o750))
	for _, width := range []int64{320, 1280} {
		v.do(call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: 640, DeviceScaleFactor: 1,
		}))
		for _, scheme := range []string{"light", "dark"} {
			v.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			}))
			v.run("scrollTo(0, 0)") // what sticks to the top is shown there
			require.LessOrEqual(v.t, look[int64](v, "document.documentElement.scrollWidth"), width, "%s sticks out", name)
			// A picture that a new page comes in between of is never finished.
			var picture []byte
			eventually(v.t, "a picture of "+name, func() bool {
				ctx, cancel := context.WithTimeout(v.ctx, patience/6)
				defer cancel()
				var err error
				picture, err = chromedp.Run(ctx, chromedp.FullScreenshot(100))
				return err == nil
			})
			file := filepath.Join(screenshots, fmt.Sprintf("%s-%s-%d.png", name, scheme, width))
			require.NoError(v.t, os.WriteFile(file, picture, 0o600))
		}
	}
	v.do(call(emulation.ClearDeviceMetricsOverride, cdp.Empty{}), call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{}))
}

// call is a command of the browser as a step.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// onEveryPage runs a script in every page of the tab before the page's own.
func onEveryPage(script string) chromedp.Action[chromedp.Void] {
	return call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// watchedTimers makes the page's timers visible: test.delays are all that were
// asked for, test.pending those that still run. Each takes the time that test.pace
// makes of its delay; those that test.held names run when test.minute is called, as
// in a tab that nobody sees.
func watchedTimers() chromedp.Action[chromedp.Void] {
	return onEveryPage(`(() => {
		const start = window.setTimeout, stop = window.clearTimeout;
		const held = new Map();
		const test = window.test = { delays: [], pending: new Map(), pace: ms => ms, held: () => false,
			minute: () => [...held].forEach(([id, f]) => { held.delete(id); test.pending.delete(id); f(); }) };
		let next = -1;
		window.setTimeout = (f, ms) => {
			ms = ms || 0;
			test.delays.push(ms);
			if (test.held(ms)) { test.pending.set(next, ms); held.set(next, f); return next--; }
			const id = start(() => { test.pending.delete(id); f(); }, test.pace(ms));
			test.pending.set(id, ms);
			return id;
		};
		window.clearTimeout = id => { test.pending.delete(id); held.delete(id); stop(id); };
	})()`)
}

// noStreams makes a browser that knows no EventSource.
func noStreams() chromedp.Action[chromedp.Void] { return onEveryPage("delete window.EventSource") }

// wrongClock sets the page's clock off by so many hours.
func wrongClock(hours int) chromedp.Action[chromedp.Void] {
	return onEveryPage(fmt.Sprintf(`(() => {
		const True = Date;
		window.off = %d * 3600 * 1000;
		window.Date = class extends True {
			constructor(...a) { if (a.length) { super(...a); } else { super(True.now() + window.off); } }
			static now() { return True.now() + window.off; }
		};
	})()`, hours))
}

// front stands between the browsers and the gate. It notes what passes and can
// answer in the gate's place.
type front struct {
	*httptest.Server
	free chan struct{} // closed at the end: what hangs ends

	mu        sync.Mutex
	passed    []passage
	faults    map[string]http.HandlerFunc // answer what a path ends with, in the gate's place
	noCookies bool                        // no cookie gets through in either direction
}

// passage is a request that came by, and its answer.
type passage struct {
	Method, Target, Referer string
	Code, Size              int
}

func newFront(t *testing.T, g *gate) *front {
	t.Helper()
	to, err := url.Parse(g.url)
	require.NoError(t, err)
	f := &front{free: make(chan struct{}), faults: map[string]http.HandlerFunc{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		fault, noCookies := f.faults[r.URL.Path[strings.LastIndex(r.URL.Path, "/"):]], f.noCookies
		f.mu.Unlock()
		if fault != nil {
			f.note(r, 0, 0)
			fault(w, r)
			return
		}
		if noCookies {
			r.Header.Del("Cookie")
		}
		proxy.ServeHTTP(&measured{ResponseWriter: w, front: f, request: r, noCookies: noCookies}, r)
	}))
	endWith(t, f.Server)
	t.Cleanup(func() { close(f.free) })
	return f
}

// note returns where in passed the passage is.
func (f *front) note(r *http.Request, code, size int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed = append(f.passed, passage{Method: r.Method, Target: r.RequestURI, Referer: r.Referer(), Code: code, Size: size})
	return len(f.passed) - 1
}

// grow notes more of the body of a passage.
func (f *front) grow(at, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed[at].Size += by
}

// passages returns what has passed so far of the targets that begin with path.
func (f *front) passages(path string) []passage {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []passage
	for _, p := range f.passed {
		if strings.HasPrefix(p.Target, path) {
			found = append(found, p)
		}
	}
	return found
}

// loads are the passages that load what is at a path.
func (f *front) loads(path string) []passage {
	return slices.DeleteFunc(f.passages(path), func(p passage) bool { return p.Method != http.MethodGet })
}

// fail makes every status call fail from now on; nil ends that.
func (f *front) fail(by http.HandlerFunc) { f.failAt("/status", by) }

// failAt does the same with everything whose path ends in that.
func (f *front) failAt(end string, by http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[end] = by
}

// dropCookies makes all browsers behave as if they kept no cookies.
func (f *front) dropCookies() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noCookies = true
}

// hang does not answer.
func (f *front) hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-f.free:
	}
}

// measured notes an answer before the browser can have seen any of it, so that
// what a page shows has always been noted. ReverseProxy calls WriteHeader once,
// informational answers aside.
type measured struct {
	http.ResponseWriter
	front     *front
	request   *http.Request
	at        int // in the front's passed
	noCookies bool
}

func (m *measured) WriteHeader(code int) {
	if m.noCookies {
		m.Header().Del("Set-Cookie")
	}
	if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
		m.at = m.front.note(m.request, code, 0)
	}
	m.ResponseWriter.WriteHeader(code)
}

func (m *measured) Write(p []byte) (int, error) {
	m.front.grow(m.at, len(p))
	return m.ResponseWriter.Write(p)
}

func (m *measured) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// serveShopPages is a shop of pages with a style, a script and a picture of their own.
func serveShopPages(w http.ResponseWriter, r *http.Request) {
	parts := map[string][2]string{
		"/shop.css": {"text/css", "h1 { color: green }"},
		"/shop.js":  {"text/javascript", "document.title += ' works'"},
		"/shop.svg": {"image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>`},
	}
	if part, ok := parts[r.URL.Path]; ok {
		w.Header().Set("Content-Type", part[0])
		_, _ = io.WriteString(w, part[1])
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!doctype html><title>The shop</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/shop.css">
<script src="/shop.js"></script><h1 id="shop">The shop</h1><img src="/shop.svg" alt="">
<a id="in" href="/checkout/item?id=7&amp;c=a%20b+c#seat">In</a>
<form method="post" action="/checkout/order"><input name="q" value="1"><button id="order">Order</button></form>`)
}

// scene is a gate with a full room, a shop of pages behind it and a front before it.
type scene struct {
	*fleet
	*front // its URL is the scene's
	gate   *gate
	holder *app // holds the only slot
}

// ample keeps everybody present, however slow the machine.
const ample = "total_active_users: 1, presence_window: 5m, claim_window: 5m"

func newScene(t *testing.T, rooms string) *scene {
	t.Helper()
	f := startFleet(t, plan{gates: 1, rooms: rooms, more: "log: {level: debug}"})
	f.shop.behave(serveShopPages)
	s := &scene{fleet: f, gate: f.gates[0], front: newFront(t, f.gates[0]), holder: newApp(t)}
	s.holder.enter(t, s.gate)
	return s
}

// release gives the slot back.
func (s *scene) release(t *testing.T) {
	t.Helper()
	_, err := s.holder.release(s.gate)
	require.NoError(t, err)
}

// awaitPolls waits until so many status calls have come by.
func (s *scene) awaitPolls(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d status calls", n), func() bool { return len(s.polls()) >= n })
}

func (s *scene) polls() []passage { return s.passages("/_queue/checkout/status") }
