package proxy_test

import (
	"crypto/ed25519"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/token"
)

func TestPublicKeysArePublishedForABoundedTime(t *testing.T) {
	passes, err := token.New(token.Options{
		Issuer: "test", PrivateKey: ed25519.NewKeyFromSeed([]byte(secret)), Previous: [][]byte{[]byte(identitySecret)},
	})
	require.NoError(t, err)
	b := newBench(t, func(o *proxy.Options) { o.Passes = passes })
	got := b.do("GET", "/_queue/jwks.json", "", "Cookie: queuegate_ticket_sale=x", "Origin: https://other.example")
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "application/jwk-set+json", got.Header.Get("Content-Type"))
	require.Equal(t, "public, max-age=300", got.Header.Get("Cache-Control"))
	require.Empty(t, got.Header.Get("Vary"))
	require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
	require.Empty(t, got.Header.Values("Set-Cookie"))
	for name := range got.Header {
		require.NotContains(t, name, "Access-Control", "it says nothing of other origins")
	}
	var set struct{ Keys []map[string]string }
	require.NoError(t, json.Unmarshal([]byte(got.text), &set))
	require.Len(t, set.Keys, 1, "a secret is never published")
	require.Equal(t, "EdDSA", set.Keys[0]["alg"])
	require.Equal(t, "sig", set.Keys[0]["use"])
	require.NotEmpty(t, set.Keys[0]["kid"])
	require.NotContains(t, set.Keys[0], "d")

	keys, err := token.ParseJWKS([]byte(got.text))
	require.NoError(t, err)
	verifier, err := token.NewVerifier(token.VerifierOptions{Issuer: "test", PublicKeys: keys})
	require.NoError(t, err)
	raw := b.call("GET", "/order", "").Header.Get("X-Entry-Token")
	_, err = verifier.VerifyAt(raw, "sale", time.Now())
	require.NoError(t, err)
	require.Equal(t, 405, b.do("POST", "/_queue/jwks.json", "").StatusCode)
	require.Equal(t, 404, b.do("GET", "/_queue/jwks.json/", "").StatusCode)
	for _, r := range b.shop.requests() {
		require.NotContains(t, r.line, "_queue")
	}
}

func TestWithoutAPublicKeyThereIsNothingToPublish(t *testing.T) {
	b := newBench(t)
	got := b.do("GET", "/_queue/jwks.json", "")
	require.Equal(t, 404, got.StatusCode)
	require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
	require.Empty(t, b.shop.requests())
}

// A pass in a URL would be shared, logged and bookmarked.
func TestCredentialsInTheURLAreNobodys(t *testing.T) {
	b := newBench(t)
	raw := b.admit()
	b.fill()
	ticket := b.call("GET", "/order", "").doc(t)["ticket"].(string)
	before, seq := len(b.shop.requests()), b.line.seq
	for _, target := range []string{
		"/order?X-Entry-Token=" + raw, "/order?entry_token=" + raw, "/order?token=" + raw, "/order?queuegate_entry_sale=" + raw,
		"/order/" + raw, "/order;queuegate_entry_sale=" + raw,
	} {
		got := b.call("POST", target, "{}")
		require.Equal(t, 429, got.StatusCode, target)
		require.Empty(t, got.Header.Get("Location"))
	}
	require.Len(t, b.shop.requests(), before)
	for _, query := range []string{"ticket=" + ticket, "X-Queue-Ticket=" + ticket, "queuegate_ticket_sale=" + ticket} {
		require.Equal(t, "not_entered", b.call("GET", "/_queue/sale/status?"+query, "").doc(t)["status"])
	}
	require.Greater(t, b.line.seq, seq, "who is sent on gets a place of their own")
}

func TestNoAnswerOrLogShowsACredentialInAURL(t *testing.T) {
	b := newBench(t)
	b.fill()
	page := b.navigate("/order?a=1")
	ticket := page.cookie("queuegate_ticket_sale").Value
	b.line.setSlots(1)
	entered := b.navigate("/order?a=1", "Cookie: queuegate_ticket_sale="+ticket)
	raw := entered.cookie("queuegate_entry_sale").Value
	on := b.navigate("/_queue/sale?return=%2Forder", "Cookie: queuegate_entry_sale="+raw)
	require.Equal(t, 303, on.StatusCode)
	require.Equal(t, "/order", on.Header.Get("Location"))
	require.Equal(t, "same-origin", page.Header.Get("Referrer-Policy"))
	for _, r := range b.shop.requests() {
		require.NotContains(t, strings.Join(append(r.lines, r.line), "\n"), ticket)
		require.NotContains(t, strings.Join(append(r.lines, r.line), "\n"), raw)
	}
	for _, secret := range []string{ticket, raw} {
		require.NotContains(t, b.log.String(), secret)
		require.NotContains(t, page.text, secret, "the page's source is copied and saved")
	}
}

func TestPlaceAndPassAreBoundToNoAddressAndNoBrowser(t *testing.T) {
	b := newBench(t, trustLoopback)
	b.fill()
	from := func(address, agent string) []string {
		return []string{"X-Forwarded-For: " + address, "User-Agent: " + agent}
	}
	ticket := b.call("GET", "/order", "", from("10.0.0.1", "x")...).doc(t)["ticket"].(string)
	got := b.call("GET", "/_queue/sale/status", "", append(from("2001:db8::1", "y"), "X-Queue-Ticket: "+ticket)...)
	require.EqualValues(t, 1, got.doc(t)["position"])
	b.line.setSlots(1)
	raw := b.call("GET", "/_queue/sale/status", "", append(from("192.0.2.1", "z"), "X-Queue-Ticket: "+ticket)...).doc(t)["entry_token"].(string)
	require.Equal(t, 200, b.call("POST", "/order", "{}", append(from("203.0.113.9", "w"), "X-Entry-Token: "+raw)...).StatusCode)
}

