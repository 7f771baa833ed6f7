package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

const deskToken = "mQ7rT2xV9bN4kW8s"

// desk is an admin listener of one room and somebody who operates it.
type desk struct {
	t    *testing.T
	line *queue.Line
	p    process
	url  string
}

func newDesk(t *testing.T, token string) *desk {
	t.Helper()
	line, err := queue.New(queue.Options{
		Redis: queuetest.Embedded(t), Room: "checkout", Timeout: queuetest.Timeout, Limits: queue.Limits{Slots: 2, PerMinute: 600},
	})
	require.NoError(t, err)
	require.NoError(t, line.Configure(t.Context()))
	server := httptest.NewServer(admin.New(admin.Options{Token: token, Rooms: []admin.Room{
		{Name: "checkout", Method: "fifo", Line: line}, {Name: "off", Method: "fifo", Suspended: true},
		{Name: "tried", Method: "fifo", Line: line, Shadow: true},
	}}))
	t.Cleanup(server.Close)
	return &desk{t: t, line: line, url: server.URL, p: process{environ: []string{
		"QUEUEGATE_ADMIN_LISTEN=" + strings.TrimPrefix(server.URL, "http://"), "QUEUEGATE_ADMIN_TOKEN=" + token, "USER=ana",
	}}}
}

// run is one command line, split at blanks; its exit code and what it printed.
func (d *desk) run(line string, more ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	var out, errs bytes.Buffer
	d.p.stdout, d.p.stderr = &out, &errs
	code = run(context.Background(), append(append([]string{"rooms"}, strings.Fields(line)...), more...), d.p)
	require.NotContains(d.t, out.String()+errs.String(), deskToken)
	return code, out.String(), errs.String()
}

// ok is a command that succeeds.
func (d *desk) ok(line string, more ...string) string {
	d.t.Helper()
	code, out, errs := d.run(line, more...)
	require.Equal(d.t, exitOK, code, "rooms %s: %s", line, errs)
	return out
}

// words are a text with single blanks, as a person reads a table.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestOperatingARoomFromTheCommandLine(t *testing.T) {
	d := newDesk(t, deskToken)
	out := words(d.ok("list"))
	require.Contains(t, out, "ROOM STATE WAITING ACTIVE LIMIT PER MINUTE ADMITTED/MIN WAIT REDIS")
	require.Contains(t, out, "checkout open 0 0 2 600 - - up")
	require.Contains(t, out, "off suspended - - - - - - -")
	require.Contains(t, out, "tried open (shadow) 0 0 2 600 - - up")
	require.Contains(t, d.ok("show tried"), "In shadow: it decides and counts, and everybody passes.")
	require.NotContains(t, d.ok("show checkout"), "shadow")

	out = words(d.ok("pause checkout"))
	require.Contains(t, out, "checkout (fifo): paused")
	require.Contains(t, out, "state paused live open ana 2")
	require.Equal(t, queue.Paused, d.line.Settings().State)
	require.Contains(t, words(d.ok("list")), "checkout paused* 0 0")

	d.ok("set checkout new_users_per_minute=300 burst=7 remaining_stock=40 disable_session_renewal=true session_duration=90s --by ben", "message=Doors\nat ten")
	s := d.line.Settings()
	require.Equal(t, queue.Limits{Slots: 2, PerMinute: 300, Burst: 7}, s.Limits)
	require.True(t, s.DisableRenewal)
	out = words(d.ok("show checkout"))
	require.Contains(t, out, `message "Doors\nat ten" live - ben`, "one line, and nothing steers the terminal")
	require.Contains(t, out, "new_users_per_minute 300 live 600 ben")
	require.Contains(t, out, "ana state open paused")
	require.Contains(t, words(d.ok("set checkout --clear burst --clear remaining_stock")), "burst 5 derived 10")

	d.ok("set checkout new_users_per_minute=5") // as many in 12 s: a slow machine must not see one saved up since
	d.ok("resume checkout")
	require.Equal(t, queue.Open, d.line.Settings().State)
	require.NotContains(t, d.line.Controls().Live, queue.SettingState, "the file's counts again")

	joined, err := d.line.Join(t.Context(), queue.Arrival{Visitor: "one"})
	require.NoError(t, err)
	require.Equal(t, queue.Away, joined.State, "nothing was saved up")
	require.Contains(t, words(d.ok("visitor checkout one")), "status away")
	require.Contains(t, d.ok("admit checkout 5"), "Let in 0 of 5; now 1 waiting, 0 active.", "who has not shown up yet is not here")
	require.Contains(t, words(d.ok("release checkout one")), "status ended why released")
	require.Contains(t, d.ok("show checkout -o json"), `"queueing_method":"fifo"`)
	require.Contains(t, d.ok("list -o json"), `{"rooms":[{"room":"checkout"`)
	require.Contains(t, d.ok("show off"), "no line")
}

