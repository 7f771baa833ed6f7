// Package recipes_test runs every row of the tables in README.md.
package recipes_test

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
	"github.com/queuegate/queuegate/token"
)

const (
	join, status = "/_queue/sale/join", "/_queue/sale/status"
	adminKey     = "the key of the operators"
	patience     = 30 * time.Second // for a slow machine; nothing is judged by it
)

// gate is a room with one slot, its admin listener and a shop that does as its
// caller asks.
type gate struct {
	t           *testing.T
	redis       *queuetest.Server
	url, admin  string
	orders      chan *http.Request
	line, other *queue.Line
}

func newGate(t *testing.T, change ...func(*queue.Options)) *gate {
	g := &gate{t: t, redis: queuetest.Start(t), orders: make(chan *http.Request, 100)}
	secret := []byte("thirty-two bytes, one more and a few")
	passes, err := token.New(token.Options{Issuer: "shop", Secret: secret})
	require.NoError(t, err)
	tickets, err := token.NewTickets(secret, "shop")
	require.NoError(t, err)
	client := g.redis.Client(t)
	newLine := func(room string) *queue.Line {
		o := queue.Options{
			Redis: client, Hints: client, Room: room, Limits: queue.Limits{Slots: 1}, Timeout: queuetest.Timeout,
			ClaimWindow: 90 * time.Second, Session: 5 * time.Minute,
		}
		for _, f := range change {
			f(&o)
		}
		line, err := queue.New(o)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = line.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-ended })
		require.Eventually(t, func() bool { _, known := line.Room(); return known }, patience, time.Millisecond)
		return line
	}
	g.line, g.other = newLine("sale"), newLine("other")
	paths := func(path string) []route.Rule { return []route.Rule{{Paths: []string{path}}} }
	handler, err := proxy.New(proxy.Options{
		Upstream: proxy.Upstream{Handler: http.HandlerFunc(g.shop)}, Passes: passes, Tickets: tickets, IdentitySecret: secret,
		RedisTimeout: queuetest.Timeout, AllowOrigins: []string{"https://www.shop.example"},
		Rooms: []proxy.Room{
			{
				Name: "sale", Line: g.line, Protect: paths("/orders"), Consume: proxy.Consume{Routes: paths("/orders/buy")},
				Exempt: []route.Rule{{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
			},
			{Name: "other", Line: g.other, Protect: paths("/other")},
		},
	})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	operators := httptest.NewServer(admin.New(admin.Options{Token: adminKey, Rooms: []admin.Room{{Name: "sale", Method: "fifo", Line: g.line}}}))
	t.Cleanup(operators.Close)
	g.url, g.admin = server.URL, operators.URL
	return g
}

// shop answers with the status and the words to the gate that the query asks for.
func (g *gate) shop(w http.ResponseWriter, r *http.Request) {
	for name, values := range r.URL.Query() {
		if strings.HasPrefix(name, "X-") {
			w.Header().Set(name, values[0])
		}
	}
	if r.URL.Query().Has("fail") {
		w.WriteHeader(http.StatusConflict)
	}
	select {
	case g.orders <- r:
	case <-r.Context().Done():
	}
}

// answer is what the gate said.
type answer struct {
	code   int
	header http.Header
	doc    map[string]any // of JSON
}

// call asks the gate, or the admin listener when the path says so, for JSON.
func (g *gate) call(method, path, body string, headers ...string) answer {
	g.t.Helper()
	base := g.url
	if strings.HasPrefix(path, "/api/") {
		base = g.admin
	}
	r, err := http.NewRequestWithContext(g.t.Context(), method, base+path, strings.NewReader(body))
	require.NoError(g.t, err)
	r.Header.Set("Accept", "application/json")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	got, err := (&http.Client{Timeout: 2 * patience}).Do(r)
	require.NoError(g.t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(g.t, err)
	a := answer{code: got.StatusCode, header: got.Header}
	_ = json.Unmarshal(text, &a.doc)
	return a
}

// operate is a call of an operator that succeeds.
func (g *gate) operate(method, path, body string) map[string]any {
	g.t.Helper()
	got := g.call(method, "/api/rooms/sale"+path, body, "Authorization: Bearer "+adminKey)
	require.Equal(g.t, http.StatusOK, got.code, got.doc)
	return got.doc
}

// person is a client that keeps ticket and pass and brings both.
type person struct {
	g            *gate
	ticket, pass string
}

func (g *gate) person() *person { return &person{g: g} }

func (p *person) call(method, path, body string, headers ...string) answer {
	p.g.t.Helper()
	if p.ticket != "" {
		headers = append(headers, "X-Queue-Ticket: "+p.ticket)
	}
	if p.pass != "" {
		headers = append(headers, "X-Entry-Token: "+p.pass)
	}
	got := p.g.call(method, path, body, headers...)
	if text, ok := got.doc["ticket"].(string); ok {
		p.ticket = text
	}
	if text := got.header.Get("X-Entry-Token"); text != "" {
		p.pass = text
	}
	if text, ok := got.doc["entry_token"].(string); ok {
		p.pass = text
	}
	return got
}

// joins takes a place and shows that somebody is here.
func (p *person) joins() map[string]any {
	p.g.t.Helper()
	require.Equal(p.g.t, http.StatusOK, p.call("POST", join, "").code)
	return p.polls()
}

func (p *person) polls() map[string]any {
	p.g.t.Helper()
	got := p.call("GET", status, "")
	require.Equal(p.g.t, http.StatusOK, got.code, got.doc)
	return got.doc
}

// becomes polls until status is as said.
func (p *person) becomes(want string) map[string]any {
	p.g.t.Helper()
	var doc map[string]any
	require.Eventually(p.g.t, func() bool {
		doc = p.call("GET", status, "").doc
		return doc["status"] == want
	}, patience, 150*time.Millisecond, "never %s", want)
	return doc
}

// inside is somebody who has the one slot and uses it.
func (g *gate) inside() *person {
	g.t.Helper()
	p := g.person()
	require.Equal(g.t, "ready", p.call("POST", join, "").doc["status"])
	require.Equal(g.t, http.StatusOK, p.call("GET", "/orders", "").code)
	g.order()
	return p
}

// order waits until the shop was asked.
func (g *gate) order() {
	g.t.Helper()
	select {
	case <-g.orders:
	case <-time.After(2 * patience):
		require.FailNow(g.t, "the shop was not asked")
	}
}

func (g *gate) noOrder() {
	g.t.Helper()
	require.Empty(g.t, g.orders, "the shop was asked")
}

// rows are the rows of the tables by name.
var rows = map[string]func(t *testing.T, g *gate){
	"E1": func(t *testing.T, g *gate) {
		require.Equal(t, "ready", g.person().call("POST", join, "").doc["status"])
		require.Equal(t, "waiting", g.person().call("POST", join, "").doc["status"])
	},
	"E2": func(t *testing.T, g *gate) {
		g.inside()
		p := g.person()
		require.EqualValues(t, 1, p.joins()["position"])
		require.EqualValues(t, 1, p.call("POST", join, "").doc["position"])
		key := "Idempotency-Key: 0123456789abcdef0123"
		first, again := g.call("POST", join, "", key), g.call("POST", join, "", key)
		require.EqualValues(t, 2, first.doc["position"])
		require.EqualValues(t, 2, again.doc["position"], "the answer that was lost")
	},
	"E3": waits, "E4": waits, "E5": waits, "E6": waits,
	"E7": func(t *testing.T, g *gate) {
		g.operate("PATCH", "", `{"state": "paused"}`)
		p := g.person()
		require.Contains(t, p.joins(), "estimated_wait_seconds")
		require.Eventually(t, func() bool { return p.polls()["room_state"] == "paused" }, patience, 150*time.Millisecond)
		require.Nil(t, p.polls()["estimated_wait_seconds"])
	},
	"E8": func(t *testing.T, g *gate) {
		holder, p := g.inside(), g.person()
		p.joins()
		holder.call("POST", "/_queue/sale/release", "")
		require.NotEmpty(t, p.becomes("ready")["entry_token"])
	},
	"E9": func(t *testing.T, g *gate) {
		require.Equal(t, "not_entered", g.person().polls()["status"])
		require.Equal(t, http.StatusNotFound, g.call("GET", "/_queue/nowhere/status", "").code)
	},
	"E10": func(t *testing.T, g *gate) {
		g.inside()
		p := g.person()
		p.joins()
		require.Equal(t, "left", p.call("DELETE", "/_queue/sale", "").doc["status"])
		require.Equal(t, "left", p.polls()["status"])
	},
	"E11": func(t *testing.T, g *gate) {
		g.inside()
		got := g.person().call("POST", "/orders", "{}")
		require.Equal(t, http.StatusTooManyRequests, got.code)
		require.NotEmpty(t, got.header.Get("Retry-After"))
		require.EqualValues(t, 1, got.doc["position"])
		g.noOrder()
	},
	"E12": func(t *testing.T, _ *gate) {
		g := newGate(t, func(o *queue.Options) { o.Limits = queue.Limits{PerMinute: 60 * 2 / 2, Burst: 1} }) // 2 people every 2 seconds
		require.Equal(t, "ready", g.person().call("POST", join, "").doc["status"])
		p := g.person()
		require.Equal(t, "waiting", p.joins()["status"])
		p.becomes("ready")
	},
	"E13": func(t *testing.T, g *gate) {
		g.inside()
		require.Equal(t, "waiting", g.person().joins()["status"])
		require.EqualValues(t, 1, g.operate("GET", "", "")["settings"].(map[string]any)["total_active_users"].(map[string]any)["value"])
	},
	"E14": func(t *testing.T, g *gate) {
		p := g.person()
		left := func(doc map[string]any) time.Duration {
			at, err := time.Parse(time.RFC3339, doc["entry_expires_at"].(string))
			require.NoError(t, err)
			return time.Until(at)
		}
		require.InDelta(t, 90*time.Second, left(p.call("POST", join, "").doc), float64(patience), "claim_window")
		p.call("GET", "/orders", "")
		require.InDelta(t, 5*time.Minute, left(p.becomes("active")), float64(2*patience), "session_duration")
	},
	"E15": func(t *testing.T, _ *gate) { theShopHas(t, "fcfs-orders") },

	"T1": func(t *testing.T, g *gate) {
		p := g.person()
		p.call("POST", join, "")
		got := g.call("GET", "/orders", "", "X-Entry-Token: "+p.pass)
		require.Equal(t, http.StatusOK, got.code)
		require.NotEmpty(t, got.header.Get("X-Entry-Token"), "the pass in use, to bring from now on")
		require.Contains(t, strings.Join(got.header["Set-Cookie"], " "), "queuegate_entry_sale=")
	},
	"T2": func(t *testing.T, g *gate) {
		g.inside()
		require.Greater(t, g.person().joins()["poll_after_ms"], float64(500))
		require.NotEmpty(t, g.call("GET", "/orders", "").header.Get("Retry-After"))
	},
	"T3": func(t *testing.T, g *gate) {
		g.inside()
		p := g.person()
		p.joins()
		var got answer
		require.Eventually(t, func() bool {
			got = p.call("GET", status, "")
			return got.code == http.StatusTooManyRequests
		}, patience, time.Nanosecond)
		require.Equal(t, "waiting", got.doc["status"])
		require.EqualValues(t, 1, got.doc["position"])
	},
	"T4": func(t *testing.T, g *gate) {
		p := g.person()
		require.Equal(t, "ready", p.call("POST", join, "").doc["status"])
		p.call("GET", "/orders", "")
		require.Equal(t, "active", p.becomes("active")["status"])
		require.Equal(t, http.StatusOK, p.call("POST", "/orders/buy", "").code)
		require.Equal(t, "released", endOf(p))
	},
	"T5": func(t *testing.T, g *gate) {
		p := g.inside()
		require.Equal(t, http.StatusConflict, p.call("POST", "/orders/buy?fail", "").code)
		require.Equal(t, http.StatusOK, p.call("POST", "/orders/buy", "").code)
	},
	"T6": func(t *testing.T, g *gate) {
		p := g.inside()
		require.Equal(t, http.StatusOK, p.call("POST", "/orders/buy", "").code)
		g.order()
		g.inside() // somebody else has the slot now
		got := g.call("POST", "/orders/buy", "", "X-Entry-Token: "+p.pass)
		require.Equal(t, http.StatusConflict, got.code)
		require.Equal(t, "urn:queuegate:problem:already-used", got.doc["type"])
		require.Equal(t, http.StatusTooManyRequests, g.call("GET", "/orders", "", "X-Entry-Token: "+p.pass).code)
		g.noOrder()
	},
	"T7": func(t *testing.T, g *gate) {
		p := g.inside()
		require.Equal(t, "ready", g.person().call("POST", "/_queue/other/join", "").doc["status"])
		require.Equal(t, http.StatusTooManyRequests, g.call("GET", "/other", "", "X-Entry-Token: "+p.pass).code)
		g.noOrder()
	},
	"T8": outage, "T9": outage,

	"W1": func(t *testing.T, g *gate) {
		g.inside()
		p := g.person()
		p.joins()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c, _, err := websocket.Dial(ctx, g.url+"/_queue/sale/ws", &websocket.DialOptions{HTTPHeader: http.Header{"X-Queue-Ticket": {p.ticket}}})
		require.NoError(t, err)
		defer c.CloseNow()
		_, text, err := c.Read(ctx)
		require.NoError(t, err)
		var doc map[string]any
		require.NoError(t, json.Unmarshal(text, &doc))
		require.Equal(t, "update", doc["type"])
		require.EqualValues(t, 1, doc["position"])

		r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/_queue/sale/events", nil)
		require.NoError(t, err)
		r.Header.Set("X-Queue-Ticket", p.ticket)
		got, err := (&http.Client{Timeout: 2 * patience}).Do(r)
		require.NoError(t, err)
		defer got.Body.Close()
		require.Equal(t, "text/event-stream", strings.Split(got.Header.Get("Content-Type"), ";")[0])
	},
	"W2": func(t *testing.T, g *gate) {
		require.Equal(t, http.StatusUnauthorized, g.call("GET", "/api/rooms/sale", "").code)
		require.Equal(t, http.StatusUnauthorized, g.call("GET", "/api/rooms/sale", "", "Authorization: Bearer guess").code)
		g.operate("GET", "", "")
	},
	"W3": func(t *testing.T, g *gate) {
		g.inside()
		g.person().joins()
		require.Eventually(t, func() bool { return g.operate("GET", "", "")["waiting"] == 1.0 }, patience, 50*time.Millisecond)
	},
	"W4": func(t *testing.T, g *gate) {
		g.inside()
		p := g.person()
		p.joins()
		g.operate("PATCH", "", `{"total_active_users": 2, "new_users_per_minute": 600}`)
		p.becomes("ready")
	},
	"W5": func(t *testing.T, g *gate) {
		holder := g.inside()
		p := g.person()
		p.joins()
		g.operate("PATCH", "", `{"state": "paused"}`)
		require.Equal(t, http.StatusOK, holder.call("GET", "/orders", "").code, "those inside stay")
		holder.call("POST", "/_queue/sale/release", "")
		require.EqualValues(t, 1, p.polls()["position"], "the order stays")
		g.operate("PATCH", "", `{"state": null}`)
		p.becomes("ready")
	},
	"W6": func(t *testing.T, g *gate) {
		g.operate("PATCH", "", `{"state": "paused"}`)
		first, second := g.person(), g.person()
		first.joins()
		second.joins()
		require.EqualValues(t, 1, g.operate("POST", "/admit", `{"count": 2}`)["admitted"], "never beyond the one slot")
		first.becomes("ready")
		require.Equal(t, "waiting", second.polls()["status"])
	},
	"W7": func(t *testing.T, g *gate) {
		p := g.person()
		p.call("POST", join, "")
		p.call("GET", "/orders", "")
		visitor := (<-g.orders).Header.Get("X-Queuegate-Visitor")
		require.Equal(t, "active", g.operate("GET", "/visitors/"+visitor, "")["status"])
		g.operate("POST", "/release", `{"visitor": "`+visitor+`"}`)
		p.becomes("released")
	},
	"W8": func(t *testing.T, g *gate) {
		g.inside()
		p := g.person()
		p.joins()
		got := g.call("POST", "/api/rooms/sale/reset", `{"confirm": "other"}`, "Authorization: Bearer "+adminKey)
		require.Equal(t, http.StatusBadRequest, got.code)
		require.Equal(t, "waiting", p.polls()["status"])
		g.operate("POST", "/reset", `{"confirm": "sale"}`)
		p.becomes("expired")
	},
	"W9": func(t *testing.T, g *gate) {
		got := g.call("GET", "/api/rooms/sale/visitors", "", "Authorization: Bearer "+adminKey)
		require.Equal(t, http.StatusNotFound, got.code)
	},
	"W10": func(t *testing.T, g *gate) { refusesFields(t, g, `{"user_id": "u-1"}`) },
	"W11": func(t *testing.T, g *gate) { refusesFields(t, g, `{"name": "A", "email": "a@shop.example"}`) },
	"W12": func(t *testing.T, g *gate) {
		g.inside()
		got := g.call("GET", "/orders", "", "X-Forwarded-For: 10.1.2.3")
		require.Equal(t, http.StatusTooManyRequests, got.code, "a stranger's word")
		g.noOrder()
	},
	"W13": func(t *testing.T, g *gate) {
		for origin, want := range map[string]string{"https://www.shop.example": "https://www.shop.example", "https://evil.example": "", "null": ""} {
			got := g.call("GET", status, "", "Origin: "+origin)
			require.Equal(t, want, got.header.Get("Access-Control-Allow-Origin"), origin)
		}
	},

	"B1": func(t *testing.T, _ *gate) {
		g := newGate(t, func(o *queue.Options) { o.PresenceWindow = 10 * time.Millisecond })
		g.inside()
		p, later := g.person(), g.person()
		p.joins()
		later.joins()
		require.Eventually(t, func() bool { return later.polls()["ahead"] == 0.0 }, patience, 150*time.Millisecond, "away for the others")
		require.EqualValues(t, 1, p.polls()["position"])
	},
	"B2": func(t *testing.T, g *gate) {
		g.inside()
		require.EqualValues(t, 1, g.person().joins()["position"])
		require.EqualValues(t, 2, g.person().joins()["position"], "the same address, another person")
	},
	"B3": func(t *testing.T, _ *gate) {
		// Nobody polls sooner than asked, so the heartbeat may be as late as that and the window.
		g := newGate(t, func(o *queue.Options) { o.PresenceWindow, o.ClaimWindow = 10*time.Millisecond, time.Second })
		holder, silent, here := g.inside(), g.person(), g.person()
		silent.joins()
		require.EqualValues(t, 2, here.joins()["position"])
		require.Eventually(t, func() bool { return here.polls()["ahead"] == 0.0 }, patience, 150*time.Millisecond, "who is silent steps aside")
		holder.call("POST", "/_queue/sale/release", "")
		here.becomes("ready")
	},
	"B4": func(t *testing.T, g *gate) {
		for _, end := range []func(*person) answer{
			func(p *person) answer { return p.call("POST", "/orders/buy", "") },
			func(p *person) answer { return p.call("POST", "/orders?X-Queuegate-Command=release", "") },
			func(p *person) answer { return p.call("POST", "/_queue/sale/release", "") },
		} {
			p := g.insideAsSoonAsFree()
			require.Equal(t, http.StatusOK, end(p).code)
		}
		g.insideAsSoonAsFree()
		theShopHas(t, "booking.completed")
	},
	"B5": func(t *testing.T, g *gate) {
		holder, p := g.inside(), g.person()
		p.joins()
		holder.call("POST", "/_queue/sale/release", "")
		p.becomes("ready")
	},
	"B6": func(t *testing.T, g *gate) {
		g.inside()
		p := g.person()
		p.joins()
		require.NoError(t, g.redis.Client(t).ScriptFlush(t.Context()).Err())
		require.EqualValues(t, 2, g.person().joins()["position"])
		require.EqualValues(t, 1, p.polls()["position"])
	},
	"B7": func(t *testing.T, g *gate) {
		holder, p := g.inside(), g.person()
		p.joins()
		holder.call("POST", "/orders?X-Queuegate-Command=sold-out&X-Queuegate-Stock=0", "")
		require.Eventually(t, func() bool {
			doc := p.polls()
			return doc["room_state"] == "sold_out" && doc["remaining_stock"] == 0.0
		}, patience, 150*time.Millisecond)
	},
}

// waits is the first poll of the second of two who wait.
func waits(t *testing.T, g *gate) {
	g.inside()
	g.person().joins()
	doc := g.person().joins()
	require.Equal(t, "waiting", doc["status"])
	require.EqualValues(t, 1, doc["ahead"])
	require.EqualValues(t, 2, doc["position"])
	require.EqualValues(t, 2, doc["waiting"])
}

// outage lets the admitted go on and nobody in.
func outage(t *testing.T, g *gate) {
	p := g.inside()
	g.redis.Kill()
	require.Equal(t, http.StatusOK, p.call("GET", "/orders", "").code, "a signed pass needs no Redis")
	g.order()
	got := g.call("GET", "/orders", "")
	require.Equal(t, http.StatusServiceUnavailable, got.code)
	require.NotEmpty(t, got.header.Get("Retry-After"))
	g.noOrder()
}

func refusesFields(t *testing.T, g *gate, body string) {
	require.Equal(t, http.StatusBadRequest, g.call("POST", join, body).code)
}

// insideAsSoonAsFree is inside once the slot of the one before is free.
func (g *gate) insideAsSoonAsFree() *person {
	g.t.Helper()
	p := g.person()
	p.call("POST", join, "")
	p.becomes("ready")
	require.Equal(g.t, http.StatusOK, p.call("GET", "/orders", "").code)
	return p
}

// endOf is the status once the stay is over.
func endOf(p *person) string {
	var text string
	require.Eventually(p.g.t, func() bool {
		text, _ = p.call("GET", status, "").doc["status"].(string)
		return text != "active"
	}, patience, 150*time.Millisecond)
	return text
}

// theShopHas looks for a word in the sources of the example shop.
func theShopHas(t *testing.T, word string) {
	var found bool
	require.NoError(t, filepath.WalkDir("../shop", func(path string, e fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".go" {
			text, err := os.ReadFile(path)
			found = found || err == nil && strings.Contains(string(text), word)
		}
		return err
	}))
	require.True(t, found, "examples/shop knows %s", word)
}

func TestEveryRowOfTheRecipesHolds(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	told := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \|`).FindAllStringSubmatch(string(readme), -1) {
		require.False(t, told[m[1]], "row %s is there twice", m[1])
		told[m[1]] = true
		require.Contains(t, rows, m[1], "a row without a test")
	}
	require.Len(t, rows, len(told), "a test without a row")
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row(t, newGate(t))
		})
	}
}