// However many hands hold a pass, it is one slot.
func TestSharedPassIsOneSlot(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].MaxInFlight = 100 })
	raw := b.admit()
	done := make(chan int, 50)
	for range 50 {
		go func() { done <- b.call("POST", "/order", "{}", "X-Entry-Token: "+raw).StatusCode }()
	}
	for range 50 {
		require.Equal(t, 200, receive(t, done))
	}
	admissions := map[string]bool{}
	for _, r := range b.shop.requests() {
		admissions[strings.Join(r.header["X-Queuegate-Admission"], ",")] = true
	}
	require.Len(t, admissions, 1)
	b.line.change(func() { require.Equal(t, 1, b.line.holding()) })
}

// The gate's clock may be off by minutes: passes are judged by room time.
func TestClockOfTheGateMovesNoPass(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, -30 * time.Second, -20 * time.Second, 20 * time.Second, 30 * time.Second, time.Hour} {
		b := newBench(t, func(o *proxy.Options) { o.Now = func() time.Time { return time.Now().Add(skew) } })
		raw := b.admit()
		p, err := b.passes.Verify(raw, "sale")
		require.NoError(t, err)
		require.WithinDuration(t, b.line.now, p.IssuedAt, time.Second, "signed by Redis TIME")
		require.Equal(t, b.line.now.Add(b.line.session).UnixMilli(), p.End)
		require.True(t, p.Expires.Before(b.line.now.Add(b.line.session)), "exp lies before the end of the lease")
		b.fill()
		require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+raw).StatusCode, skew)
		b.line.advance(b.line.session)
		b.line.giveOn()
		require.Equal(t, 429, b.call("GET", "/order", "", "X-Entry-Token: "+raw).StatusCode, skew)
	}
}

// What a client writes never becomes part of a key: names of visitors have one form,
// rooms come from the configuration.
func TestNothingAClientWritesReachesTheLineUnchecked(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) {
		trustLoopback(o)
		o.Rooms[0].Identity.Header = "X-Member"
	})
	b.fill()
	odd := []string{
		"}", "{", "*", "%00", "a}:slots", "sale}:x", "{checkout}", "\xff\xfe", "a b", "%0d%0aX-Injected:1", "../../x", "' OR 1=1 --",
		"[^a]*", strings.Repeat("A", 10_000), "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
	}
	for _, text := range odd {
		for _, line := range []string{
			"X-Queue-Ticket: " + text, "X-Entry-Token: " + text, "Cookie: queuegate_ticket_sale=" + text,
			"Cookie: queuegate_entry_sale=" + text, "Cookie: queuegate_ticket_" + text + "=x", "X-Queuegate-Visitor: " + text,
			"Idempotency-Key: " + text, "X-Member: " + text, "X-Queuegate-Room: " + text,
		} {
			for _, call := range []string{"POST /order", "POST /_queue/sale/join", "GET /_queue/sale/status", "DELETE /_queue/sale", "POST /_queue/sale/release"} {
				method, target, _ := strings.Cut(call, " ")
				require.Less(t, b.call(method, target, "", line).StatusCode, 500, "%s %.40q", call, line)
			}
		}
		target := "/_queue/" + url.PathEscape(text) + "/status"
		if len(text) > 1000 {
			target = "/_queue/" + text + "/status"
		}
		require.Contains(t, []int{404, 414}, b.call("GET", target, "").StatusCode, "%.40q", text)
	}
	b.line.change(func() {
		require.NotEmpty(t, b.line.stays)
		for visitor := range b.line.stays {
			require.True(t, token.ValidVisitor(visitor), visitor)
			require.NotContains(t, odd, visitor, "nobody chooses who they are")
		}
		for _, h := range b.line.holdings {
			require.True(t, token.ValidVisitor(h.Visitor), h.Visitor)
		}
		for _, s := range b.line.signs {
			require.True(t, token.ValidVisitor(s.Visitor), s.Visitor)
		}
	})
	require.Empty(t, b.shop.requests())
}

// A pass that was remembered as good is judged by the ended log and by its end at
// every request.
func TestRememberedPassIsJudgedAnewEachTime(t *testing.T) {
	b := newBench(t)
	raw := b.admit()
	use := func() int { return b.call("GET", "/order", "", "X-Entry-Token: "+raw).StatusCode }
	for range 3 {
		require.Equal(t, 200, use())
	}
	p, err := b.passes.Verify(raw, "sale")
	require.NoError(t, err)
	b.fill()
	b.line.change(func() { b.line.ended[key(p.Visitor, p.Place)] = "consumed" })
	require.Equal(t, 429, use())
	b.line.change(func() { delete(b.line.ended, key(p.Visitor, p.Place)) })
	require.Equal(t, 200, use())
	b.line.change(func() { b.line.generation = p.Generation + 1 })
	require.Equal(t, 429, use(), "the room was reset")
	b.line.change(func() { b.line.generation = p.Generation })
	b.line.advance(b.line.session)
	b.line.giveOn()
	require.Equal(t, 429, use(), "its end has come")
}
