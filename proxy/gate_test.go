package proxy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnprotectedRoutesPassUntouched(t *testing.T) {
	b := newBench(t)
	b.shop.says("HTTP/1.1 200 OK\r\nCache-Control: public, max-age=600\r\nEtag: \"x\"\r\nVary: Accept\r\nSet-Cookie: s=1\r\nContent-Length: 2\r\n\r\nhi")
	got := b.navigate("/catalog")
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "hi", got.text)
	require.Equal(t, "public, max-age=600", got.Header.Get("Cache-Control"))
	require.Equal(t, []string{"s=1"}, got.Header.Values("Set-Cookie"))
	require.Equal(t, []string{"Accept"}, got.Header.Values("Vary"))
	require.Empty(t, got.Header.Get("X-Request-Id"))
	require.Empty(t, b.line.take(), "Redis was asked")
}

func TestNewcomerEntersAtOnceWhenThereIsRoom(t *testing.T) {
	b := newBench(t)
	got := b.navigate("/order/1")
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "shop", got.text)
	entry := got.cookie("queuegate_entry_sale")
	require.NotNil(t, entry)
	require.NotNil(t, got.cookie("queuegate_ticket_sale"), "should the pass lapse, the place is proven by it")
	require.Equal(t, "private, no-store", got.Header.Get("Cache-Control"))
	require.Equal(t, []string{"join"}, b.line.take())

	p, err := b.passes.Verify(entry.Value, "sale")
	require.NoError(t, err)
	require.EqualValues(t, "ready", p.Stage)
	seen := b.shop.last()
	require.Equal(t, []string{"sale"}, seen.header["X-Queuegate-Room"])
	require.Equal(t, []string{p.Visitor}, seen.header["X-Queuegate-Visitor"])
	require.Equal(t, []string{p.Admission}, seen.header["X-Queuegate-Admission"])

	next := b.navigate("/order/2", "Cookie: queuegate_entry_sale="+entry.Value)
	require.Equal(t, 200, next.StatusCode)
	require.Equal(t, []string{"claim"}, b.line.take())
	claimed := next.cookie("queuegate_entry_sale")
	require.NotNil(t, claimed)
	require.Empty(t, next.Header.Get("X-Entry-Token"), "who keeps cookies needs no header")

	third := b.navigate("/order/3", "Cookie: queuegate_entry_sale="+claimed.Value)
	require.Equal(t, 200, third.StatusCode)
	require.Empty(t, third.Header.Values("Set-Cookie"))
	require.Empty(t, b.line.take(), "a running pass needs no Redis")
}

func TestNavigationInLineGetsThePageInPlace(t *testing.T) {
	b := newBench(t)
	b.fill()
	got := b.navigate("/order?id=7&c=a%20b+c")
	require.Equal(t, 429, got.StatusCode)
	require.Equal(t, "text/html; charset=utf-8", got.Header.Get("Content-Type"))
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
	require.Equal(t, "noindex", got.Header.Get("X-Robots-Tag"))
	require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
	require.NotEmpty(t, got.Header.Get("Retry-After"))
	require.NotEmpty(t, got.Header.Get("Content-Security-Policy"))
	require.Empty(t, got.Header.Get("Location"))
	require.NotNil(t, got.cookie("queuegate_ticket_sale"))
	require.Contains(t, got.text, "/_queue/sale/status")
	require.Empty(t, b.shop.requests())
}

func TestCallInLineGetsJSONAndNeverARedirect(t *testing.T) {
	b := newBench(t)
	b.fill()
	got := b.call("POST", "/order", `{"item":1}`, "Content-Type: application/json")
	require.Equal(t, 429, got.StatusCode)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	require.Empty(t, got.Header.Get("Location"))
	d := got.doc(t)
	require.Equal(t, "waiting", d["status"])
	require.EqualValues(t, 1, d["position"])
	require.EqualValues(t, 0, d["ahead"])
	require.Equal(t, "open", d["room_state"])
	require.Equal(t, "urn:queuegate:problem:queued", d["type"])
	require.NotNil(t, d["poll_after_ms"])
	require.NotEmpty(t, d["ticket"])
	require.Equal(t, d["ticket"], got.Header.Get("X-Queue-Ticket"))
	require.Empty(t, b.shop.requests())
}

