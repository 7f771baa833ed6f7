package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

func TestCookieAttributesFollowThePublicScheme(t *testing.T) {
	cookie := func(b *bench, lines ...string) *http.Cookie {
		got := b.navigate("/order", lines...)
		for _, c := range got.Cookies() {
			if strings.Contains(c.Name, "queuegate_ticket_sale") {
				return c
			}
		}
		return nil
	}
	t.Run("plain http", func(t *testing.T) {
		b := newBench(t)
		b.fill()
		c := cookie(b)
		require.Equal(t, "queuegate_ticket_sale", c.Name)
		require.False(t, c.Secure)
		require.True(t, c.HttpOnly)
		require.Equal(t, "/", c.Path)
		require.Empty(t, c.Domain)
		require.Equal(t, http.SameSiteLaxMode, c.SameSite)
		require.Equal(t, int((30*time.Minute + 100*time.Second).Seconds()), c.MaxAge)
		require.Less(t, len(c.Value), 512)
		c = cookie(b, "X-Forwarded-Proto: https")
		require.False(t, c.Secure, "not from anybody")
	})
	t.Run("https at a trusted proxy", func(t *testing.T) {
		b := newBench(t, trustLoopback)
		b.fill()
		c := cookie(b, "X-Forwarded-Proto: https")
		require.Equal(t, "__Host-queuegate_ticket_sale", c.Name)
		require.True(t, c.Secure)
		again := b.navigate("/order", "X-Forwarded-Proto: https", "Cookie: "+c.Name+"="+c.Value)
		require.Empty(t, again.Header.Values("Set-Cookie"))
		again = b.navigate("/order", "Cookie: queuegate_ticket_sale="+c.Value)
		require.EqualValues(t, 1, b.line.seq, "both spellings are read")
		require.Equal(t, 429, again.StatusCode)
	})
	t.Run("as configured", func(t *testing.T) {
		b := newBench(t, func(o *proxy.Options) {
			o.Rooms[0].Cookie = proxy.Cookie{Domain: "shop.test", SameSite: http.SameSiteNoneMode, Secure: proxy.SecureAlways}
		})
		b.fill()
		c := cookie(b)
		require.Equal(t, "queuegate_ticket_sale", c.Name, "a host cookie has no domain")
		require.Equal(t, "shop.test", c.Domain)
		require.True(t, c.Secure)
		require.Equal(t, http.SameSiteNoneMode, c.SameSite)
	})
}

func TestEntryCookieLivesAsLongAsTheLease(t *testing.T) {
	b := newBench(t)
	c := b.navigate("/order").cookie("queuegate_entry_sale")
	require.Equal(t, int((90*time.Second + 100*time.Second).Seconds()), c.MaxAge)
	c = b.navigate("/order", "Cookie: queuegate_entry_sale="+c.Value).cookie("queuegate_entry_sale")
	require.Equal(t, int((5*time.Minute + 100*time.Second).Seconds()), c.MaxAge)
}

func TestPassIsRenewedAfterAQuarterOfTheSession(t *testing.T) {
	b := newBench(t)
	raw := b.admit()
	b.line.take()
	b.line.advance(b.line.session/4 - 2*time.Second)
	require.Empty(t, b.call("GET", "/order", "", "X-Entry-Token: "+raw).Header.Get("X-Entry-Token"))
	require.Empty(t, b.line.take())
	b.line.advance(4 * time.Second)
	b.shop.says("HTTP/1.1 200 OK\r\nCache-Control: public, max-age=600\r\nContent-Length: 0\r\n\r\n")
	got := b.call("GET", "/order", "", "X-Entry-Token: "+raw)
	require.Equal(t, []string{"renew"}, b.line.take())
	renewed, err := b.passes.Verify(got.Header.Get("X-Entry-Token"), "sale")
	require.NoError(t, err)
	old, err := b.passes.Verify(raw, "sale")
	require.NoError(t, err)
	require.Greater(t, renewed.End, old.End)
	require.Equal(t, old.Admission, renewed.Admission)
	require.Equal(t, "private, no-store", got.Header.Get("Cache-Control"))

	b.line.lose()
	require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+raw).StatusCode, "good until its end")
}

func TestPassIsNotRenewedWhenRenewalIsOff(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].Line.(*fakeLine).settings.DisableRenewal = true })
	raw := b.admit()
	b.line.take()
	b.line.advance(b.line.session - time.Second)
	require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+raw).StatusCode)
	require.Empty(t, b.line.take())
}

func TestSlotGivenOnMakesThePassWorthless(t *testing.T) {
	b := newBench(t)
	raw := b.admit()
	b.line.advance(b.line.session)
	b.line.giveOn()
	b.fill()
	before := len(b.shop.requests())
	require.Equal(t, 429, b.call("POST", "/order", "{}", "X-Entry-Token: "+raw).StatusCode)
	require.Len(t, b.shop.requests(), before)
}

func TestPassIsJudgedByItsEndInRoomTimeAtTheVeryMillisecond(t *testing.T) {
	b := newBench(t)
	b.fill()
	end := b.line.now.UnixMilli() + 1000
	raw := b.pass(func(p *token.Pass) { p.End = end })
	require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+raw).StatusCode)
	b.line.advance(999 * time.Millisecond)
	require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+raw).StatusCode)
	b.line.advance(time.Millisecond)
	require.Equal(t, 429, b.call("GET", "/order", "", "X-Entry-Token: "+raw).StatusCode)
}

