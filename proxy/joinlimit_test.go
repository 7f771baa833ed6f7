package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

// movedClock is a wall clock that a test moves.
type movedClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *movedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *movedClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// limited is a gate behind a trusted proxy that gives each address three places.
func limited(t *testing.T, change ...func(*proxy.Options)) (*bench, *movedClock) {
	clock := &movedClock{now: time.Now()}
	b := newBench(t, append([]func(*proxy.Options){trustLoopback, func(o *proxy.Options) {
		o.JoinLimit, o.Now = proxy.JoinLimit{PerMinute: 3}, clock.Now
	}}, change...)...)
	b.fill()
	return b, clock
}

func from(address string) string { return "X-Forwarded-For: " + address }

func TestAddressGetsSoManyNewPlacesAndThenOneAfterTheOther(t *testing.T) {
	b, clock := limited(t)
	join := func(address string) int {
		return b.call("POST", "/_queue/sale/join", "", from(address)).StatusCode
	}
	for range 3 {
		require.Equal(t, 200, join("192.0.2.1"))
	}
	b.line.take()
	refused := b.call("POST", "/_queue/sale/join", "", from("192.0.2.1"))
	require.Equal(t, 429, refused.StatusCode)
	require.Equal(t, "application/problem+json", refused.Header.Get("Content-Type"))
	require.Equal(t, "urn:queuegate:problem:join-limit", refused.doc(t)["type"])
	require.Regexp(t, `^[1-9]\d*$`, refused.Header.Get("Retry-After"))
	require.Empty(t, refused.Header.Values("Set-Cookie"))
	require.Empty(t, b.line.take(), "Redis was asked")

	page := b.navigate("/order?x=1", from("192.0.2.1"))
	require.Equal(t, 429, page.StatusCode)
	require.Equal(t, "text/html; charset=utf-8", page.Header.Get("Content-Type"))
	require.Contains(t, page.text, "from the same network as you")
	require.NotEmpty(t, page.Header.Get("Retry-After"))
	require.Equal(t, 429, b.navigate("/_queue/sale?return=/order", from("192.0.2.1")).StatusCode)
	require.Equal(t, 429, b.call("POST", "/order", "{}", from("192.0.2.1")).StatusCode)
	require.Empty(t, b.line.take())

	require.Equal(t, 200, join("192.0.2.2"), "the neighbour has places of their own")
	clock.advance(20 * time.Second)
	require.Equal(t, 200, join("192.0.2.1"))
	require.Equal(t, 429, join("192.0.2.1"))
	clock.advance(time.Hour)
	for range 3 {
		require.Equal(t, 200, join("192.0.2.1"))
	}
	require.Equal(t, 429, join("192.0.2.1"), "places are not saved up")
}

func TestWhoHasAPlaceIsNeverCounted(t *testing.T) {
	b, _ := limited(t)
	first := b.call("POST", "/_queue/sale/join", "", from("192.0.2.1")).Header.Get("X-Queue-Ticket")
	for range 5 {
		require.Equal(t, 200, b.call("POST", "/_queue/sale/join", "", from("192.0.2.1"), "X-Queue-Ticket: "+first).StatusCode)
		require.Equal(t, 200, b.call("GET", "/_queue/sale/status", "", from("192.0.2.1"), "X-Queue-Ticket: "+first).StatusCode)
		got := b.navigate("/order", from("192.0.2.1"), "Cookie: queuegate_ticket_sale="+first)
		require.Contains(t, got.text, `data-state="waiting"`)
	}
	for range 2 {
		require.Equal(t, 200, b.call("POST", "/_queue/sale/join", "", from("192.0.2.1")).StatusCode, "only one place was counted")
	}
	require.Equal(t, 429, b.call("POST", "/_queue/sale/join", "", from("192.0.2.1")).StatusCode)
	for name, ticket := range map[string]string{"forged": first[:len(first)-3] + "abc", "none": "x"} {
		require.Equal(t, 429, b.call("POST", "/_queue/sale/join", "", from("192.0.2.1"), "X-Queue-Ticket: "+ticket).StatusCode, name)
	}
	require.Equal(t, 200, b.call("GET", "/public", "", from("192.0.2.1")).StatusCode)

	// Who gave the place up has none: a new one is counted, however often that goes on.
	require.Equal(t, 200, b.call("DELETE", "/_queue/sale", "", from("192.0.2.1"), "X-Queue-Ticket: "+first).StatusCode)
	again := b.call("POST", "/_queue/sale/join", "", from("192.0.2.1"), "X-Queue-Ticket: "+first)
	require.Equal(t, 429, again.StatusCode)
	require.Equal(t, "left", b.call("GET", "/_queue/sale/status", "", from("192.0.2.1"), "X-Queue-Ticket: "+first).doc(t)["status"])
}

func TestOneClientIsOneAddressHoweverItIsWritten(t *testing.T) {
	for _, tc := range []struct {
		name  string
		trust bool
		spell func(i int) string
		want  int // of 6 joins
	}{
		{"one IPv4 address", true, func(int) string { return "192.0.2.7" }, 3},
		{"the same mapped into IPv6", true, func(i int) string { return []string{"192.0.2.7", "::ffff:192.0.2.7", "::ffff:c000:207"}[i%3] }, 3},
		{"with a port", true, func(i int) string { return fmt.Sprintf("192.0.2.7:%d", 1000+i) }, 3},
		{"one /64 of IPv6", true, func(i int) string { return fmt.Sprintf("2001:db8:1:2::%x", i) }, 3},
		{"several /64 of IPv6", true, func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) }, 6},
		{"several IPv4 addresses", true, func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }, 6},
		{"whatever stands to the left of the last proxy's word", true, func(i int) string { return fmt.Sprintf("10.9.8.%d, 192.0.2.7", i) }, 3},
		{"addresses that an untrusted peer makes up", false, func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, _ := limited(t, func(o *proxy.Options) {
				if !tc.trust {
					o.TrustedProxies = nil
				}
			})
			served := 0
			for i := range 6 {
				if b.call("POST", "/_queue/sale/join", "", from(tc.spell(i))).StatusCode == http.StatusOK {
					served++
				}
			}
			require.Equal(t, tc.want, served)
		})
	}
}

func TestWithoutALimitAThousandAddressesAreOne(t *testing.T) {
	b := newBench(t)
	b.fill()
	for range 200 {
		require.Equal(t, 200, b.call("POST", "/_queue/sale/join", "").StatusCode)
	}
}

func TestJoinLimitOptionsAreChecked(t *testing.T) {
	_, err := proxy.New(proxy.Options{JoinLimit: proxy.JoinLimit{PerMinute: -1}})
	require.ErrorContains(t, err, "JoinLimit.PerMinute is -1")
	_, err = proxy.New(proxy.Options{JoinLimit: proxy.JoinLimit{IPv4Prefix: 33}})
	require.ErrorContains(t, err, "use 1 to 32 and 1 to 128")
	require.False(t, strings.Contains(err.Error(), "PerMinute"))
}
