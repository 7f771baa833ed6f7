package proxy_test

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

const (
	alice   = "X-Member-Id: alice"
	bob     = "X-Member-Id: bob"
	shopKey = "the shop signs with this secret!!"
)

// members are named by a header of a trusted proxy, which the test is.
func members(o *proxy.Options) {
	trustLoopback(o)
	o.Rooms[0].Identity.Header = "X-Member-Id"
}

// memberTokens are named by a token of the shop.
func memberTokens(t *testing.T, cookie, header string) func(*proxy.Options) {
	t.Helper()
	id, err := token.NewIdentity(token.IdentityOptions{Claim: "uid", Issuer: "shop", Secrets: [][]byte{[]byte(shopKey)}})
	require.NoError(t, err)
	return func(o *proxy.Options) {
		o.Rooms[0].Identity = proxy.Identity{Token: id, Cookie: cookie, TokenHeader: header}
	}
}

func shopToken(t *testing.T, key, issuer, uid string, exp time.Time) string {
	t.Helper()
	raw, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": issuer, "uid": uid, "exp": exp.Unix()}).SignedString([]byte(key))
	require.NoError(t, err)
	return raw
}

// waits joins and returns the ticket of somebody who has to wait.
func (b *bench) waits(position int, lines ...string) string {
	b.t.Helper()
	d := b.call("POST", "/_queue/sale/join", "", lines...).doc(b.t)
	require.Equal(b.t, "waiting", d["status"])
	require.EqualValues(b.t, position, d["position"])
	return d["ticket"].(string)
}

// polls asks for the status and returns the answer.
func (b *bench) polls(lines ...string) map[string]any {
	b.t.Helper()
	got := b.call("GET", "/_queue/sale/status", "", lines...)
	require.Equal(b.t, 200, got.StatusCode, got.text)
	return got.doc(b.t)
}

func (b *bench) open(ticket string) token.Ticket {
	b.t.Helper()
	opened, err := b.tickets.Open("sale", ticket)
	require.NoError(b.t, err)
	return opened
}

func with(ticket string) string { return "X-Queue-Ticket: " + ticket }

func TestTenBrowsersOfOneMemberHaveOnePlace(t *testing.T) {
	b := newBench(t, members)
	b.fill()
	answers := make(chan reply, 10)
	for range 10 {
		go func() { answers <- b.call("POST", "/_queue/sale/join", "", alice) }()
	}
	visitors := map[string]bool{}
	for range 10 {
		d := receive(t, answers).doc(t)
		require.EqualValues(t, 1, d["position"])
		opened := b.open(d["ticket"].(string))
		require.True(t, opened.Named)
		visitors[opened.Visitor] = true
	}
	require.Len(t, visitors, 1)
	require.EqualValues(t, 1, b.line.seq)
	b.waits(2, bob)
	require.Equal(t, 429, b.navigate("/order", alice).StatusCode)
	require.EqualValues(t, 2, b.line.seq, "a page of the shop finds the same place")

	other := token.VisitorFromKey([]byte(identitySecret), "drop", "header", "alice")
	require.NotContains(t, visitors, other, "another room, another visitor")
}

func TestWithoutANameEveryBrowserHasAPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*proxy.Options)
		lines  []string
	}{
		"none said":          {members, nil},
		"an empty one":       {members, []string{"X-Member-Id:"}},
		"two of them":        {members, []string{alice, bob}},
		"twice the same":     {members, []string{alice, alice}},
		"one with a space":   {members, []string{"X-Member-Id: alice b"}},
		"one beyond ASCII":   {members, []string{"X-Member-Id: al\xc3\xafce"}},
		"one too long":       {members, []string{"X-Member-Id: " + strings.Repeat("a", 257)}},
		"another spelling":   {members, []string{"X_Member_Id: alice"}},
		"from a stranger":    {func(o *proxy.Options) { members(o); o.TrustedProxies[0] = netip.MustParsePrefix("192.0.2.0/24") }, []string{alice}},
		"nobody looks at it": {trustLoopback, []string{alice}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.change)
			b.fill()
			require.False(t, b.open(b.waits(1, tt.lines...)).Named)
			b.waits(2, tt.lines...)
			require.NotContains(t, b.line.take(), "move")
		})
	}
}

