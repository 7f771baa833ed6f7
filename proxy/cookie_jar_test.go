package proxy_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
)

func inFrames(o *proxy.Options) {
	o.Rooms[0].Cookie = proxy.Cookie{SameSite: http.SameSiteNoneMode, Secure: proxy.SecureAlways, Partitioned: true}
}

func TestPartitionedCookiesAreSetAndDeletedInTheirOwnJar(t *testing.T) {
	b := newBench(t, inFrames)
	b.fill()
	got := b.navigate("/order")
	line := got.Header.Get("Set-Cookie")
	require.True(t, strings.HasPrefix(line, "__Host-queuegate_ticket_sale="), line)
	for _, attribute := range []string{"; Path=/", "; HttpOnly", "; Secure", "; SameSite=None", "; Partitioned"} {
		require.Contains(t, line, attribute)
	}
	require.NotContains(t, line, "Domain")
	c := got.cookie("queuegate_ticket_sale")
	left := b.call("DELETE", "/_queue/sale", "", "Cookie: "+c.Name+"="+c.Value)
	require.Len(t, left.Cookies(), 1)
	require.True(t, left.Cookies()[0].Partitioned, "else the browser deletes another one")
	require.True(t, left.Cookies()[0].Secure)
	require.Negative(t, left.Cookies()[0].MaxAge)
}

func TestCookiesThatBrowsersDropAreRefusedAtTheStart(t *testing.T) {
	b := newBench(t)
	for name, tt := range map[string]struct {
		cookie proxy.Cookie
		want   string
	}{
		"none without Secure":       {proxy.Cookie{SameSite: http.SameSiteNoneMode, Secure: proxy.SecureNever}, "SameSite none needs Secure"},
		"partitioned, lax":          {proxy.Cookie{Secure: proxy.SecureAlways, Partitioned: true}, "Partitioned needs"},
		"partitioned, maybe secure": {proxy.Cookie{SameSite: http.SameSiteNoneMode, Partitioned: true}, "Partitioned needs"},
	} {
		_, err := proxy.New(proxy.Options{
			Rooms:    []proxy.Room{{Name: "sale", Line: b.line, Cookie: tt.cookie}},
			Upstream: proxy.Upstream{}, Passes: b.passes, Tickets: b.tickets, IdentitySecret: []byte(identitySecret),
		})
		require.ErrorContains(t, err, tt.want, name)
	}
}

// Without a domain no suffix is ever computed of a host: what is right for .co.uk is
// wrong for .co.kr, and a browser drops a cookie of a public suffix.
func TestCookieIsTheHostsAloneWhereverTheShopIs(t *testing.T) {
	b := newBench(t)
	b.fill()
	for _, host := range []string{"shop.example.co.uk", "shop.example.co.kr", "example.com:8443", "192.0.2.7", "[::1]:8080", "localhost"} {
		got := b.navigate("/order", "Host: "+host)
		require.Equal(t, 429, got.StatusCode, host)
		require.NotContains(t, strings.ToLower(got.Header.Get("Set-Cookie")), "domain", host)
	}
}

func TestHostThatTheDomainDoesNotCoverGetsACookieOfItsOwnAndIsToldOnce(t *testing.T) {
	shopOf := func(o *proxy.Options) {
		o.Rooms[0].Cookie = proxy.Cookie{Domain: "Shop.test", Secure: proxy.SecureAlways}
		trustLoopback(o)
	}
	b := newBench(t, shopOf)
	b.fill()
	for _, tt := range []struct {
		lines        []string
		name, domain string
		told         int
	}{
		{[]string{"Host: shop.test"}, "queuegate_ticket_sale", "shop.test", 0},
		{[]string{"Host: WWW.shop.TEST.:8080"}, "queuegate_ticket_sale", "shop.test", 0},
		{[]string{"Host: 10.0.0.1", "X-Forwarded-Host: www.shop.test:443"}, "queuegate_ticket_sale", "shop.test", 0},
		{[]string{"Host: notshop.test"}, "__Host-queuegate_ticket_sale", "", 1},
		{[]string{"Host: shop.test.evil.example"}, "__Host-queuegate_ticket_sale", "", 1},
		{[]string{"Host: test"}, "__Host-queuegate_ticket_sale", "", 1},
	} {
		got := b.navigate("/order", tt.lines...)
		require.Equal(t, 429, got.StatusCode, tt.lines)
		require.Len(t, got.Cookies(), 1)
		require.Equal(t, tt.name, got.Cookies()[0].Name, tt.lines)
		require.Equal(t, tt.domain, got.Cookies()[0].Domain, tt.lines)
		require.Equal(t, tt.told, strings.Count(b.log.String(), "cookie.domain does not cover"), tt.lines)
	}
	again := b.navigate("/order", "Host: notshop.test")
	back := b.navigate("/order", "Host: notshop.test", "Cookie: "+again.Cookies()[0].Name+"="+again.Cookies()[0].Value)
	require.Empty(t, back.Cookies(), "what the host was given is its place")
}

