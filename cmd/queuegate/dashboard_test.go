package main_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/queue"
)

const adminToken = "mQ7rT2xV9bN4kW8sLd5h"

// inRoom is a condition: what selector finds contains a text.
func inRoom(selector, text string) string {
	return fmt.Sprintf("[...document.querySelectorAll(%q)].some(e => e.getClientRects().length && e.textContent.includes(%q))", selector, text)
}

// banner waits until the dashboard says so above everything.
func (v *tab) banner(text string) {
	v.t.Helper()
	v.await("a banner that says "+text, inRoom("#banners p", text))
}

// proposal waits for the preview of a plan that says so.
func (v *tab) proposal(texts ...string) {
	v.t.Helper()
	for _, text := range texts {
		v.await("a preview that says "+text, inRoom("#preview[open]", text))
	}
	v.await("the plan can be confirmed", "!document.querySelector('#confirm').disabled")
}

// confirm confirms what is previewed.
func (v *tab) confirm() {
	v.t.Helper()
	v.click("#confirm")
	v.await("the dialog is closed", "!document.querySelector('#preview').open")
}

// plan fills in fields of a form and asks for the preview.
func (v *tab) plan(form string, fields ...string) {
	v.t.Helper()
	for i := 0; i < len(fields); i += 2 {
		v.fill(fields[i], fields[i+1])
	}
	v.click(`form[data-plan="` + form + `"] button:not([type])`)
}

// fill writes into a field in the place of what was there.
func (v *tab) fill(selector, text string) {
	v.t.Helper()
	v.run(fmt.Sprintf("{ const e = document.querySelector(%q); e.focus(); e.select(); }", selector))
	v.keys(text)
}

// keys types on the keyboard.
func (v *tab) keys(keys string) {
	v.t.Helper()
	v.do(chromedp.KeyEvent(keys))
}

// tabTo goes by the tab key to what has an id.
func (v *tab) tabTo(id string) {
	v.t.Helper()
	for range 80 {
		if look[string](v, "document.activeElement.id") == id {
			return
		}
		v.keys(kb.Tab)
	}
	require.Fail(v.t, "the tab key does not lead to "+id)
}

// operatedFleet is two gates with a token.
func operatedFleet(t *testing.T, settings string) *fleet {
	t.Helper()
	f := startFleet(t, plan{rooms: room(settings)})
	for range 2 {
		g := startGate(t, f.config, "QUEUEGATE_ADMIN_TOKEN="+adminToken)
		f.gates = append(f.gates, g)
		g.waitReady(t)
	}
	return f
}

// inLine lets n people join and show up.
func (f *fleet) inLine(t *testing.T, n int) []*app {
	t.Helper()
	people := make([]*app, n)
	for i := range people {
		people[i] = newApp(t)
		_, err := people[i].join(f.gates[i%len(f.gates)], nil)
		require.NoError(t, err)
		people[i].waits(t, f.gates[i%len(f.gates)])
	}
	return people
}

func operatorRunsTheRoom(t *testing.T, b *chromium) {
	f := operatedFleet(t, "total_active_users: 5, new_users_per_minute: 60, presence_window: 5m, claim_window: 5m, queue_all: true, page: {message: Doors at ten}")
	people := f.inLine(t, 4)
	v := b.visitor(t)
	v.open(f.gates[0].admin + "/")
	v.await("a form to sign in", visible("#token"))
	v.accessible("the form")
	v.shoot("dashboard-sign-in")
	sign := func(token string) {
		v.fill("#who", "ana <b>bold</b>")
		v.fill("#token", token)
		v.click("#sign-in-form button")
	}
	sign("a wrong token")
	v.await("the wrong token is refused", inRoom("#sign-in-problem", "not the token"))
	sign(adminToken)
	v.await("the room is shown", inRoom("#t-waiting", "4"))
	require.Equal(t, f.gates[0].admin+"/", v.address())
	require.Empty(t, look[string](v, "JSON.stringify(localStorage).replace('{}', '') + JSON.stringify(sessionStorage).replace('{}', '') + document.cookie"), "the token is kept nowhere")
	v.banner("The room is queue all, by the file")
	v.await("both gates are there", inRoom("#gates-sum", "2 gates, one version"))

	v.tabTo("pause") // by the keyboard alone
	v.keys(kb.Enter)
	v.proposal("State: queue all → open", "without a burst")
	require.Equal(t, "confirm", look[string](v, "document.activeElement.id"))
	v.keys(kb.Escape)
	v.await("escape puts it off", "!document.querySelector('#preview').open")
	require.Equal(t, "pause", look[string](v, "document.activeElement.id"), "and leads back")

	v.plan("admit", "#f-count", "2")
	v.proposal("Up to 2 people would be let in at once.", "not while queue all")
	v.accessible("a preview")
	v.shoot("dashboard-preview")
	v.confirm()
	v.await("two are in", inRoom("#told", "Let in 2 of 2"))
	v.await("and two wait", inRoom("#t-waiting", "2"))

	v.click("#f-half")
	v.click(`form[data-plan="limits"] button:not([type])`)
	v.proposal("New users a minute: 60 → 30", "Burst: 1")
	v.confirm()
	v.await("the rate is halved", inRoom("#t-rate-limit", "of 30"))
	v.await("and where it comes from is shown", inRoom("#values tr", "ana <b>bold</b>"))

	v.plan("words", "#f-message", `<img src=x onerror="document.title='owned'">`, "#f-stock", "40")
	v.proposal("Message: Doors at ten → <img src=x", "Remaining stock: not shown → 40")
	v.confirm()
	v.await("the message is shown as it is written", inRoom("#values td", `<img src=x onerror="document.title='owned'">`))
	require.Zero(t, look[int](v, "document.querySelectorAll('img, td b').length"), "nothing of it is markup")

	v.tabTo("pause")
	v.keys(kb.Enter)
	v.proposal("open")
	v.keys(kb.Enter)
	v.await("the room is open", inRoom("#state", "open"))
	v.click("#pause")
	v.proposal("State: open → paused", "everybody in line keeps the place")
	v.confirm()
	v.banner("The room is paused, by ana <b>bold</b> since")
	v.click("#pause")
	v.proposal("State: paused → open")
	v.confirm()
	v.await("the room goes on", inRoom("#state", "open"))
	for _, a := range people[2:] {
		a.await(t, f.gates[1])
	}
	v.operateOnPeople(f, ticketOf(t, people[3].ticket).Visitor)
	v.accessible("the room")
	v.quiet()
	v.sameOrigin(f.gates[0].admin)
	v.click("#sign-out")
	v.await("signed out", visible("#token"))
}

