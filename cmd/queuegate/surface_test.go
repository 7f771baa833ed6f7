package main_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestPublicSurface pins what operators, shops, pages and apps rely on: commands
// and flags, exit codes, paths, cookies, headers and the keys of every answer.
// After a change that is meant: go test ./cmd/queuegate -run TestPublicSurface
// -update, and a word about it to whoever relies on the old.
func TestPublicSurface(t *testing.T) {
	t.Parallel()
	s := &surface{t: t}
	s.commands()
	s.exitCodes()
	f := startFleet(t, plan{
		gates: 1, more: "trusted_proxies: [127.0.0.0/8]",
		rooms: "  - {name: checkout, protect: [{paths: [/checkout]}], total_active_users: 1, new_users_per_minute: 600, forward_token: true}\n" +
			"  - {name: small, protect: [{paths: [/small]}], total_active_users: 1, max_waiting: 1, presence_window: 5m}\n" +
			"  - {name: off, protect: [{paths: [/off]}], total_active_users: 1, suspended: true}\n",
	})
	s.paths(f.gates[0])
	s.answers(f)
	s.outage(f)

	const golden = "testdata/surface.golden"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(s.text.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	sameLines(t, string(want), s.text.String(), "the public surface has changed; when it was meant to, run this test with -update")
}

// sameLines fails with the lines around the first difference: the whole of two
// long texts hides it.
func sameLines(t *testing.T, want, got, otherwise string) {
	t.Helper()
	if want == got {
		return
	}
	expected, actual := strings.Split(want, "\n"), strings.Split(got, "\n")
	at := 0
	for at < min(len(expected), len(actual)) && expected[at] == actual[at] {
		at++
	}
	around := func(lines []string) string {
		return strings.Join(lines[max(at-30, 0):min(at+10, len(lines))], "\n")
	}
	require.Equal(t, around(expected), around(actual), "from line %d: %s", at+1, otherwise)
}

// surface collects the golden text.
type surface struct {
	t    *testing.T
	text strings.Builder
}

func (s *surface) printf(format string, args ...any) { fmt.Fprintf(&s.text, format, args...) }

// commands writes the help of the program and of each command.
func (s *surface) commands() {
	help := func(args ...string) string {
		out, err := exec.Command(binary(s.t), append(args, "--help")...).Output()
		require.NoError(s.t, err)
		s.printf("# queuegate %s\n\n%s\n", strings.Join(append(args, "--help"), " "), out)
		return string(out)
	}
	var all func(above []string, text string)
	all = func(above []string, text string) {
		_, list, _ := strings.Cut(text, "Available Commands:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		for line := range strings.Lines(list) {
			if name := strings.Fields(line)[0]; name != "help" && name != "completion" { // cobra's own
				below := append(slices.Clone(above), name)
				all(below, help(below...))
			}
		}
	}
	all(nil, help())
}

// exitCodes writes how runs end.
func (s *surface) exitCodes() {
	s.printf("# exit codes\n\n")
	dir := s.t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	require.NoError(s.t, os.WriteFile(good, []byte("rooms:\n"+room("total_active_users: 1")), 0o600))
	require.NoError(s.t, os.WriteFile(bad, []byte("rooms: []\n"), 0o600))
	for _, line := range []string{
		"", "help", "version", "keygen", "check -c GOOD", "config -c GOOD", "config --defaults", "config --env",
		"healthcheck --admin 127.0.0.1:1", "check -c BAD", "config -c BAD", "serve -c BAD", "serve -c nosuch.yaml",
		"demo --crowd -1", "nosuch", "check --nosuch", "version extra",
		"rooms", "rooms list --admin 127.0.0.1:1", "rooms nosuch", "rooms show", "rooms set checkout", "rooms set checkout paused",
		"rooms list -o yaml", "rooms list --admin nonsense", "rooms admit checkout many", "rooms reset checkout", "rooms list -c BAD",
		"load", "load http://127.0.0.1:1", "load http://192.0.2.1", "load http://127.0.0.1:1 --visitors 0", "load http://127.0.0.1:1 --people cat=1",
	} {
		args := strings.Fields(strings.NewReplacer("GOOD", good, "BAD", bad).Replace(line))
		cmd := exec.Command(binary(s.t), args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		_ = cmd.Run()
		s.printf("%d  %s\n", cmd.ProcessState.ExitCode(), strings.TrimSpace("queuegate "+line))
	}
	s.printf("\n")
}

// paths writes what answers under the reserved path and on the admin listener.
func (s *surface) paths(g *gate) {
	client := newClient(s.t)
	s.printf("# paths: status by method\n\n")
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	table := func(base, label string, paths ...string) {
		for _, path := range paths {
			s.printf("%s%s\n ", label, path)
			for _, method := range methods {
				// The suspended room gives no place away, so the order does not matter.
				s.printf(" %s %d", method, mustSend(s.t, client, request{method: method, url: base + path}).code)
			}
			s.printf("\n")
		}
	}
	table(g.url, "", "/_queue", "/_queue/off", "/_queue/off/join", "/_queue/off/status", "/_queue/off/release",
		"/_queue/off/events", "/_queue/off/ws", "/_queue/auth", "/_queue/jwks.json", "/_queue/openapi.yaml", "/_queue/queue.js", "/_queue/nosuch/status")
	table(g.admin, "admin ", "/", "/healthz", "/readyz", "/metrics", "/api/rooms", "/api/rooms/off", "/api/rooms/checkout",
		"/api/rooms/checkout/admit", "/api/rooms/checkout/release", "/api/rooms/checkout/reset", "/api/rooms/checkout/visitors/nobody",
		"/api/rooms/checkout/history", "/api/rooms/checkout/preview", "/api/gates",
		"/api/openapi.yaml", "/debug/pprof/")
	s.printf("\n")
}

// answers writes every answer that a visitor can get while all is well, and what
// the shop is told.
func (s *surface) answers(f *fleet) {
	g := f.gates[0]
	ask := func(a *app, method, path string, header ...string) answer {
		s.t.Helper()
		r := request{method: method, url: g.url + path, header: map[string]string{}}
		for i := 0; i < len(header); i += 2 {
			r.header[header[i]] = header[i+1]
		}
		got, err := a.send(r)
		require.NoError(s.t, err)
		return got
	}
	const own = "/_queue/checkout"
	holder, next, other := newApp(s.t), newApp(s.t), newApp(s.t)
	s.answer("join, admitted at once", ask(holder, "POST", own+"/join"))
	s.answer("status, ready", ask(holder, "GET", own+"/status"))
	s.answer("the shop's answer, pass taken up", ask(holder, "GET", "/checkout", "Cookie", "session=1"))
	s.shop("a request with a pass, forward_token on", f.shop.last(s.t, "/checkout"))
	s.answer("status, active", ask(holder, "GET", own+"/status"))
	s.answer("the shop's answer, unprotected", ask(holder, "GET", "/about"))
	s.shop("an unprotected request", f.shop.last(s.t, "/about"))

	s.answer("join, waiting", ask(next, "POST", own+"/join"))
	s.answer("status, waiting", ask(next, "GET", own+"/status"))
	s.answer("refusal of a call", ask(newApp(s.t), "POST", "/checkout"))
	s.answer("refusal of a navigation, the page", ask(newApp(s.t), "GET", "/checkout", "Accept", "text/html"))
	s.answer("refusal of a navigation over https", ask(newApp(s.t), "GET", "/checkout", "Accept", "text/html", "X-Forwarded-Proto", "https"))
	s.answer("refusal of a form", ask(newApp(s.t), "POST", "/checkout", "Accept", "text/html"))
	s.answer("refusal of a prefetch", ask(newApp(s.t), "GET", "/checkout", "Sec-Purpose", "prefetch"))
	s.answer("refusal of a HEAD", ask(newApp(s.t), "HEAD", "/checkout", "Accept", "text/html"))
	s.answer("refusal of a WebSocket handshake", ask(newApp(s.t), "GET", "/checkout", "Connection", "Upgrade", "Upgrade", "websocket"))
	s.answer("the page itself", ask(newApp(s.t), "GET", own+"?return=/checkout", "Accept", "text/html"))
	s.answer("the page, asked for by a program", ask(newApp(s.t), "GET", own+"?return=/checkout"))
	asks := []string{"X-Original-URI", "/checkout", "X-Original-Method", "GET"}
	s.answer("forward auth, no pass", ask(newApp(s.t), "GET", "/_queue/auth", asks...))
	s.answer("forward auth, with a pass", ask(holder, "GET", "/_queue/auth", asks...))
	s.answer("forward auth, told in headers of Traefik and Caddy, no pass", ask(newApp(s.t), "GET", "/_queue/auth",
		"X-Forwarded-Uri", "/checkout", "X-Forwarded-Method", "GET", "X-Forwarded-Host", "shop.example"))
	s.answer("forward auth, nothing told", ask(newApp(s.t), "GET", "/_queue/auth"))
	s.answer("status, not entered", ask(newApp(s.t), "GET", own+"/status"))

	s.answer("not found", ask(other, "GET", "/_queue/nosuch/status"))
	s.answer("wrong method", ask(other, "GET", own+"/join"))
	s.answer("a change asked for by another site", ask(other, "POST", own+"/join", "Sec-Fetch-Site", "cross-site"))
	s.answer("a bad idempotency key", ask(other, "POST", own+"/join", "Idempotency-Key", "short"))
	s.answer("a method that is not passed on", ask(other, "TRACE", "/checkout"))

	small := newApp(s.t)
	small.room, small.path = "small", "/small"
	small.enter(s.t, g)
	ask(newApp(s.t), "POST", "/_queue/small/join")
	s.answer("join, the line is full", ask(newApp(s.t), "POST", "/_queue/small/join"))
	s.answer("status, the room is suspended", ask(newApp(s.t), "GET", "/_queue/off/status"))

	s.answer("leave", ask(next, "DELETE", own))
	s.answer("status, left", ask(next, "GET", own+"/status"))
	f.shop.behave(reset)
	s.answer("the shop is down, with a pass", ask(holder, "POST", "/checkout"))
	s.answer("the shop is down, unprotected", ask(newApp(s.t), "POST", "/about"))
	f.shop.behave(nil)
	s.answer("release", ask(holder, "POST", own+"/release", "Cookie", "queuegate_entry_checkout="+holder.pass))
	s.answer("status, released", ask(holder, "GET", own+"/status"))
	s.answer("ready", mustSend(s.t, newClient(s.t), request{method: "GET", url: g.admin + "/readyz"}))
	s.answer("alive", mustSend(s.t, newClient(s.t), request{method: "GET", url: g.admin + "/healthz"}))
}

// outage writes what visitors get while Redis is away.
func (s *surface) outage(f *fleet) {
	g := f.gates[0]
	waiting := newApp(s.t)
	holder := newApp(s.t)
	holder.enter(s.t, g)
	_, err := waiting.join(g, nil)
	require.NoError(s.t, err)
	waiting.waits(s.t, g)
	f.redis.Kill()
	eventually(s.t, "the gate notices", func() bool {
		a, err := send(waiting.client, request{method: "GET", url: g.admin + "/readyz"})
		return err == nil && strings.Contains(string(a.body), `"name":"checkout","redis":{"up":false`)
	})
	got, err := newApp(s.t).open(g)
	require.NoError(s.t, err)
	s.answer("Redis away, a newcomer", got)
	got, err = waiting.poll(g)
	require.NoError(s.t, err)
	s.answer("Redis away, status of somebody who waits", got)
	s.answer("Redis away, ready", mustSend(s.t, waiting.client, request{method: "GET", url: g.admin + "/readyz"}))
}

// answer writes an answer without what differs from run to run.
func (s *surface) answer(name string, a answer) {
	s.printf("# answer: %s\n\n%d %s\n", name, a.code, a.header.Get("Content-Type"))
	names := slices.Sorted(maps.Keys(a.header))
	s.printf("headers: %s\n", strings.Join(slices.DeleteFunc(names, func(n string) bool { return n == "Date" || n == "Content-Type" }), ", "))
	for _, name := range []string{"Cache-Control", "Vary", "Allow", "Location"} {
		if value := a.header.Get(name); value != "" {
			s.printf("%s: %s\n", name, value)
		}
	}
	cookies := (&http.Response{Header: a.header}).Cookies()
	slices.SortFunc(cookies, func(a, b *http.Cookie) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range cookies {
		if c.Value != "" {
			c.Value = "..."
		}
		line := c.String()
		if c.MaxAge > 0 {
			line = strings.Replace(line, fmt.Sprintf("Max-Age=%d;", c.MaxAge), "Max-Age=...;", 1)
		}
		s.printf("cookie: %s\n", line)
	}
	var document map[string]any
	if strings.Contains(a.header.Get("Content-Type"), "json") && len(a.body) > 0 {
		require.NoError(s.t, json.Unmarshal(a.body, &document))
		s.keys("", document)
	}
	s.printf("\n")
}

// keys writes the keys of an object with the types of their values, and the
// values that programs compare.
func (s *surface) keys(indent string, object map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if key == "estimated_wait_seconds" { // null until the flow has been watched, which is a matter of time
			s.printf("%s  %s: number or null\n", indent, key)
			continue
		}
		switch value := object[key].(type) {
		case string:
			if slices.Contains([]string{"type", "status", "reason"}, key) {
				s.printf("%s  %s: %q\n", indent, key, value)
			} else {
				s.printf("%s  %s: text\n", indent, key)
			}
		case float64:
			s.printf("%s  %s: number\n", indent, key)
		case bool:
			s.printf("%s  %s: %v\n", indent, key, value)
		case nil:
			s.printf("%s  %s: null\n", indent, key)
		case map[string]any:
			s.printf("%s  %s:\n", indent, key)
			s.keys(indent+"  ", value)
		case []any:
			s.printf("%s  %s: list\n", indent, key)
			if len(value) > 0 {
				if first, ok := value[0].(map[string]any); ok {
					s.keys(indent+"  ", first)
				}
			}
		}
	}
}

// shop writes the headers by which the shop is told of a visitor.
func (s *surface) shop(name string, r seen) {
	names := slices.Sorted(maps.Keys(r.Header))
	names = slices.DeleteFunc(names, func(n string) bool {
		return !strings.HasPrefix(n, "X-") && n != "Cookie" && n != "Forwarded"
	})
	s.printf("# the shop gets: %s\n\n%s\n\n", name, strings.Join(names, ", "))
}