func TestForwardedHostOfAStrangerChangesNoCookie(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].Cookie = proxy.Cookie{Domain: "shop.test"} })
	b.fill()
	got := b.navigate("/order", "Host: elsewhere.example", "X-Forwarded-Host: shop.test")
	require.Empty(t, got.Cookies()[0].Domain)
}

func TestLeavingDeletesTheCookieOfTheDomainAndOfTheHost(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].Cookie = proxy.Cookie{Domain: "shop.test"} })
	b.fill()
	ticket := b.navigate("/order").cookie("queuegate_ticket_sale").Value
	left := b.call("DELETE", "/_queue/sale", "", "Cookie: queuegate_ticket_sale="+ticket)
	domains := map[string]bool{}
	for _, c := range left.Cookies() {
		require.Equal(t, "queuegate_ticket_sale", c.Name)
		require.Negative(t, c.MaxAge)
		domains[c.Domain] = true
	}
	require.Equal(t, map[string]bool{"shop.test": true, "": true}, domains, "the browser does not say which one it sent")
}

// A sibling host plants cookies of the same name for the parent domain, one for each
// path above the page: all of them are sent, and in front of the good one.
func TestPlantedTwinsLockNobodyOut(t *testing.T) {
	b := newBench(t)
	raw := b.admit()
	ended := b.pass(func(p *pass) { p.Place, p.Admission = 90, "adm90" })
	p, err := b.passes.Verify(ended, "sale")
	require.NoError(t, err)
	b.line.change(func() { b.line.ended[key(p.Visitor, p.Place)] = "left" })
	twins := []string{forged(t), "x", "a.b.c", ended, b.pass(func(p *pass) { p.Room = "drop" }), b.pass(func(p *pass) { p.Generation = 0 })}
	for len(twins) < 15 {
		twins = append(twins, fmt.Sprint("planted-", len(twins)))
	}
	var cookies strings.Builder
	for _, twin := range twins {
		cookies.WriteString("queuegate_entry_sale=" + twin + "; ")
	}
	b.fill()
	got := b.navigate("/order", "Cookie: "+cookies.String()+"a=1; queuegate_entry_sale="+raw)
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, []string{"a=1"}, b.shop.last().header["Cookie"], "none reaches the shop")
	got = b.navigate("/order", "Cookie: "+cookies.String()+"b=2; queuegate_entry_sale=planted; queuegate_entry_sale="+raw)
	require.Equal(t, 429, got.StatusCode, "there is a bound to what one request may cost")
}

func TestPlantedTicketsCostNobodyThePlace(t *testing.T) {
	b := newBench(t)
	b.fill()
	mine := b.navigate("/order").cookie("queuegate_ticket_sale").Value
	over := b.navigate("/order").cookie("queuegate_ticket_sale").Value
	reset := ticketOf(newVisitor(), 3)
	reset.Generation = 0
	require.Equal(t, 200, b.call("DELETE", "/_queue/sale", "", "X-Queue-Ticket: "+over).StatusCode)
	for name, twin := range map[string]string{
		"nonsense": "x", "another room's": b.tickets.Seal("drop", ticketOf(newVisitor(), 1)), "one that is over": over,
		"one of before a reset": b.tickets.Seal("sale", reset),
	} {
		got := b.call("GET", "/_queue/sale/status", "", "Cookie: queuegate_ticket_sale="+twin+"; queuegate_ticket_sale="+mine)
		require.Equal(t, "waiting", got.doc(t)["status"], name)
		require.EqualValues(t, 1, got.doc(t)["position"], name)
	}
	got := b.call("GET", "/_queue/sale/status", "", "Cookie: queuegate_ticket_sale="+over)
	require.Equal(t, "left", got.doc(t)["status"], "alone it still tells why")
}