// operateOnPeople looks one visitor up, releases them, and resets the room.
func (v *tab) operateOnPeople(f *fleet, visitor string) {
	v.t.Helper()
	v.fill("#f-visitor", "<i>nobody</i>")
	v.click("#f-find")
	v.await("nobody is found", inRoom("#found", "Nobody by that id"))
	v.fill("#f-visitor", visitor)
	v.click("#f-find")
	v.await("the visitor is found", inRoom("#found", "ready"))
	v.click(`form[data-plan="visitor"] button:not([type])`)
	v.proposal("would lose the pass")
	v.confirm()
	v.await("the release is among the changes", inRoom("#changes tr", "Visitor released"))

	v.plan("reset")
	v.proposal("would lose the pass", "would lose the place")
	v.click("#confirm")
	v.await("nothing is done by one click", inRoom("#preview-problem", "Type checkout to confirm"))
	v.fill("#confirm-name", "checkout")
	v.confirm()
	v.await("the reset is among the changes", inRoom("#changes tr", "Room reset"))
	eventually(v.t, "and the other gate has reset", func() bool {
		var view admin.RoomView
		return operatorSees(v.t, f.gates[1], &view) && *view.Active == 0 && view.Generation > 0
	})
}

// operatorSees asks a gate how the room is.
func operatorSees(t *testing.T, g *gate, view *admin.RoomView) bool {
	t.Helper()
	got := mustSend(t, newClient(t), request{method: "GET", url: g.admin + "/api/rooms/checkout", header: map[string]string{"Authorization": "Bearer " + adminToken}})
	return got.code == 200 && json.Unmarshal(got.body, view) == nil
}

// sameOrigin asserts that nobody but one listener was asked.
func (v *tab) sameOrigin(base string) {
	v.t.Helper()
	for _, f := range v.fetched() {
		require.True(v.t, strings.HasPrefix(f.URL, base+"/") || strings.HasPrefix(f.URL, "data:"), f.URL)
		require.NotContains(v.t, f.URL, adminToken)
	}
}

// asksForTheHourAtOnce asserts that the charts are part of the first look at a room,
// before the rooms are asked for again.
func (v *tab) asksForTheHourAtOnce() {
	v.t.Helper()
	var looks, charts []int
	eventually(v.t, "a second look", func() bool {
		looks, charts = nil, nil
		for i, f := range v.fetched() {
			switch {
			case strings.HasSuffix(f.URL, "/api/rooms"):
				looks = append(looks, i)
			case strings.Contains(f.URL, "/history"):
				charts = append(charts, i)
			}
		}
		return len(looks) > 1
	})
	require.NotEmpty(v.t, charts)
	require.Less(v.t, charts[0], looks[1])
}

