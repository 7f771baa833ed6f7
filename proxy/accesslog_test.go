package proxy_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
)

// newLoudBench is a bench whose log has everything that can be logged.
func newLoudBench(t *testing.T, change ...func(*proxy.Options)) *bench {
	t.Helper()
	log := &safeBuffer{}
	b := newBench(t, append(change, func(o *proxy.Options) {
		o.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})...)
	b.log = log
	return b
}

// records are the access records so far, as level, decision and reason.
func (b *bench) records() []string {
	var list []string
	for line := range strings.Lines(b.log.String()) {
		var r struct{ Msg, Level, Decision, Reason string }
		require.NoError(b.t, json.Unmarshal([]byte(line), &r))
		if r.Msg == "request" {
			list = append(list, r.Level+" "+r.Decision+" "+r.Reason)
		}
	}
	return list
}

// A hundred thousand people who wait poll ten thousand times a second: what repeats by
// itself stays out of the log, what becomes of somebody is in it.
func TestPollsAreNotInTheLogUnlessAskedForAndTurnsAndRefusalsAre(t *testing.T) {
	b := newLoudBench(t)
	ask := func(want string, method, target string, lines ...string) reply {
		t.Helper()
		before := len(b.records())
		got := b.call(method, target, "", lines...)
		require.Equal(t, []string{want}, b.records()[before:], "%s %s", method, target)
		return got
	}
	b.fill()
	joined := ask("INFO answered join", "POST", "/_queue/sale/join")
	ticket := "X-Queue-Ticket: " + joined.doc(t)["ticket"].(string)
	ask("DEBUG answered join", "POST", "/_queue/sale/join", ticket)
	ask("DEBUG answered status", "GET", "/_queue/sale/status", ticket)
	ask("DEBUG queued waiting", "GET", "/order", ticket)
	ask("INFO queued newcomer", "GET", "/order")
	ask("INFO queued no_place", "HEAD", "/order")
	ask("INFO proxied unprotected", "GET", "/other")
	ask("INFO refused not_found", "GET", "/_queue/nosuch/status", ticket)
	b.line.change(func() { b.line.state = queue.RoomClosed })
	ask("INFO queued closed", "GET", "/order")
	b.line.change(func() { b.line.state = queue.Open })

	b.line.lose()
	ask("DEBUG answered degraded", "GET", "/_queue/sale/status", ticket)
	ask("DEBUG queued degraded", "GET", "/order", ticket)
	ask("INFO refused degraded", "GET", "/order")
	b.line.heal()

	b.line.setSlots(1)
	turn := ask("INFO answered status", "GET", "/_queue/sale/status", ticket)
	require.Equal(t, "ready", turn.doc(t)["status"])
	pass := "X-Entry-Token: " + turn.doc(t)["entry_token"].(string)
	ask("INFO proxied claimed", "GET", "/order", pass)
	ask("INFO answered release", "POST", "/_queue/sale/release", pass)
}

// The places where people and programs put what they were given, and where the log
// could show it.
func TestNoTicketOrPassIsInTheLogWhereverItWasPut(t *testing.T) {
	b := newLoudBench(t, func(o *proxy.Options) { o.Rooms[0].ForwardToken = true })
	pass := b.admit()
	b.fill()
	ticket := b.call("POST", "/_queue/sale/join", "").doc(t)["ticket"].(string)
	require.Greater(t, len(ticket), 64, "shorter words are shown")
	b.shop.does(func(_ shopRequest, c net.Conn) { // not an answer, and it ends up in an error
		_, _ = io.WriteString(c, "HTTP/1.1 2oo "+pass+ticket+"\r\n\r\n")
	})
	for name, secret := range map[string]string{"ticket": ticket, "pass": pass} {
		headers := []string{
			"X-Queue-Ticket: " + secret, "X-Entry-Token: " + secret, "Authorization: Bearer " + secret,
			"Cookie: queuegate_ticket_sale=" + secret, "Cookie: queuegate_entry_sale=" + secret, "Cookie: other=" + secret,
			"Referer: https://shop.example/?t=" + secret, "User-Agent: " + secret, "X-Forwarded-For: " + secret,
			"X-Forwarded-Host: " + secret, "Idempotency-Key: " + secret, "X-" + secret + ": 1", "Accept: " + secret,
			"Sec-Fetch-Dest: " + secret, "Upgrade: " + secret + "\r\nConnection: Upgrade", "Origin: https://" + secret,
		}
		targets := []string{
			"/order", "/other", "/order?t=" + secret, "/order/" + secret, "/order;t=" + secret, "/" + secret, "/order/%2e%2e/" + secret + "#" + secret,
			"/_queue/sale/status", "/_queue/sale/status?t=" + secret, "/_queue/sale/" + secret, "/_queue/" + secret + "/status", "/_queue/sale/join",
			"/_queue/sale?return=/" + secret, "/_queue/auth", "/_queue/sale/release", "/_queue/sale/ws", "http:" + secret, "//" + secret + "/x",
			"/order/" + strings.Repeat("x", 480) + "/" + secret,
		}
		for _, method := range []string{"GET", "POST", "DELETE", secret} {
			for i, target := range targets {
				_ = b.do(method, target, secret, headers[i%len(headers)])
			}
		}
		for i, header := range headers {
			_ = b.do("POST", targets[i%len(targets)], secret, header)
		}
		log := b.log.String()
		require.Contains(t, log, "characters]", "words are left out")
		require.Contains(t, log, "malformed HTTP")
		for _, part := range []string{secret, secret[:60], secret[len(secret)-60:]} {
			require.NotContains(t, log, part, name)
		}
	}
}

// faulty is a line with a fault that quotes what it got.
type faulty struct {
	proxy.Line
	says string
}

func (f faulty) Join(context.Context, queue.Arrival) (queue.Standing, error) { panic(f.says) }

// What a fault says may hold what the request brought.
func TestNoPassIsInTheLogOfAFault(t *testing.T) {
	secret := newBench(t).pass()
	b := newLoudBench(t, func(o *proxy.Options) {
		o.Rooms[0].Line = faulty{o.Rooms[0].Line, "cannot use " + secret + " \x1b[2J\u202e"}
		o.Upstream = proxy.Upstream{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic("nor can the shop use " + secret)
		})}
	})
	b.call("GET", "/order", "")
	b.call("GET", "/other", "")
	require.Eventually(t, func() bool { return strings.Contains(b.log.String(), "nor can the shop use [") }, soon, time.Millisecond)
	log := b.log.String()
	require.Contains(t, log, "fault while serving a request")
	require.Contains(t, log, "cannot use [")
	require.NotContains(t, log, secret)
	require.NotContains(t, log, "\u202e", "no text of a request turns a terminal's around")
}
