package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/queuegate/queuegate/queue/queuetest"
	"github.com/queuegate/queuegate/token"
)

const (
	// patience is how long a test waits for what must come about: so long that no
	// slow machine decides a verdict.
	patience = 90 * time.Second
	// glance is how often it looks, lookIn how often a visitor asks who does not
	// wait as told: below the ten polls a second that are allowed.
	glance = 10 * time.Millisecond
	lookIn = 150 * time.Millisecond

	signingSecret = "q8Zr2LxT0vB7nYc4WmKd9HsJ6pGf3aEu"

	installation = "queuegate/qg" // of the defaults: issuer and key prefix
)

// Whatever a test starts has ended with it: no goroutine of a client, a shop, a relay or
// of the program's own outlives it.
func TestMain(m *testing.M) {
	if addr := os.Getenv(shopAddress); addr != "" {
		if err := keepShop(addr, os.Getenv(shopJournal)); err != nil {
			fmt.Fprintln(os.Stderr, "the shop:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(lingering{m}, goleak.Cleanup(func(code int) {
		if dir := built.Load(); dir != nil {
			_ = os.RemoveAll(*dir)
		}
		os.Exit(code)
	}))
}

// lingering waits for what is about to end after the last test: on a busy machine that
// takes longer than the moment for which it is looked for.
type lingering struct{ *testing.M }

func (m lingering) Run() int {
	code := m.M.Run()
	for end := time.Now().Add(patience); code == 0 && goleak.Find() != nil && time.Now().Before(end); {
	}
	return code
}

// built is the folder with the program, when it was built.
var built atomic.Pointer[string]

// binaryDir builds the program once and returns the folder it lies in. Under the
// race detector the program is built with it as well.
var binaryDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "queuegate-bin-")
	if err != nil {
		return "", err
	}
	built.Store(&dir)
	args := []string{"build", "-buildvcs=false", "-ldflags", "-X main.version=test", "-o", filepath.Join(dir, "queuegate")}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race")
			}
		}
	}
	cmd := exec.Command("go", append(args, ".")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return dir, nil
})

func binary(t testing.TB) string {
	t.Helper()
	dir, err := binaryDir()
	require.NoError(t, err)
	return filepath.Join(dir, "queuegate")
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	full bool // nothing is kept any more
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full {
		return len(p), nil
	}
	return o.text.Write(p)
}

// keepNoMore lets go what is written from now on.
func (o *output) keepNoMore() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.full = true
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// process is one run of the program.
type process struct {
	stdout, stderr *output
	cmd            *exec.Cmd
	ended          chan struct{} // closed when it has ended
}

// run starts the program with nothing of the environment but what env adds. It
// ends with the test.
func run(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	return runProgram(t, binary(t), env, args...)
}

// runProgram does the same with another build of the program.
func runProgram(t testing.TB, program string, env []string, args ...string) *process {
	t.Helper()
	p := &process{stdout: &output{}, stderr: &output{}, ended: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		log := p.stderr.String()
		require.NotContains(t, log, "DATA RACE")
		require.NotContains(t, log, "fault while serving a request")
		require.NotContains(t, log, signingSecret, "the log shows the secret")
		require.NotRegexp(t, signedToken, log, "the log shows a pass")
		if t.Failed() {
			t.Logf("the end of the log of queuegate %s:\n%s", strings.Join(args, " "), log[max(0, len(log)-4000):])
		}
	})
	return p
}