// anHour writes a busy hour into the history, up to a minute ago.
func anHour(t *testing.T, rdb *redis.Client, slots, rate int) {
	t.Helper()
	epoch, err := rdb.HGet(t.Context(), "qg:{checkout}:room", "epoch").Result()
	require.NoError(t, err)
	now := time.Now().UnixMilli() / 5000
	fields := map[string]any{}
	for ago := int64(719); ago > 2; ago-- {
		slot, back := now-ago, int(ago)
		rise := math.Sin(float64(720-back)/720*math.Pi) * math.Sin(float64(720-back)/720*math.Pi)
		state, waiting := "open", int(4200*rise)+(back*7919)%40
		if back > 400 && back < 430 {
			state = "paused"
		}
		admitted := -back * rate / 12
		words := []any{1, slot, slot*5000 + 40, epoch, 0, state, 0, waiting, waiting / 9, slots - (back/60)%2, slots, rate, 2, 0,
			admitted - back*3, admitted, admitted, -back / 9, 0, 0, 0, 0, 0, -back * 6, -back, -back / 2, 0, -back / 3}
		for i, bucket := range []int{18 + int(16*rise), 20 + int(16*rise), 24 + int(16*rise)} {
			words = append(words, fmt.Sprintf("%d:%d", bucket, (1000-back)*(3-i)))
		}
		fields[strconv.FormatInt(slot%720, 10)] = strings.Trim(fmt.Sprint(words), "[]")
	}
	require.NoError(t, rdb.HSet(t.Context(), "qg:{checkout}:history", fields).Err())
}

func dashboardTellsTrouble(t *testing.T, b *chromium) {
	f := startFleet(t, plan{gates: 2, timeout: "2s", rooms: room("total_active_users: 2, new_users_per_minute: 600, max_waiting: 3, presence_window: 5m, claim_window: 5m") +
		"  - {name: tickets, protect: [{paths: [/tickets]}], total_active_users: 5, shadow: true}\n"})
	one, two := f.gates[0], f.gates[1]
	v := b.visitor(t)
	v.open(one.admin + "/")
	v.await("no token is asked for where there is none", inRoom("#pulse-text", "Live"))
	v.await("two gates", inRoom("#gates-sum", "Redis answers; 2 gates, one version"))
	v.asksForTheHourAtOnce()
	v.click("#rooms button:nth-child(2)")
	v.await("the other room", inRoom("#name", "tickets"))
	v.await("it diverts nobody, and says so", inRoom("#state", "open, in shadow"))
	v.banner("tickets: The room is in shadow")
	v.click("#rooms button:nth-child(1)")
	v.await("the first room again, and a text in one piece", inRoom("#name", "checkout")+` && /^(0 away, place kept; )?full at 3$/.test(document.querySelector("#t-away").textContent)`)
	v.shoot("dashboard-idle")
	anHour(t, f.redis.Client(t), 2, 600)
	for range 2 {
		newApp(t).enter(t, one)
	}
	f.inLine(t, 3)
	v.open(one.admin + "/")
	v.await("the charts show the hour", "document.querySelectorAll('#chart-grid .curve').length >= 8")
	v.await("and in words", `document.querySelector("#chart-grid svg").getAttribute("aria-label").startsWith("Waiting in the last hour. here: now 3, between")`)
	v.banner("checkout: The line is full at 3")
	v.do(chromedp.Focus(chromedp.CSS("#moment")))
	v.keys(kb.ArrowLeft + kb.ArrowLeft + kb.ArrowLeft)
	v.await("the keyboard leads back in time", `/^\d\d:\d\d:\d\d/.test(document.querySelector("#moment-text").textContent)`)
	v.shoot("dashboard-busy")
	v.accessible("a busy room")

	two.kill()
	v.banner("has not been heard from since")
	f.shop.Server.Close()
	_, err := newApp(t).send(request{method: "GET", url: one.url + "/about"})
	require.NoError(t, err)
	v.banner("checkout: The shop takes no connections")
	f.redis.Kill()
	v.banner("checkout: Redis does not answer. Numbers are of")
	v.await("nothing is shown as live", `document.body.classList.contains("stale") && document.querySelector("#pulse").dataset.state === "stale"`)
	v.plan("limits", "#f-rate", "300")
	v.await("no preview, and why", inRoom("#preview-problem", "Redis did not answer"))
	require.True(t, look[bool](v, "document.querySelector('#confirm').disabled"))
	v.keys(kb.Escape)
	v.shoot("dashboard-redis-away")
	v.accessible("Redis away")
	f.redis.Resume(t)
	v.await("it is live again", `!document.body.classList.contains("stale")`)
	v.quiet()
	one.kill()
	v.banner("No answer from the gate since")
	v.await("and all of it is old", inRoom("#pulse-text", "Stale, of"))
}

// What the dashboard shows is what the API tells: a room whose values somebody else
// has changed since the preview is not changed.
func previewIsNotOutrun(t *testing.T, b *chromium) {
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 2, new_users_per_minute: 600")})
	g := f.gates[0]
	v := b.visitor(t)
	v.open(g.admin + "/")
	v.await("the room is open", inRoom("#state", "open"))
	v.plan("limits", "#f-rate", "300")
	v.proposal("New users a minute: 600 → 300")
	operate(t, g, "set", "checkout", "new_users_per_minute=900")
	v.click("#confirm")
	v.await("it is refused", inRoom("#preview-problem", "no longer those"))
	require.EqualValues(t, 900, showRoom(t, g).Settings[queue.SettingPerMinute].Value)
	v.keys(kb.Escape)
	v.await("escape closes it", "!document.querySelector('#preview').open")
	v.quiet()
}
