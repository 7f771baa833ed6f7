package route_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/proxy/route"
	"github.com/stretchr/testify/require"
)

func TestNewTableRefusesWhatCannotWork(t *testing.T) {
	room := func(r route.Rule) []route.Room { return []route.Room{{Name: "a", Protect: []route.Rule{r}}} }
	exempt := func(r route.Rule) []route.Room {
		return []route.Room{{Name: "a", Protect: paths("/order"), Exempt: []route.Rule{r}}}
	}
	plainOnly := func(path string) string {
		return `rooms[0].protect[0].paths[0]: "` + path + `" can never match: rules match plain paths without query, fragment, ";", "\", "//", dot segments or a blank or dot at the end of a segment`
	}
	tests := []struct {
		name   string
		prefix string
		rooms  []route.Room
		want   string
	}{
		{"a relative path", "/_queue", room(route.Rule{Paths: []string{"order"}}), `rooms[0].protect[0].paths[0]: "order" must start with "/"`},
		{"an empty path", "/_queue", room(route.Rule{Paths: []string{""}}), `rooms[0].protect[0].paths[0]: "" must start with "/"`},
		{"an encoded path", "/_queue", room(route.Rule{Paths: []string{"/%EC%A3%BC"}}), `rooms[0].protect[0].paths[0]: "/%EC%A3%BC" is percent-encoded; write the decoded path`},
		{"a path that is not UTF-8", "/_queue", room(route.Rule{Paths: []string{"/\xc1"}}), `rooms[0].protect[0].paths[0]: "/\xc1" is not UTF-8`},
		{"a path with a query", "/_queue", room(route.Rule{Paths: []string{"/order?x"}}), plainOnly("/order?x")},
		{"a path with a fragment", "/_queue", room(route.Rule{Paths: []string{"/order#x"}}), plainOnly("/order#x")},
		{"a path with a parameter", "/_queue", room(route.Rule{Paths: []string{"/order;x"}}), plainOnly("/order;x")},
		{"a path with a doubled slash", "/_queue", room(route.Rule{Paths: []string{"/a//b"}}), plainOnly("/a//b")},
		{"a path of two slashes", "/_queue", room(route.Rule{Paths: []string{"//"}}), plainOnly("//")},
		{"a path with dots", "/_queue", room(route.Rule{Paths: []string{"/a/../b"}}), plainOnly("/a/../b")},
		{"a path with a dot at the end", "/_queue", room(route.Rule{Paths: []string{"/order."}}), plainOnly("/order.")},
		{"a path with a blank", "/_queue", room(route.Rule{Paths: []string{"/order "}}), plainOnly("/order ")},
		{"a star in a word", "/_queue", room(route.Rule{Paths: []string{"/order*"}}), `rooms[0].protect[0].paths[0]: "/order*": "*" stands for one whole segment only`},
		{"a star at the end", "/_queue", room(route.Rule{Paths: []string{"/order/*"}}), `rooms[0].protect[0].paths[0]: "/order/*": a path covers everything below it already; leave out the "*" at its end`},
		{"a protect rule without paths", "/_queue", room(route.Rule{Methods: []string{"GET"}}), `rooms[0].protect[0].paths: is empty; write "/" to protect the whole host`},
		{"a protect rule with cidrs", "/_queue", room(route.Rule{Paths: []string{"/"}, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}), `rooms[0].protect[0].cidrs: has no place in a protect rule; exempt the addresses that need not wait`},
		{"a method in small letters", "/_queue", room(route.Rule{Paths: []string{"/"}, Methods: []string{"post"}}), `rooms[0].protect[0].methods[0]: "post" is not a method in upper case such as POST`},
		{"an empty method", "/_queue", room(route.Rule{Paths: []string{"/"}, Methods: []string{""}}), `rooms[0].protect[0].methods[0]: "" is not a method in upper case such as POST`},
		{"a host with a scheme", "/_queue", room(route.Rule{Paths: []string{"/"}, Hosts: []string{"http://shop.test"}}), `rooms[0].protect[0].hosts[0]: "http://shop.test" is not a host; write exact names such as shop.example`},
		{"a host with a star", "/_queue", room(route.Rule{Paths: []string{"/"}, Hosts: []string{"*.shop.test"}}), `rooms[0].protect[0].hosts[0]: "*.shop.test" is not a host; write exact names such as shop.example`},
		{"an empty host", "/_queue", room(route.Rule{Paths: []string{"/"}, Hosts: []string{""}}), `rooms[0].protect[0].hosts[0]: "" is not a host; write exact names such as shop.example`},
		{"a room without protect rules", "/_queue", []route.Room{{Name: "a"}}, `rooms[0].protect: is empty: the room would never be used`},
		{"a room without a name", "/_queue", []route.Room{{Protect: paths("/")}}, `rooms[0].name: is empty`},
		{"two rooms of one name", "/_queue", []route.Room{{Name: "a", Protect: paths("/x")}, {Name: "a", Protect: paths("/y")}}, `rooms[1].name: "a" is already the name of rooms[0]`},
		{"two rooms for one path", "/_queue", []route.Room{{Name: "a", Protect: paths("/x")}, {Name: "b", Protect: paths("/y", "/X/")}}, `rooms[1].protect[0].paths[1]: "/X/" is already protected by rooms[0].protect[0].paths[0] of another room`},
		{"an exempt rule that says nothing", "/_queue", exempt(route.Rule{}), `rooms[0].exempt[0]: is empty and would exempt everything; name paths, methods, hosts or cidrs`},
		{"an exempt path outside the room", "/_queue", exempt(route.Rule{Paths: []string{"/orders/hook"}}), `rooms[0].exempt[0].paths[0]: "/orders/hook" can never match: the room protects nothing there`},
		{"an exempt path without its slash", "/_queue", exempt(route.Rule{Paths: []string{"order/hook"}}), `rooms[0].exempt[0].paths[0]: "order/hook" must start with "/"`},
		{"an invalid cidr", "/_queue", exempt(route.Rule{CIDRs: []netip.Prefix{{}}}), `rooms[0].exempt[0].cidrs[0]: is not a valid prefix such as 10.0.0.0/8`},
		{"a path under the prefix", "/_queue", room(route.Rule{Paths: []string{"/_Queue/x"}}), `rooms[0].protect[0].paths[0]: "/_Queue/x" lies under the reserved prefix; choose another prefix`},
		{"a relative prefix", "queue", room(route.Rule{Paths: []string{"/"}}), `prefix: "queue" must start with "/"`},
		{"a prefix that is everything", "/", room(route.Rule{Paths: []string{"/"}}), `prefix: is the whole site; give the gate a path of its own such as /_queue`},
		{"a prefix with a star", "/*/queue", room(route.Rule{Paths: []string{"/"}}), `prefix: must not hold "*"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab, err := route.NewTable(tt.prefix, tt.rooms)
			require.Nil(t, tab)
			require.ErrorIs(t, err, route.ErrInvalid)
			require.EqualError(t, err, "route: invalid table: "+tt.want)
		})
	}
}

func TestNewTableTellsAllErrorsAtOnce(t *testing.T) {
	_, err := route.NewTable("x", []route.Room{{Protect: paths("a", "/%61")}})
	require.Error(t, err)
	require.Len(t, strings.Split(err.Error(), "\n"), 4)
}

func TestNewTableTakesRoomsThatShareAPathButNoRequest(t *testing.T) {
	byMethod := table(
		t,
		route.Room{Name: "a", Protect: []route.Rule{{Paths: []string{"/x"}, Methods: []string{"POST"}}}},
		route.Room{Name: "b", Protect: []route.Rule{{Paths: []string{"/x"}, Methods: []string{"GET", "PUT"}}}},
	)
	require.Equal(t, "protected a", outcome(byMethod, request("POST /x"), noClient))
	require.Equal(t, "protected b", outcome(byMethod, request("PUT /x"), noClient))
	byHost := table(
		t,
		route.Room{Name: "a", Protect: []route.Rule{{Paths: []string{"/x"}, Hosts: []string{"a.test"}}}},
		route.Room{Name: "b", Protect: []route.Rule{{Paths: []string{"/x"}, Hosts: []string{"b.test"}}}},
	)
	require.Equal(t, "protected b", outcome(byHost, request("GET /x\tHost: b.test"), noClient))
	byCase := table(
		t,
		route.Room{Name: "a", Protect: []route.Rule{{Paths: []string{"/x"}, CaseSensitive: true}}},
		route.Room{Name: "b", Protect: []route.Rule{{Paths: []string{"/X"}, CaseSensitive: true}}},
	)
	require.Equal(t, "protected b", outcome(byCase, request("GET /X"), noClient))
}

func TestExplainTellsTheRuleOfEachReading(t *testing.T) {
	tab := table(t, route.Room{
		Name:    "sale",
		Protect: []route.Rule{{Paths: []string{"/order"}, Hosts: []string{"shop.test"}}},
		Exempt:  []route.Rule{{Paths: []string{"/order/hook"}, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}},
	})
	const rule = "rooms[0].protect[0].paths[0]"
	tests := []struct {
		name   string
		head   string
		client string
		want   []route.Explained
	}{
		{"a target with three readings", "GET /x/..%2Forder", "192.0.2.1", []route.Explained{
			{Path: "/x/..%2Forder"}, {Path: "/x/../order"}, {Path: "/order", Room: "sale", Rule: rule},
		}},
		{"an exempt address at a host no rule names", "POST /order/hook\tHost: made.up", "10.0.0.1", []route.Explained{
			{Path: "/order/hook", Room: "sale", Rule: rule, Exempt: "rooms[0].exempt[0]"},
		}},
		{"an odd spelling of the prefix", "GET /_QUEUE/x", "10.0.0.1", []route.Explained{{Path: "/_QUEUE/x", Reserved: true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.head)
			target, refusal := route.Parse(r)
			require.Nil(t, refusal)
			require.Equal(t, tt.want, tab.Explain(r, target, netip.MustParseAddr(tt.client)))
		})
	}
}