func TestAMemberIsNamedByATokenOfTheShop(t *testing.T) {
	good := shopToken(t, shopKey, "shop", "alice", time.Now().Add(time.Hour))
	for name, tt := range map[string]struct {
		change func(*proxy.Options)
		line   string
	}{
		"in a cookie":            {memberTokens(t, "member", ""), "Cookie: a=b; member=" + good},
		"beside a bad twin":      {memberTokens(t, "member", ""), "Cookie: member=x; member=" + good},
		"in Authorization":       {memberTokens(t, "", "authorization"), "Authorization: bearer " + good},
		"in a header of its own": {memberTokens(t, "member", "X-Shop-Token"), "X-Shop-Token: " + good},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tt.change)
			b.fill()
			require.True(t, b.open(b.waits(1, tt.line)).Named)
			b.waits(1, tt.line)
			require.EqualValues(t, 1, b.line.seq)
		})
	}
}

func TestATokenThatCannotBeVerifiedNamesNobodyAndIsNoError(t *testing.T) {
	later := time.Now().Add(time.Hour)
	parts := strings.Split(shopToken(t, shopKey, "shop", "alice", later), ".")
	payload := base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf(`{"iss":"shop","uid":"bob","exp":%d}`, later.Unix())))
	for name, raw := range map[string]string{
		"none":           "",
		"no token":       "alice",
		"forged":         shopToken(t, secret, "shop", "alice", later),
		"changed":        parts[0] + "." + payload + "." + parts[2],
		"unsigned":       base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + payload + ".",
		"expired":        shopToken(t, shopKey, "shop", "alice", time.Now().Add(-time.Second)),
		"another issuer": shopToken(t, shopKey, "stage", "alice", later),
		"without a name": shopToken(t, shopKey, "shop", "", later),
		"over 8 KiB":     shopToken(t, shopKey, "shop", strings.Repeat("a", 8<<10), later),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, memberTokens(t, "member", "Authorization"))
			b.fill()
			require.False(t, b.open(b.waits(1, "Cookie: member="+raw)).Named)
			b.waits(2, "Authorization: Bearer "+raw)
			require.Equal(t, 429, b.navigate("/order", "Cookie: member="+raw).StatusCode)
			require.EqualValues(t, 3, b.line.seq)
		})
	}
	b := newBench(t, memberTokens(t, "", "Authorization"))
	b.fill()
	good := shopToken(t, shopKey, "shop", "alice", later)
	require.False(t, b.open(b.waits(1, "Authorization: Basic "+good)).Named)
	require.False(t, b.open(b.waits(2, "Authorization: "+good)).Named)
	require.False(t, b.open(b.waits(3, "Cookie: member="+good)).Named, "no cookie is looked at")
}

func TestAPlaceTakenWithoutANameMovesToThePersonOnce(t *testing.T) {
	b := newBench(t, members)
	b.fill()
	anonymous := b.waits(1)
	b.waits(2)
	b.line.take()

	d := b.polls(alice, with(anonymous))
	require.Equal(t, []string{"move", "touch"}, b.line.take())
	require.EqualValues(t, 1, d["position"], "the place is the same")
	mine := d["ticket"].(string)
	require.True(t, b.open(mine).Named)
	require.Equal(t, b.open(anonymous).Place, b.open(mine).Place)
	require.NotEqual(t, b.open(anonymous).Visitor, b.open(mine).Visitor)

	require.EqualValues(t, 1, b.polls(alice, with(mine))["position"])
	require.Equal(t, []string{"touch"}, b.line.take(), "from now on as with any ticket")
	require.Equal(t, "expired", b.polls(with(anonymous))["status"], "the old ticket is void")
	require.EqualValues(t, 3, b.polls(bob, with(b.waits(3)))["position"])
	require.Equal(t, "not_entered", b.polls("X-Member-Id: carol")["status"])
	require.Equal(t, "expired", b.polls("X-Member-Id: carol", with(anonymous))["status"], "a moved place moves to nobody else")
	require.EqualValues(t, 1, b.polls(alice, with(anonymous))["position"], "shown again by its owner it leads to the place")
	require.EqualValues(t, 3, b.line.seq)
}