// signedToken is what a pass looks like.
var signedToken = regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]{8,}\.`)

// kill ends the process at once, as kill -9 does. Killing twice is harmless.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// exit waits until the process has ended and returns its exit code.
func (p *process) exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		require.FailNow(t, "the process did not end", p.stderr.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// gate is a running `queuegate serve`.
type gate struct {
	*process
	program    string // another build than usual, "" for the usual
	config     string
	env        []string
	url, admin string
}

// startGate starts a gate and returns when both its listeners are bound.
func startGate(t testing.TB, config string, env ...string) *gate {
	t.Helper()
	g := &gate{config: config, env: env}
	g.start(t)
	return g
}

// start starts the gate, or starts it again after kill. It listens elsewhere then.
func (g *gate) start(t testing.TB) {
	t.Helper()
	g.url = ""
	if g.program == "" {
		g.program = binary(t)
	}
	g.process = runProgram(t, g.program, g.env, "serve", "-c", g.config)
	eventually(t, "the gate listens", func() bool {
		for line := range strings.Lines(g.stderr.String()) {
			var record struct{ Msg, URL, Admin string }
			if json.Unmarshal([]byte(line), &record) == nil && record.Msg == "listening" {
				g.url, g.admin = record.URL, record.Admin
			}
		}
		select {
		case <-g.ended:
			return true
		default:
			return g.url != ""
		}
	})
	require.NotEmpty(t, g.url, "the gate ended: %s", g.stderr)
}

// plan says what a fleet is like.
type plan struct {
	gates    int
	program  string // the build of the gates, "" for the usual
	rooms    string // YAML list
	more     string // further keys of the file
	upstream string // further keys of upstream
	redis    string // keys of redis, instead of the url of a server of its own
	timeout  string // redis.timeout; long when empty, so that a busy machine is not an outage
}

// fleet is a shop, a Redis and gates between them.
type fleet struct {
	shop   *recordingShop
	redis  *queuetest.Server
	gates  []*gate
	config string
}

func startFleet(t testing.TB, p plan) *fleet {
	t.Helper()
	f := &fleet{shop: newRecordingShop(t)}
	url := ""
	if p.redis == "" {
		f.redis = queuetest.Start(t)
		url = f.redis.URL
	}
	f.config = writeConfig(t, p, f.shop.URL, url)
	for range p.gates {
		g := &gate{config: f.config, program: p.program}
		g.start(t)
		f.gates = append(f.gates, g)
	}
	// Newcomers to a room without limits wait for them, which is not what the
	// tests are about.
	for _, g := range f.gates {
		g.waitReady(t)
	}
	return f
}

func writeConfig(t testing.TB, p plan, shopURL, redisURL string) string {
	t.Helper()
	if p.timeout == "" {
		p.timeout = "5s"
	}
	if p.redis == "" {
		p.redis = fmt.Sprintf("url: %q", redisURL)
	}
	text := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {listen: \"localhost:0\"}\nupstream: {url: %q%s}\n"+
		"redis: {%s, timeout: %s}\ntoken: {secret: %s}\n%s\nrooms:\n%s",
		shopURL, p.upstream, p.redis, p.timeout, signingSecret, p.more, p.rooms)
	file := filepath.Join(t.TempDir(), "queuegate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// waitReady waits until Redis has answered the gate in every room.
func (g *gate) waitReady(t testing.TB) {
	t.Helper()
	client := newClient(t)
	eventually(t, "Redis answers the gate", func() bool {
		a, err := send(client, request{method: "GET", url: g.admin + "/readyz"})
		return err == nil && a.code == http.StatusOK && !bytes.Contains(a.body, []byte(`"up":false`))
	})
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, glance, what)
}

// soon receives what must come: nothing that fails to come about holds up more than
// its own test.
func soon[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	var v T
	select {
	case v = <-c:
	case <-time.After(2 * patience): // longer than a client waits, whose error says more
		require.FailNow(t, "it does not come about", what)
	}
	return v
}

// endWith ends a server with the test. A handler that does not return fails its own
// test, by the place where it hangs, and does not hold up the whole program.
func endWith(t testing.TB, s *httptest.Server) {
	t.Cleanup(func() {
		s.CloseClientConnections()
		closed := make(chan struct{})
		go func() {
			s.Close()
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(patience):
			t.Errorf("handlers of %s hang:\n%s", s.URL, strings.Join(handlers(), "\n\n"))
		}
	})
}

// handlers are the stacks of all that serves a request.
func handlers() []string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	return slices.DeleteFunc(strings.Split(all.String(), "\n\n"), func(stack string) bool {
		return !strings.Contains(stack, "ServeHTTP(")
	})
}

// recordingShop is the shop behind the gate: it notes what reaches it and
// answers as it is told.
type recordingShop struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []seen
	answer http.HandlerFunc // nil: takes every order
	free   chan struct{}    // closed at the end: what hangs ends
}

// seen is a request as the shop got it.
type seen struct {
	Method, Target, Host string
	Header               http.Header
}

func newRecordingShop(t testing.TB) *recordingShop {
	s := &recordingShop{free: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, seen{Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header.Clone()})
		answer := s.answer
		s.mu.Unlock()
		if answer == nil {
			answer = takeOrder
		}
		answer(w, r)
	}))
	endWith(t, s.Server)
	t.Cleanup(func() { close(s.free) })
	return s
}

// takeOrder is the shop on a good day.
func takeOrder(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusCreated)
	}
	_, _ = io.WriteString(w, "the shop's answer to "+r.Method+" "+r.RequestURI)
}

// behave makes the shop answer by h from now on; nil makes it well again.
func (s *recordingShop) behave(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = h
}

// hang does not answer before the request or the test ends.
func (s *recordingShop) hang(_ http.ResponseWriter, r *http.Request) { s.hold(r, nil) }

// hold holds an answer back until there is something in c, or until the request or the
// test ends.
func (s *recordingShop) hold(r *http.Request, c <-chan struct{}) {
	select {
	case <-c:
	case <-r.Context().Done():
	case <-s.free:
	}
}

// reset cuts the connection so that the other end sees it reset.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func refuseWith(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// got returns what the shop has seen so far of the targets that begin with path.
func (s *recordingShop) got(path string) []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []seen
	for _, r := range s.seen {
		if strings.HasPrefix(r.Target, path) {
			found = append(found, r)
		}
	}
	return found
}

// last is the newest of got.
func (s *recordingShop) last(t testing.TB, path string) seen {
	t.Helper()
	all := s.got(path)
	require.NotEmpty(t, all, "nothing of %s reached the shop", path)
	return all[len(all)-1]
}

// request is what a test sends. The target goes out as it is written.
type request struct {
	method, url string
	header      map[string]string
	body        string
}

// answer is an answer read to its end; doc is filled in when it is JSON.
type answer struct {
	code   int
	header http.Header
	body   []byte
	doc    document
}

// document are the fields of the gate's JSON that the tests look at.
type document struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Status      any    `json:"status"` // a number in a problem
	Room        string `json:"room"`
	RoomState   string `json:"room_state"`
	Position    *int64 `json:"position"`
	Ahead       *int64 `json:"ahead"`
	Behind      *int64 `json:"behind"`
	Waiting     *int64 `json:"waiting"`
	PollAfterMS *int64 `json:"poll_after_ms"`
	Stock       *int64 `json:"remaining_stock"`
	Ticket      string `json:"ticket"`
	EntryToken  string `json:"entry_token"`
	ReturnTo    string `json:"return_to"`
}

func newClient(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func send(client *http.Client, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, body)
	if err != nil {
		return answer{}, err
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{code: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return a, err // it broke off: its cookies are in the jar all the same
	}
	kind := resp.Header.Get("Content-Type")
	if len(a.body) > 0 && (kind == "application/json" || kind == "application/problem+json") {
		if err := json.Unmarshal(a.body, &a.doc); err != nil {
			return answer{}, fmt.Errorf("%s: %w", a.body, err)
		}
	}
	return a, nil
}

func mustSend(t testing.TB, client *http.Client, r request) answer {
	t.Helper()
	a, err := send(client, r)
	require.NoError(t, err, "%s %s", r.method, r.url)
	return a
}

// app is a visitor's program: it keeps ticket and token itself.
type app struct {
	client       *http.Client
	room, path   string // room and the route that it protects
	ticket, pass string
}

func newApp(t testing.TB) *app {
	return &app{client: newClient(t), room: "checkout", path: "/checkout"}
}

// send sends a request with what the app holds, and keeps what it is given.
func (a *app) send(r request) (answer, error) {
	header := map[string]string{"Accept": "application/json"}
	for name, value := range r.header {
		header[name] = value
	}
	if a.ticket != "" {
		header["X-Queue-Ticket"] = a.ticket
	}
	if a.pass != "" {
		header["X-Entry-Token"] = a.pass
	}
	r.header = header
	got, err := send(a.client, r)
	if err != nil {
		return got, err
	}
	for _, ticket := range []string{got.header.Get("X-Queue-Ticket"), got.doc.Ticket} {
		if ticket != "" {
			a.ticket = ticket
		}
	}
	for _, pass := range []string{got.header.Get("X-Entry-Token"), got.doc.EntryToken} {
		if pass != "" {
			a.pass = pass
		}
	}
	return got, nil
}

func (a *app) join(g *gate, header map[string]string) (answer, error) {
	return a.send(request{method: "POST", url: g.url + "/_queue/" + a.room + "/join", header: header})
}

func (a *app) poll(g *gate) (answer, error) {
	return a.send(request{method: "GET", url: g.url + "/_queue/" + a.room + "/status"})
}

func (a *app) release(g *gate) (answer, error) {
	return a.send(request{method: "POST", url: g.url + "/_queue/" + a.room + "/release"})
}

func (a *app) open(g *gate) (answer, error) {
	return a.send(request{method: "GET", url: g.url + a.path})
}

func (a *app) order(g *gate) (answer, error) {
	return a.send(request{method: "POST", url: g.url + a.path + "/order", body: `{"quantity":1}`})
}

// enter goes in where nobody waits: joins, takes the pass up and is in the shop.
func (a *app) enter(t testing.TB, g *gate) {
	t.Helper()
	got, err := a.join(g, nil)
	require.NoError(t, err)
	if got.doc.Status != "ready" { // the room's limits were still being written
		a.await(t, g)
	}
	got, err = a.open(g)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.code, "%s", got.body)
}

// await polls until it is this visitor's turn.
func (a *app) await(t testing.TB, g *gate) {
	t.Helper()
	var last answer
	require.Eventually(t, func() bool {
		got, err := a.poll(g)
		last = got
		return err == nil && (got.doc.Status == "ready" || got.doc.Status == "active")
	}, patience, lookIn, "it is never this visitor's turn")
	require.NotEmpty(t, a.pass, "%s", last.body)
}

// waits asserts that the visitor is in line and returns the answer.
func (a *app) waits(t testing.TB, g *gate) answer {
	t.Helper()
	got, err := a.poll(g)
	require.NoError(t, err)
	require.Equal(t, "waiting", got.doc.Status, "%s", got.body)
	require.NotNil(t, got.doc.Position)
	return got
}

// newBrowser is a client that keeps cookies. Ports do not part them, so it can
// move from gate to gate as behind a balancer.
func newBrowser(t testing.TB) *http.Client {
	client := newClient(t)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client.Jar = jar
	return client
}

// browse are the headers of somebody who opens a page.
func browse() map[string]string {
	return map[string]string{
		"Accept":         "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "User-Agent": "Mozilla/5.0",
	}
}

// keys are the tests' copies of what the gates sign with.
func keys(t testing.TB) (*token.Authority, *token.Tickets) {
	t.Helper()
	passes, err := token.New(token.Options{Issuer: "queuegate", Installation: installation, Secret: []byte(signingSecret)})
	require.NoError(t, err)
	tickets, err := token.NewTickets([]byte(signingSecret), installation)
	require.NoError(t, err)
	return passes, tickets
}

// ticketOf opens a ticket of the room checkout.
func ticketOf(t testing.TB, raw string) token.Ticket {
	t.Helper()
	_, tickets := keys(t)
	opened, err := tickets.Open("checkout", raw)
	require.NoError(t, err)
	return opened
}

// passOf opens a pass of the room checkout.
func passOf(t testing.TB, raw string) token.Pass {
	t.Helper()
	passes, _ := keys(t)
	p, err := passes.Verify(raw, "checkout")
	require.NoError(t, err)
	return p
}

// all runs f for 0 to n-1 at once and joins the errors.
func all(n int, f func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}