func TestPlaceIsKeptOverReloadsAndTheTurnComesInTheSameRequest(t *testing.T) {
	b := newBench(t)
	b.fill()
	first := b.navigate("/order")
	ticket := first.cookie("queuegate_ticket_sale").Value
	for range 5 {
		again := b.navigate("/order", "Cookie: a=1; queuegate_ticket_sale="+ticket)
		require.Equal(t, 429, again.StatusCode)
		require.Nil(t, again.cookie("queuegate_ticket_sale"), "nothing changed, so no cookie is set")
	}
	require.EqualValues(t, 1, b.line.seq)
	b.line.take()
	b.line.setSlots(1)
	got := b.navigate("/order", "Cookie: a=1; queuegate_ticket_sale="+ticket)
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, []string{"touch", "claim"}, b.line.take())
	p, err := b.passes.Verify(got.cookie("queuegate_entry_sale").Value, "sale")
	require.NoError(t, err)
	require.EqualValues(t, "active", p.Stage)
	require.Equal(t, []string{"a=1"}, b.shop.last().header["Cookie"])
}

func TestTokenThatIsNotGoodNeverReachesTheShop(t *testing.T) {
	b := newBench(t)
	b.fill()
	good := b.pass()
	header, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	for name, raw := range map[string]string{
		"empty": "", "one character": "x", "two parts": "a.b", "four parts": "a.b.c.d", "blank": "%20",
		"huge":                   strings.Repeat("a", 20000),
		"without a signature":    header + "." + payload + ".",
		"algorithm none":         "eyJhbGciOiJub25lIn0." + payload + ".",
		"another key's":          forged(t),
		"changed payload":        header + "." + payload[:len(payload)-4] + "AAAA." + signature,
		"for another room":       b.pass(func(p *pass) { p.Room = "drop" }),
		"past its end":           b.pass(func(p *pass) { p.End = b.line.now.UnixMilli() }),
		"of before a reset":      b.pass(func(p *pass) { p.Generation = 0 }),
		"ready, unknown to line": b.pass(func(p *pass) { p.Stage = "ready" }),
		"a ticket":               b.tickets.Seal("sale", ticketOf(newVisitor(), 3)),
	} {
		t.Run(name, func(t *testing.T) {
			for _, line := range []string{"X-Entry-Token: " + raw, "Cookie: queuegate_entry_sale=" + raw, "Cookie: __Host-queuegate_entry_sale=" + raw} {
				got := b.call("POST", "/order", "{}", line)
				require.Equal(t, 429, got.StatusCode, got.text)
			}
		})
	}
	require.Empty(t, b.shop.requests())
	require.NotContains(t, b.log.String(), header+".")
}

func TestEndedPassIsRefusedWithoutRedis(t *testing.T) {
	b := newBench(t)
	raw := b.admit()
	p, err := b.passes.Verify(raw, "sale")
	require.NoError(t, err)
	require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+raw).StatusCode)
	b.line.change(func() { b.line.ended[key(p.Visitor, p.Place)] = "released" })
	b.fill()
	before := len(b.shop.requests())
	require.Equal(t, 429, b.call("GET", "/order", "", "X-Entry-Token: "+raw).StatusCode)
	require.Len(t, b.shop.requests(), before)
}

func TestDifferentHeaderTokensAreNobodys(t *testing.T) {
	b := newBench(t)
	raw := b.admit()
	b.fill()
	require.Equal(t, 429, b.call("GET", "/order", "", "X-Entry-Token: "+raw, "X-Entry-Token: other").StatusCode)
	require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+raw, "X-Entry-Token: "+raw).StatusCode)
}

func TestBadTwinOfACookieLocksNobodyOut(t *testing.T) {
	b := newBench(t)
	raw := b.admit()
	got := b.navigate("/order", "Cookie: queuegate_entry_sale=evil; __Host-queuegate_entry_sale=worse; queuegate_entry_sale="+raw)
	require.Equal(t, 200, got.StatusCode)
}
