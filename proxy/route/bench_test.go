package route_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"github.com/queuegate/queuegate/proxy/route"
	"github.com/stretchr/testify/require"
)

// browser is a request with the headers a browser behind a proxy brings.
func browser(method, target string) *http.Request {
	r := request(method + " " + target)
	for _, name := range []string{
		"Accept", "Accept-Language", "Cookie", "Referer", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "User-Agent", "X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id",
	} {
		r.Header.Set(name, "value")
	}
	return r
}

func crowdedTable(t testing.TB) *route.Table {
	t.Helper()
	rooms := []route.Room{{
		Name: "sale", Protect: paths("/order", "/주문"), DefaultExempt: true,
		Exempt: []route.Rule{{Paths: []string{"/order/hook"}, Methods: []string{"POST"}}},
	}}
	for i := range 20 {
		rooms = append(rooms, route.Room{Name: fmt.Sprint("room", i), Protect: paths(fmt.Sprint("/event", i), fmt.Sprint("/event", i, "/vip"))})
	}
	return table(t, rooms...)
}

var commonTargets = []struct{ name, target string }{
	{"open", "/static/app.css?v=1"},
	{"protected", "/order/1234"},
	{"upper case", "/ORDER/1234"},
}

func TestCommonTargetsAllocateOnlyTheirReadings(t *testing.T) {
	tab := crowdedTable(t)
	for _, c := range commonTargets {
		t.Run(c.name, func(t *testing.T) {
			r := browser("GET", c.target)
			client := netip.MustParseAddr("192.0.2.1")
			allocs := testing.AllocsPerRun(100, func() {
				target, _ := route.Parse(r)
				tab.Match(r, target, client)
			})
			require.LessOrEqual(t, allocs, 1.0)
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	tab := crowdedTable(b)
	client := netip.MustParseAddr("192.0.2.1")
	targets := append(commonTargets[:len(commonTargets):len(commonTargets)],
		struct{ name, target string }{"encoded Korean", "/%EC%A3%BC%EB%AC%B8/1"},
		struct{ name, target string }{"encoded slash and dots", "/static/%2e%2e%2forder;x=1"},
		struct{ name, target string }{"worst", hostile()},
	)
	for _, c := range targets {
		b.Run(c.name, func(b *testing.B) {
			r := browser("GET", c.target)
			b.ReportAllocs()
			for b.Loop() {
				target, _ := route.Parse(r)
				tab.Match(r, target, client)
			}
		})
	}
}

// hostile is a target of nearly 8 KiB that needs every step again and again.
func hostile() string {
	s := "/"
	for len(s) < 8000 {
		s += "a.%20;x%252f..%2f%5c.%3b/"
	}
	return s
}