func TestBeforeTheFirstAnswerOfRedisTheWallClockJudges(t *testing.T) {
	b := newBench(t)
	b.line.change(func() { b.line.mute = true })
	b.line.lose()
	require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+b.pass()).StatusCode)
	old := b.pass(func(p *token.Pass) { p.IssuedAt, p.Expires = p.IssuedAt.Add(-time.Hour), p.IssuedAt.Add(-time.Minute) })
	require.Equal(t, 429, b.call("GET", "/order", "", "X-Entry-Token: "+old).StatusCode)
}

// A gate whose clock is behind, and that has never heard of the room's time, learns from
// the tickets of people in line how late it is at least: an old pass that its holder still
// has opens nothing there, and costs them no place.
func TestBeforeTheFirstAnswerOfRedisTicketsShowWhichPassesAreOver(t *testing.T) {
	b := newBench(t)
	b.line.change(func() { b.line.mute = true })
	b.line.lose()
	pass := "X-Entry-Token: " + b.pass() // by the clock of this gate it is good for a minute
	over := b.line.now.Add(time.Minute)
	require.Equal(t, 200, b.call("GET", "/order", "", pass).StatusCode)
	shown := func(seen time.Time) string {
		k := ticketOf(newVisitor(), 9)
		k.Seen = seen.UnixMilli()
		return "X-Queue-Ticket: " + b.tickets.Seal("sale", k)
	}
	b.call("GET", "/_queue/sale/status", "", shown(over.Add(-time.Millisecond)))
	require.Equal(t, 200, b.call("GET", "/order", "", pass).StatusCode, "it was good at that time")
	require.Equal(t, "waiting", b.call("GET", "/_queue/sale/status", "", shown(over), pass).doc(t)["status"])
	before := len(b.shop.requests())
	require.Equal(t, 429, b.call("GET", "/order", "", pass).StatusCode)
	b.call("GET", "/_queue/sale/status", "", shown(over.Add(-time.Hour)))
	require.NotEqual(t, 200, b.call("GET", "/order", "", pass).StatusCode, "time does not go back")
	require.Len(t, b.shop.requests(), before)
	b.line.change(func() { b.line.mute = false })
	b.line.heal()
	require.Equal(t, 200, b.call("GET", "/order", "", pass).StatusCode, "Redis knows better")
}

func TestReadyPassThatLapsedFallsBackToItsPlaceByTheTicketThatCameWithIt(t *testing.T) {
	b := newBench(t)
	first := b.navigate("/order")
	pass, kept := first.cookie("queuegate_entry_sale"), first.cookie("queuegate_ticket_sale")
	require.NotNil(t, kept)
	ticket, err := b.tickets.Open("sale", kept.Value)
	require.NoError(t, err)
	require.EqualValues(t, -1, ticket.Ahead, "no number was shown")
	require.Equal(t, b.line.now.Add(b.line.claim).UnixMilli(), ticket.Due)

	b.line.advance(b.line.claim)
	b.fill()
	b.line.change(func() { // the slot was given on
		b.line.stays[ticket.Visitor] = &stay{place: ticket.Place, state: queue.Away}
		b.line.line = []string{ticket.Visitor}
	})
	got := b.call("GET", "/order", "", "Cookie: queuegate_entry_sale="+pass.Value+"; queuegate_ticket_sale="+kept.Value)
	require.Equal(t, 429, got.StatusCode)
	again, err := b.tickets.Open("sale", got.doc(t)["ticket"].(string))
	require.NoError(t, err)
	require.Equal(t, ticket.Visitor, again.Visitor)
	require.Equal(t, ticket.Place, again.Place)
}

func TestSuspendedRoomLetsEverythingPassAndSetsNoCookie(t *testing.T) {
	passesEverything(t, "suspended", func(r *proxy.Room) { r.Suspended, r.Line = true, nil })
}

func TestRoomWithoutALineLetsEverythingPassAndSetsNoCookie(t *testing.T) {
	passesEverything(t, "passthrough", func(r *proxy.Room) { r.Passthrough, r.Line = true, nil })
}

func passesEverything(t *testing.T, reason string, change func(*proxy.Room)) {
	t.Helper()
	b := newBench(t, func(o *proxy.Options) { change(&o.Rooms[0]) })
	got := b.navigate("/order")
	require.Contains(t, b.log.String(), `"reason":"`+reason+`"`)
	require.Equal(t, 200, got.StatusCode)
	require.Empty(t, got.Header.Values("Set-Cookie"))
	require.Empty(t, b.shop.last().header["X-Queuegate-Room"])
	require.Equal(t, "suspended", b.call("GET", "/_queue/sale/status", "").doc(t)["room_state"])
	require.Equal(t, 303, b.navigate("/_queue/sale").StatusCode)
	for _, method := range []string{"DELETE /_queue/sale", "POST /_queue/sale/release", "POST /_queue/sale/join"} {
		m, target, _ := strings.Cut(method, " ")
		require.Equal(t, 200, b.call(m, target, "").StatusCode, method)
	}
}