func TestOfTwoPlacesOfOnePersonTheEarlierStays(t *testing.T) {
	for name, named := range map[string]int{"the named one is earlier": 0, "the named one is later": 1} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, members)
			b.fill()
			lines := [][]string{nil, nil}
			lines[named] = []string{alice}
			tickets := []string{b.waits(1, lines[0]...), b.waits(2, lines[1]...)}
			b.waits(3)
			d := b.polls(alice, with(tickets[1-named]))
			require.EqualValues(t, 1, d["position"])
			require.EqualValues(t, 2, d["waiting"], "the other place is given up")
			require.Equal(t, b.open(tickets[0]).Place, b.open(d["ticket"].(string)).Place)
			require.Equal(t, b.open(tickets[named]).Visitor, b.open(d["ticket"].(string)).Visitor)
		})
	}
}

func TestInASharedBrowserThePlaceStaysWithItsOwner(t *testing.T) {
	b := newBench(t, members)
	b.fill()
	of := b.waits(1, alice)
	b.waits(2)
	b.line.take()

	// Alice has logged out and bob has logged in; the cookie is still hers.
	page := b.navigate("/order", bob, "Cookie: queuegate_ticket_sale="+of)
	require.Equal(t, 429, page.StatusCode)
	require.Contains(t, page.text, `<strong id="position">3</strong>`)
	his := page.cookie("queuegate_ticket_sale")
	require.NotNil(t, his, "his ticket takes the place of hers in the browser")
	require.Equal(t, []string{"move", "join"}, b.line.take(), "no sign of life of hers")
	require.NotEqual(t, b.open(of).Visitor, b.open(his.Value).Visitor)
	require.Greater(t, b.open(his.Value).Place, b.open(of).Place)

	left := b.call("DELETE", "/_queue/sale", "", bob, with(of))
	require.Equal(t, 200, left.StatusCode)
	require.EqualValues(t, 1, b.polls(alice)["position"], "nor can he leave for her")
	require.Equal(t, "not_entered", b.polls(bob)["status"])
	require.Equal(t, "left", b.polls(bob, with(his.Value))["status"])
}

func TestAPersonWhoHasLostTheTicketIsBroughtIn(t *testing.T) {
	b := newBench(t, members)
	require.Equal(t, "not_entered", b.polls(alice)["status"], "asking gives no place")
	require.Zero(t, b.line.seq)
	b.fill()
	b.waits(1, alice)
	b.waits(2)
	b.line.take()
	d := b.polls(alice)
	require.Equal(t, []string{"move", "touch"}, b.line.take())
	require.EqualValues(t, 1, d["position"])
	require.True(t, b.open(d["ticket"].(string)).Named)

	b.line.setSlots(1)
	got := b.navigate("/order", alice)
	require.Equal(t, 200, got.StatusCode, "it is their turn, and the shop answers at once")
	require.NotNil(t, got.cookie("queuegate_entry_sale"))
	second := b.navigate("/order", alice)
	require.Equal(t, 200, second.StatusCode)
	one, err := b.passes.Verify(got.cookie("queuegate_entry_sale").Value, "sale")
	require.NoError(t, err)
	two, err := b.passes.Verify(second.cookie("queuegate_entry_sale").Value, "sale")
	require.NoError(t, err)
	require.Equal(t, one.Admission, two.Admission, "one person, one slot, in all browsers")
	require.Equal(t, "active", b.polls(alice)["status"])
}

// The shop's session may end while its holder waits: the ticket alone keeps the
// place, and it stays theirs.
func TestAPlaceOutlivesTheProofOfTheName(t *testing.T) {
	b := newBench(t, members)
	b.fill()
	of := b.waits(1, alice)
	d := b.polls(with(of))
	require.EqualValues(t, 1, d["position"])
	require.True(t, b.open(d["ticket"].(string)).Named)
	b.waits(2, bob, with(d["ticket"].(string)))

	require.Equal(t, "left", b.call("DELETE", "/_queue/sale", "", with(of)).doc(t)["status"])
	again := b.open(b.waits(2, with(of)))
	require.False(t, again.Named)
	require.NotEqual(t, b.open(of).Visitor, again.Visitor, "who proves no name gets a place without one")
}