// slowShop holds the answer to /order/slow until told.
func slowShop(b *bench) (reached <-chan struct{}, answer func()) {
	arrived, free := make(chan struct{}), make(chan struct{})
	b.shop.does(func(req shopRequest, conn net.Conn) {
		if strings.Contains(req.line, "/slow") {
			close(arrived)
			b.shop.hold(free)
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nSet-Cookie: s=1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})
	return arrived, func() { close(free) }
}

// jar keeps cookies as a browser does, by name.
type jar map[string]string

func (j jar) keep(r reply) {
	for _, c := range r.Cookies() {
		if c.MaxAge < 0 {
			delete(j, c.Name)
		} else {
			j[c.Name] = c.Value
		}
	}
}

func (j jar) line() string {
	var pairs []string
	for name, value := range j {
		pairs = append(pairs, name+"="+value)
	}
	return "Cookie: " + strings.Join(pairs, "; ")
}

func TestLateAnswerToAFirstRequestLeavesTheBrowserInside(t *testing.T) {
	b := newBench(t)
	b.line.setSlots(2)
	reached, answer := slowShop(b)
	late := make(chan reply, 1)
	go func() { late <- b.navigate("/order/slow") }() // no cookie yet
	receive(t, reached)
	browser := jar{}
	browser.keep(b.navigate("/order")) // no cookie yet either: admitted as somebody else
	browser.keep(b.navigate("/order", browser.line()))
	answer()
	last := receive(t, late)
	for _, c := range last.Cookies() {
		require.GreaterOrEqual(t, c.MaxAge, 0, "nothing is deleted")
	}
	browser.keep(last)
	b.line.setSlots(0)
	require.Equal(t, 200, b.navigate("/order", browser.line()).StatusCode)
}

func TestLateAnswerInLineDoesNotTouchThePass(t *testing.T) {
	b := newBench(t)
	b.line.setSlots(1)
	browser := jar{}
	browser.keep(b.navigate("/order"))
	browser.keep(b.navigate("/order", browser.line()))
	entry := browser["queuegate_entry_sale"]
	late := b.navigate("/order") // was sent before there was a cookie, and is answered now
	require.Equal(t, 429, late.StatusCode)
	browser.keep(late)
	require.Equal(t, entry, browser["queuegate_entry_sale"])
	require.Equal(t, 200, b.navigate("/order", browser.line()).StatusCode)
}

// The late answer carries a pass of its own that was given back meanwhile.
func TestLateAnswerHandsOutNoPassThatHasEnded(t *testing.T) {
	b := newBench(t)
	b.line.setSlots(2)
	reached, answer := slowShop(b)
	first := b.navigate("/order").cookie("queuegate_entry_sale").Value
	late := make(chan reply, 1)
	go func() { late <- b.navigate("/order/slow", "Cookie: queuegate_entry_sale="+first) }() // claims: the answer has a new token
	receive(t, reached)
	browser := jar{"queuegate_entry_sale": first}
	browser.keep(b.call("POST", "/_queue/sale/release", "", browser.line()))
	require.Empty(t, browser)
	browser.keep(b.navigate("/order"))
	good := browser["queuegate_entry_sale"]
	require.NotEmpty(t, good)
	answer()
	last := receive(t, late)
	require.Equal(t, 200, last.StatusCode)
	require.Equal(t, []string{"s=1"}, last.Header.Values("Set-Cookie"), "the shop's own and nothing else")
	require.Empty(t, last.Header.Get("X-Entry-Token"))
	browser.keep(last)
	require.Equal(t, good, browser["queuegate_entry_sale"])
	require.Equal(t, 200, b.navigate("/order", browser.line()).StatusCode)
}

// Nor the ticket that came with it, of a stay that somebody has ended.
func TestLateAnswerHandsOutNoTicketOfAStayThatHasEnded(t *testing.T) {
	b := newBench(t)
	reached, answer := slowShop(b)
	late := make(chan reply, 1)
	go func() { late <- b.navigate("/order/slow") }()
	receive(t, reached)
	b.line.change(func() {
		for visitor, s := range b.line.stays {
			b.line.ended[key(visitor, s.place)] = queue.Released
		}
	})
	answer()
	last := receive(t, late)
	require.Equal(t, []string{"s=1"}, last.Header.Values("Set-Cookie"))
	require.Empty(t, last.Header.Get("X-Queue-Ticket"))
	require.Empty(t, last.Header.Get("X-Entry-Token"))
}

func TestShopThatSetsACookieOfOurNameIsToldOnce(t *testing.T) {
	b := newBench(t)
	b.shop.says("HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: queuegate_entry_sale=mine\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n")
	for range 3 {
		got := b.do("GET", "/x?secret=1", "")
		require.Equal(t, []string{"a=1", "b=2"}, got.Header.Values("Set-Cookie"))
	}
	require.Equal(t, 1, strings.Count(b.log.String(), "the shop sets a cookie whose name begins like the gate's own"))
	require.NotContains(t, b.log.String(), "secret=1")
	require.NotContains(t, b.log.String(), "=mine")
}

// The way back from a payment page is a navigation that another site begins; Lax
// cookies come with it, so the pass must open.
func TestWayBackFromAPaymentPageIsOpenToThePass(t *testing.T) {
	b := newBench(t)
	first := b.navigate("/order")
	require.Equal(t, http.SameSiteLaxMode, first.cookie("queuegate_entry_sale").SameSite)
	raw := b.admitted(first)
	b.fill()
	for _, site := range []string{"cross-site", "same-site", "none"} {
		got := b.navigate("/order/return?status=ok", "Cookie: queuegate_entry_sale="+raw, "Sec-Fetch-Site: "+site,
			"Referer: https://pay.example/", "Origin: https://pay.example")
		require.Equal(t, 200, got.StatusCode, site)
		require.Equal(t, "/order/return?status=ok", b.shop.last().target())
	}
	// A provider that posts back brings no Lax cookie. It is told so and not let in;
	// such a route belongs into exempt.
	posted := b.do("POST", "/order/return", "paid=1", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: cross-site", "Origin: https://pay.example")
	require.Equal(t, 429, posted.StatusCode)
	require.Equal(t, 200, b.do("POST", "/order/callback", "paid=1", "Origin: https://pay.example").StatusCode)
}

// admitted takes up the pass of an answer.
func (b *bench) admitted(first reply) string {
	b.t.Helper()
	got := b.navigate("/order", "Cookie: queuegate_entry_sale="+first.cookie("queuegate_entry_sale").Value)
	require.Equal(b.t, 200, got.StatusCode)
	return got.cookie("queuegate_entry_sale").Value
}

func TestBrowserWithoutCookiesIsToldAndNeverRedirected(t *testing.T) {
	b := newBench(t)
	b.fill()
	for n := range 5 {
		got := b.navigate("/order")
		require.Equal(t, 429, got.StatusCode)
		require.Empty(t, got.Header.Get("Location"))
		require.Contains(t, got.text, `data-when="cookieless"`, "the page says that cookies are needed when they do not come back")
		require.EqualValues(t, n+1, b.line.seq, "one place for each load and no more")
	}
}

func TestTicketCookieOutlivesASilence(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].WaitingTimeout = 10 * time.Minute })
	b.fill()
	c := b.navigate("/order").cookie("queuegate_ticket_sale")
	require.GreaterOrEqual(t, c.MaxAge, int((10*time.Minute + time.Minute).Seconds()), "closing the browser for a minute costs nothing")
}

func TestCookiesAndAddedHeadersAreSmall(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].Cookie.Secure = proxy.SecureAlways })
	got := b.navigate("/order")
	require.Less(t, len(got.Header.Get("Set-Cookie")), 1024)
	b.fill()
	got = b.navigate("/order")
	require.Less(t, len(got.Header.Get("Set-Cookie")), 1024)
	var added int
	for _, line := range b.shop.last().lines {
		if name := strings.ToLower(line); strings.HasPrefix(name, "x-queuegate-") || strings.HasPrefix(name, "x-forwarded-") {
			added += len(line) + 2
		}
	}
	require.Positive(t, added)
	require.Less(t, added, 512)
}