func TestAResetIsAskedForTwice(t *testing.T) {
	d := newDesk(t, deskToken)
	generation := func() int64 { room, _ := d.line.Room(); return room.Generation }
	code, _, errs := d.run("reset checkout")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "add --yes")
	d.p.terminal = true
	for _, typed := range []string{"", "y\n", "yes\n", "check\n"} {
		d.p.stdin = strings.NewReader(typed)
		code, _, errs = d.run("reset checkout")
		require.Equal(t, exitRuntime, code)
		require.Contains(t, errs, "Every place and every pass of checkout becomes void: 0 waiting, 0 active.")
		require.Contains(t, errs, "nothing was reset")
	}
	require.Zero(t, generation())
	d.p.stdin = strings.NewReader("checkout\n")
	d.ok("reset checkout")
	first := generation()
	require.NotZero(t, first)
	d.p.terminal = false
	require.Contains(t, words(d.ok("reset checkout --yes")), "ana reset")
	require.Greater(t, generation(), first)
}

func TestWhatTheOperatorIsToldWhenItDoesNotWork(t *testing.T) {
	d := newDesk(t, deskToken)
	tests := []struct {
		name, line string
		env        []string
		code       int
		want       string
	}{
		{"nobody there", "list --admin 127.0.0.1:1", nil, exitRuntime, "queuegate: nobody listens at http://127.0.0.1:1: is the gate running, and is this its admin.listen? Name another with --admin, -c or QUEUEGATE_ADMIN_LISTEN"},
		{"no token", "list", []string{"QUEUEGATE_ADMIN_LISTEN=" + strings.TrimPrefix(d.url, "http://")}, exitRuntime, "asks for the admin token: give it by QUEUEGATE_ADMIN_TOKEN"},
		{"a wrong token", "list", []string{"QUEUEGATE_ADMIN_LISTEN=" + strings.TrimPrefix(d.url, "http://"), "QUEUEGATE_ADMIN_TOKEN=wrong"}, exitRuntime, "does not take this admin token"},
		{"no file of the token", "list --token-file nosuch", nil, exitUsage, "the admin token: open nosuch"},
		{"no such room", "show nosuch", nil, exitRuntime, "There is no such room; GET /api/rooms lists them."},
		{"a room without a line", "pause off", nil, exitRuntime, "Everybody passes this room by its file"},
		{"no such key", "set checkout totl=5", nil, exitUsage, "queuegate rooms: totl: is no setting; there are state, total_active_users"},
		{"a wrong value", "set checkout total_active_users=many burst=0", nil, exitUsage, "total_active_users: must be a whole number from 0"},
		{"a wrong state", "set checkout state=ajar", nil, exitUsage, "queuegate rooms: state: must be one of [open queue_all paused closed sold_out] (got \"ajar\")"},
		{"no pair", "set checkout paused", nil, exitUsage, `"paused": want KEY=VALUE; keys are state, `},
		{"nothing", "set checkout", nil, exitUsage, "nothing to change"},
		{"set and cleared", "set checkout burst=5 --clear burst", nil, exitUsage, "burst is both set and cleared"},
		{"an older version", "set checkout burst=5 --if-version 99", nil, exitRuntime, "no longer those of If-Match"},
		{"no number", "admit checkout many", nil, exitUsage, `"many" is no whole number`},
		{"too many", "admit checkout 10001", nil, exitUsage, "count: must be from 1 to 10000 (got 10001)"},
		{"nobody by that id", "visitor checkout nobody", nil, exitRuntime, "Nobody by that id"},
		{"no room named", "show", nil, exitUsage, "accepts 1 arg(s), received 0 (see queuegate rooms show --help)"},
		{"an unknown command", "explode", nil, exitUsage, `unknown command "explode" for "queuegate rooms"`},
		{"an unknown flag", "list --nosuch", nil, exitUsage, "queuegate rooms list: unknown flag: --nosuch (queuegate rooms list --help)"},
		{"an unknown form", "list -o yaml", nil, exitUsage, "--output must be table or json"},
		{"an address that is none", "list --admin nonsense", nil, exitUsage, `admin address "nonsense": want host:port`},
		{"an address with a password", "list --admin http://a:b@c", nil, exitUsage, "URL without user and query"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := *d
			d.t = t
			if tt.env != nil {
				d.p.environ = tt.env
			}
			code, out, errs := d.run(tt.line)
			require.Equal(t, tt.code, code, errs)
			require.Contains(t, errs, tt.want)
			require.Empty(t, out)
		})
	}
	other := httptest.NewServer(nil)
	defer other.Close()
	code, _, errs := d.run("list --admin " + other.URL)
	require.Equal(t, exitRuntime, code)
	require.Contains(t, errs, "answers 404 Not Found, and not as a gate's admin listener does")
}

func TestTheTokenComesFromAFileToo(t *testing.T) {
	d := newDesk(t, deskToken)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(deskToken+"\n"), 0o600))
	address := strings.TrimPrefix(d.url, "http://")
	d.p.environ = nil
	d.ok("list --admin " + address + " --token-file " + file)
	d.p.environ = []string{"QUEUEGATE_ADMIN_TOKEN_FILE=" + file}
	d.ok("list --admin " + d.url)
	config := filepath.Join(t.TempDir(), "queuegate.yaml")
	require.NoError(t, os.WriteFile(config, []byte("admin: {listen: \""+address+"\", token: "+deskToken+"}\n"+
		"rooms: [{name: checkout, protect: [{paths: [/checkout]}], total_active_users: 1}]\n"), 0o600))
	d.p.environ = nil
	d.ok("list -c " + config)
	d.p.environ = []string{"USER=ana"}
	d.ok("pause checkout -c " + config)
	require.Equal(t, "ana", d.line.Controls().Live[queue.SettingState].By)
}