func TestANameGoesBeforeAnIdempotencyKey(t *testing.T) {
	b := newBench(t, members)
	b.fill()
	b.waits(1, alice, "Idempotency-Key: 0123456789abcdef")
	b.waits(1, alice, "Idempotency-Key: 0123456789abcdeg")
	b.waits(2, bob, "Idempotency-Key: 0123456789abcdef")
	require.EqualValues(t, 2, b.line.seq)
}

func TestLeavingEndsThePlaceOfAPersonWhateverTheBrowserBrings(t *testing.T) {
	b := newBench(t, members)
	b.fill()
	of := b.waits(1, alice)
	anonymous := b.waits(2)
	require.Equal(t, "left", b.call("DELETE", "/_queue/sale", "", alice, with(anonymous)).doc(t)["status"])
	require.Equal(t, "left", b.polls(with(anonymous))["status"])
	require.Equal(t, queue.State(""), func() queue.State {
		b.line.mu.Lock()
		defer b.line.mu.Unlock()
		return b.line.standing(b.open(of).Visitor).State
	}())
	b.waits(1, bob)
	require.EqualValues(t, 3, b.line.seq)
}

func TestAPassIsGoodForWhoeverHoldsItAndItsPlaceForNobodyElse(t *testing.T) {
	b := newBench(t, members)
	raw := b.admit()
	p, err := b.passes.Verify(raw, "sale")
	require.NoError(t, err)
	holder, pass := p.Visitor, "X-Entry-Token: "+raw
	require.Equal(t, 200, b.call("GET", "/order", "", pass, alice).StatusCode)
	require.Empty(t, b.line.take()[2:], "a running pass needs no Redis")

	b.line.advance(time.Hour) // and its lease is given on
	b.line.giveOn()
	b.fill()
	got := b.call("GET", "/order", "", pass, alice)
	require.Equal(t, 429, got.StatusCode)
	require.Equal(t, []string{"claim", "move", "join"}, b.line.take(), "no sign of life of the pass's holder")
	require.True(t, b.open(got.doc(t)["ticket"].(string)).Named)

	// Without a name it proves no more.
	anonymous := b.open(b.call("GET", "/order", "", pass).doc(t)["ticket"].(string))
	require.False(t, anonymous.Named)
	require.NotEqual(t, holder, anonymous.Visitor)
}

func TestAPersonsPollsWithoutATicketAreCountedToo(t *testing.T) {
	now := time.Now() // stands still: on a slow machine polls come back as fast as they are spent
	b := newBench(t, members, func(o *proxy.Options) { o.Now = func() time.Time { return now } })
	b.fill()
	b.waits(1, alice)
	var slowed reply
	for range 25 {
		if slowed = b.call("GET", "/_queue/sale/status", "", alice); slowed.StatusCode == 429 {
			break
		}
	}
	require.Equal(t, 429, slowed.StatusCode)
	require.EqualValues(t, 1, slowed.doc(t)["position"], "the last answer is given again")
	require.Equal(t, 200, b.call("GET", "/_queue/sale/status", "", bob).StatusCode)
}

func TestAMoveThatRedisDidNotAnswerIsMadeLater(t *testing.T) {
	b := newBench(t, members)
	b.fill()
	anonymous := b.waits(1)
	b.line.lose()
	d := b.polls(alice, with(anonymous))
	require.Equal(t, "degraded", d["room_state"])
	require.Equal(t, anonymous, d["ticket"])
	require.Equal(t, 503, b.call("POST", "/_queue/sale/join", "", alice).StatusCode)
	b.line.heal()
	require.EqualValues(t, 1, b.polls(alice, with(anonymous))["position"])
	require.EqualValues(t, 1, b.line.seq)
}

func TestAnIdentityThatCannotWorkIsRefused(t *testing.T) {
	for want, change := range map[string]func(*proxy.Options){
		"Identity.Header needs TrustedProxies":                  func(o *proxy.Options) { o.Rooms[0].Identity.Header = "X-Member-Id" },
		"where it is found, need each other":                    func(o *proxy.Options) { o.Rooms[0].Identity.Cookie = "member" },
		"Identity.Token and Cookie or TokenHeader, where it is": memberTokens(t, "", ""),
	} {
		o := proxy.Options{Rooms: []proxy.Room{{Name: "sale"}}}
		change(&o)
		_, err := proxy.New(o)
		require.ErrorContains(t, err, want)
	}
}
