package route_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/proxy/route/routetest"
	"github.com/stretchr/testify/require"
)

// request is short for the corpus's own.
func request(head string) *http.Request { return routetest.Request(head) }

func table(t testing.TB, rooms ...route.Room) *route.Table {
	t.Helper()
	tab, err := route.NewTable("/_queue", rooms)
	require.NoError(t, err)
	return tab
}

var noClient netip.Addr

func paths(p ...string) []route.Rule { return []route.Rule{{Paths: p}} }

// sale protects /order; drop protects /drop.
func sale() []route.Room {
	return []route.Room{{Name: "sale", Protect: paths("/order")}, {Name: "drop", Protect: paths("/drop")}}
}

// outcome is "400 refused" when Parse refused, else the kind with its room.
func outcome(tab *route.Table, r *http.Request, client netip.Addr) string {
	target, refusal := route.Parse(r)
	if refusal != nil {
		return http.StatusText(refusal.Status)
	}
	v := tab.Match(r, target, client)
	return strings.TrimSpace(v.Kind.String() + " " + v.Room)
}

const (
	bad        = routetest.BadRequest
	notAllowed = routetest.NotAllowed
	inSale     = routetest.InSale
	open       = routetest.Open
)

func TestMatch(t *testing.T) {
	tab := table(t, sale()...)
	for _, c := range routetest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			require.Equal(t, c.Want, outcome(tab, request(c.Head), netip.Addr{}), "%q", c.Head)
		})
	}
}

func TestMatchLongTarget(t *testing.T) {
	tab := table(t, sale()...)
	const limit = 8 << 10
	require.Equal(t, open, outcome(tab, request("GET /"+strings.Repeat("a", limit-1)), netip.Addr{}))
	require.Equal(t, "Request URI Too Long", outcome(tab, request("GET /"+strings.Repeat("a", limit)), netip.Addr{}))
	require.Equal(t, "Request URI Too Long", outcome(tab, request("GET /?"+strings.Repeat("a", limit)), netip.Addr{}))
}

func TestMatchSpellings(t *testing.T) {
	tests := []struct {
		name          string
		path          string
		caseSensitive bool
		target        string
		want          string
	}{
		{"the long s is an s", "/sale", false, "/%C5%BFale", "protected room"},
		{"the Kelvin sign is a k", "/kasse", false, "/%E2%84%AAasse", "protected room"},
		{"a dotless i is an i", "/ticket", false, "/t%C4%B1cket", "protected room"},
		{"a dotted capital i is an i", "/ticket", false, "/T%C4%B0CKET", "protected room"},
		{"accents fold", "/Été", false, "/%C3%A9T%C3%89", "protected room"},
		{"Korean is matched decoded", "/주문", false, "/%EC%A3%BC%EB%AC%B8/1", "protected room"},
		{"Korean is matched raw", "/주문", false, "/주문", "protected room"},
		{"half a letter is another path", "/주문", false, "/%EC%A3%BC%EB%AC", open},
		{"a rule in capitals matches small letters", "/ORDER", false, "/order", "protected room"},
		{"a case-sensitive rule matches its case", "/Order", true, "/Order/1", "protected room"},
		{"a case-sensitive rule leaves other cases", "/Order", true, "/order", open},
		{"a case-sensitive rule matches other readings", "/Order", true, "/x/..%2f%4Frder", "protected room"},
		{"a trailing slash in the rule means the same", "/order/", false, "/order", "protected room"},
		{"the root protects everything", "/", false, "/anything", "protected room"},
		{"the root protects itself", "/", false, "/", "protected room"},
		{"a star is one segment", "/order/*/pay", false, "/order/7/pay/now", "protected room"},
		{"a star is not two segments", "/order/*/pay", false, "/order/7/8/pay", open},
		{"a star is not nothing", "/order/*/pay", false, "/order/pay", open},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := table(t, route.Room{Name: "room", Protect: []route.Rule{{Paths: []string{tt.path}, CaseSensitive: tt.caseSensitive}}})
			require.Equal(t, tt.want, outcome(tab, request("GET "+tt.target), netip.Addr{}))
		})
	}
}

func TestMatchHosts(t *testing.T) {
	rooms := []route.Room{
		{Name: "shop", Protect: []route.Rule{{Paths: []string{"/order"}, Hosts: []string{"Shop.Test.:443", "[2001:DB8::1]"}}}},
		{Name: "other", Protect: []route.Rule{{Paths: []string{"/cart"}, Hosts: []string{"other.example"}}}},
		{
			Name:    "any",
			Protect: paths("/order/vip/deep", "/any"),
			Exempt:  []route.Rule{{Hosts: []string{"blog.test"}}},
		},
	}
	tests := []struct {
		name string
		head string
		want string
	}{
		{"the host as written", "GET /order", "protected shop"},
		{"the host in capitals", "GET /order\tHost: SHOP.TEST", "protected shop"},
		{"the host with a final dot", "GET /order\tHost: shop.test.", "protected shop"},
		{"the host with a port", "GET /order\tHost: shop.test:8080", "protected shop"},
		{"the host with all of it", "GET /order\tHost: SHOP.TEST.:8080", "protected shop"},
		{"the host with an empty port", "GET /order\tHost: shop.test:", "protected shop"},
		{"an IPv6 host", "GET /order\tHost: [2001:db8::1]", "protected shop"},
		{"an IPv6 host spelled out, with a port", "GET /order\tHost: [2001:0db8:0:0::0001]:8080", "protected shop"},
		{"the host of an absolute target counts, not the field", "GET http://other.example/order\tHost: shop.test", open},
		{"the host of an absolute target protects", "GET https://shop.test:443/order\tHost: other.example", "protected shop"},
		{"a host with rules of its own is not another host", "GET /order\tHost: other.example", open},
		{"a host with rules of its own falls back to rules without hosts", "GET /any\tHost: other.example", "protected any"},
		{"a rule for the host goes before a longer path without one", "GET /order/vip/deep", "protected shop"},
		{"an unknown host first falls to rules without hosts", "GET /order/vip/deep\tHost: made.up", "protected any"},
		{"an unknown host does not open a path", "GET /order\tHost: made.up", "protected shop"},
		{"an unknown host of an absolute target does not open a path", "GET http://made.up/order\tHost: shop.test", "protected shop"},
		{"an unknown host leaves open what nobody protects", "GET /x\tHost: made.up", open},
		{"an unknown host cannot mix two rooms", "GET /any/..%2forder\tHost: made.up", "refused"},
		{"no host does not open a path", "GET /order\tHost:: ", "protected shop"},
		{"a host that is only a dot does not open a path", "GET /order\tHost: .", "protected shop"},
		{"a host that is only a port does not open a path", "GET /order\tHost: :80", "protected shop"},
		{"a host named in an exempt rule is known", "GET /order\tHost: blog.test", open},
		{"a host exempt by its name", "GET /any\tHost: blog.test", "exempt any"},
		{"no host is not exempt by a name", "GET /any\tHost:: ", "protected any"},
		{"a host with a user is refused", "GET /order\tHost: a@shop.test", bad},
		{"two hosts are refused", "GET /order\tHost: shop.test, evil.test", bad},
		{"a host with a path is refused", "GET /order\tHost: shop.test/x", bad},
		{"an encoded host is refused", "GET /order\tHost: shop%2etest", bad},
		{"an unbracketed IPv6 host is refused", "GET /order\tHost: 2001:db8::1", bad},
		{"a broken IPv6 host is refused", "GET /order\tHost: [2001:db8::1", bad},
		{"an IPv6 host with junk is refused", "GET /order\tHost: [2001:db8::1]x", bad},
	}
	tab := table(t, rooms...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, outcome(tab, request(tt.head), netip.Addr{}), "%q", tt.head)
		})
	}
}

func TestMatchOverlappingRooms(t *testing.T) {
	order := route.Room{Name: "order", Protect: paths("/order", "/sale/*/pay")}
	vip := route.Room{Name: "vip", Protect: paths("/order/vip", "/sale/gold/pay")}
	post := route.Room{Name: "post", Protect: []route.Rule{{Paths: []string{"/order/form"}, Methods: []string{"POST"}}}}
	tests := []struct {
		name string
		head string
		want string
	}{
		{"the shorter path", "GET /order/1", "protected order"},
		{"the longer path wins", "GET /order/vip/1", "protected vip"},
		{"the longer word is not the longer path", "GET /order/vips", "protected order"},
		{"the fuller path wins over a star", "GET /sale/gold/pay", "protected vip"},
		{"a star takes the others", "GET /sale/red/pay", "protected order"},
		{"a method rule wins for its method", "POST /order/form", "protected post"},
		{"a method rule leaves other methods to the room above", "GET /order/form", "protected order"},
		{"a pass of the inner room does not lead out by dots", "GET /order/vip/../1", "refused"},
		{"a pass of the inner room does not lead out by an encoded slash", "GET /order/vip/..%2f1", "refused"},
		{"a pass of the outer room does not lead in by a doubled slash", "GET /order//vip", "refused"},
		{"an override that changes the room is refused", "GET /order/form\tX-HTTP-Method-Override: POST", "refused"},
	}
	orders := [][]route.Room{{order, vip, post}, {post, vip, order}, {vip, order, post}}
	for _, rooms := range orders {
		tab := table(t, rooms...)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				require.Equal(t, tt.want, outcome(tab, request(tt.head), netip.Addr{}), "%q", tt.head)
			})
		}
	}
}

func TestMatchMethods(t *testing.T) {
	tab := table(
		t,
		route.Room{Name: "post", Protect: []route.Rule{{Paths: []string{"/post"}, Methods: []string{"POST"}}}},
		route.Room{Name: "get", Protect: []route.Rule{{Paths: []string{"/get"}, Methods: []string{"GET"}}}},
	)
	tests := []struct {
		name string
		head string
		want string
	}{
		{"the method named", "POST /post", "protected post"},
		{"the method in small letters", "post /post", "protected post"},
		{"another method", "GET /post", open},
		{"another method is not HEAD", "HEAD /post", open},
		{"GET", "GET /get", "protected get"},
		{"HEAD follows GET", "HEAD /get", "protected get"},
		{"head in small letters follows GET", "head /get", "protected get"},
		{"X-HTTP-Method-Override", "GET /post\tX-HTTP-Method-Override: POST", "protected post"},
		{"X-HTTP-Method", "GET /post\tX-HTTP-Method: POST", "protected post"},
		{"X-Method-Override", "GET /post\tX-Method-Override: POST", "protected post"},
		{"underscores", "GET /post\tX_HTTP_Method_Override: POST", "protected post"},
		{"underscores and dashes", "GET /post\tx-http_method: POST", "protected post"},
		{"a junk value is an override", "GET /post\tX-Method-Override: POST/admin", "protected post"},
		{"an empty value is an override", "GET /post\tX-Method-Override: ", "protected post"},
		{"a header of the same length is none", "GET /post\tX-Forwarded-Proto: POST", open},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, outcome(tab, request(tt.head), netip.Addr{}), "%q", tt.head)
		})
	}
}

func TestMatchExempt(t *testing.T) {
	tab := table(t, route.Room{
		Name:    "sale",
		Protect: paths("/order"),
		Exempt: []route.Rule{
			{Paths: []string{"/order/payment/callback"}, Methods: []string{"POST"}},
			{Paths: []string{"/order/hook", "/order/*/status"}},
			{Paths: []string{"/order/Exact"}, CaseSensitive: true},
			{Paths: []string{"/order/read"}, Methods: []string{"GET"}},
			{Paths: []string{"/order/inner"}, CIDRs: []netip.Prefix{netip.MustParsePrefix("::ffff:192.168.0.0/112")}},
			{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		},
	})
	tests := []struct {
		name   string
		head   string
		client string
		want   string
	}{
		{"the callback", "POST /order/payment/callback", "", "exempt sale"},
		{"what is below the callback", "POST /order/payment/callback/7", "", "exempt sale"},
		{"the callback by another method", "GET /order/payment/callback", "", inSale},
		{"the callback by post in small letters", "post /order/payment/callback", "", inSale},
		{"the callback with an override", "POST /order/payment/callback\tX-HTTP-Method-Override: PUT", "", inSale},
		{"the callback and out again", "POST /order/payment/callback/../../1", "", inSale},
		{"the callback and out by an encoded slash", "POST /order/payment/callback/..%2f..%2f1", "", inSale},
		{"the callback and out by a parameter", "POST /order/payment/callback/..;/..;/1", "", inSale},
		{"the callback and out of the room", "POST /order/payment/callback/../../../static", "", inSale},
		{"the callback encoded", "POST /order/payment/c%61llback", "", inSale},
		{"the callback with a trailing doubled slash", "POST /order/payment/callback//7", "", "exempt sale"},
		{"a longer word than the exempt one", "GET /order/hookx", "", inSale},
		{"the exempt word", "GET /order/hook", "", "exempt sale"},
		{"the exempt word in capitals", "GET /order/HOOK", "", "exempt sale"},
		{"a star", "GET /order/1/status", "", "exempt sale"},
		{"a star with a query", "GET /order/pay?x=/order/1/status", "", inSale},
		{"a star with a query right after the path", "GET /order/pay?/status", "", inSale},
		{"a star that an encoded slash splits", "GET /order/a%2fb/status", "", inSale},
		{"a star and out again", "GET /order/../status", "", inSale},
		{"a case-sensitive exempt rule", "GET /order/Exact", "", "exempt sale"},
		{"a case-sensitive exempt rule in another case", "GET /order/exact", "", inSale},
		{"HEAD follows GET", "HEAD /order/read", "", "exempt sale"},
		{"an address", "GET /order/1", "10.1.2.3", "exempt sale"},
		{"a mapped address", "GET /order/1", "::ffff:10.1.2.3", "exempt sale"},
		{"a neighbour's address", "GET /order/1", "11.1.2.3", inSale},
		{"no address", "GET /order/1", "", inSale},
		{"an address and a path", "GET /order/inner", "192.168.3.4", "exempt sale"},
		{"an address with another path", "GET /order/1", "192.168.3.4", inSale},
		{"an address on any reading", "GET /x/..%2forder", "10.1.2.3", "exempt sale"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var client netip.Addr
			if tt.client != "" {
				client = netip.MustParseAddr(tt.client)
			}
			require.Equal(t, tt.want, outcome(tab, request(tt.head), client), "%q", tt.head)
		})
	}
}

func TestMatchDefaultExempt(t *testing.T) {
	on := table(t, route.Room{Name: "all", Protect: paths("/"), DefaultExempt: true})
	off := table(t, route.Room{Name: "all", Protect: paths("/")})
	tests := []struct {
		name string
		head string
		want string
	}{
		{"robots.txt", "GET /robots.txt", "exempt all"},
		{"favicon.ico", "GET /favicon.ico?v=2", "exempt all"},
		{"sitemap.xml by HEAD", "HEAD /sitemap.xml", "exempt all"},
		{"an ACME challenge", "GET /.well-known/acme-challenge/x", "exempt all"},
		{"POST to robots.txt", "POST /robots.txt", "protected all"},
		{"POST to .well-known", "POST /.well-known/x", "protected all"},
		{"an override on robots.txt", "GET /robots.txt\tX-HTTP-Method-Override: POST", "protected all"},
		{"below robots.txt", "GET /robots.txt/order", "protected all"},
		{"robots.txt elsewhere", "GET /order/robots.txt", "protected all"},
		{"robots.txt in capitals", "GET /ROBOTS.TXT", "protected all"},
		{"out of .well-known", "GET /.well-known/../order", "protected all"},
		{"out of .well-known by an encoded slash", "GET /.well-known/..%2forder", "protected all"},
		{"out of .well-known by a parameter", "GET /.well-known/..;/order", "protected all"},
		{"a parameter on robots.txt", "GET /robots.txt;/../order", "protected all"},
		{"beside .well-known", "GET /.well-known-x", "protected all"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, outcome(on, request(tt.head), netip.Addr{}), "%q", tt.head)
			require.Equal(t, "protected all", outcome(off, request(tt.head), netip.Addr{}), "switched off: %q", tt.head)
		})
	}
}

func TestMatchReserved(t *testing.T) {
	all := []route.Room{{Name: "all", Protect: paths("/"), Exempt: []route.Rule{{CIDRs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}}}}
	tests := []struct {
		name     string
		prefix   string
		head     string
		reserved bool
		endpoint string
	}{
		{"an endpoint", "/_queue", "GET /_queue/checkout/status", true, "checkout/status"},
		{"an endpoint with a query", "/_queue", "GET /_queue/checkout?return=/x%2f..", true, "checkout"},
		{"an endpoint by an absolute target", "/_queue", "GET http://shop.test/_queue/checkout", true, "checkout"},
		{"the prefix alone has no endpoint", "/_queue", "GET /_queue", true, ""},
		{"the prefix with a slash has no endpoint", "/_queue", "GET /_queue/", true, ""},
		{"capitals", "/_queue", "GET /_QUEUE/status", true, ""},
		{"a doubled slash", "/_queue", "GET //_queue/leave", true, ""},
		{"a doubled slash inside", "/_queue", "GET /_queue//leave", true, ""},
		{"dots out of it", "/_queue", "GET /_queue/../order", true, ""},
		{"dots into it", "/_queue", "GET /order/../_queue/status", true, ""},
		{"an encoded slash into it", "/_queue", "GET /x%2f..%2f_queue/status", true, ""},
		{"a parameter", "/_queue", "GET /_queue/status;x", true, ""},
		{"an encoded letter", "/_queue", "GET /%5fqueue/status", true, ""},
		{"an encoded letter in the endpoint", "/_queue", "GET /_queue/st%61tus", true, ""},
		{"a trailing dot", "/_queue", "GET /_queue./status", true, ""},
		{"a preflight", "/_queue", "OPTIONS /_queue/checkout/join\tOrigin: https://a.test\tAccess-Control-Request-Method: POST", true, "checkout/join"},
		{"a longer word is the shop's", "/_queue", "GET /_queues", false, ""},
		{"the word further down is the shop's", "/_queue", "GET /x/_queue/status", false, ""},
		{"another prefix", "/myapp/-/line/", "GET /myapp/-/line/checkout/join", true, "checkout/join"},
		{"the default prefix when another is set", "/myapp/-/line", "GET /_queue/checkout/join", false, ""},
		{"beside another prefix", "/myapp/-/line", "GET /myapp/-", false, ""},
		{"another prefix in its own letters", "/Line", "GET /Line/x", true, "x"},
		{"another prefix in other letters", "/Line", "GET /line/x", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab, err := route.NewTable(tt.prefix, all)
			require.NoError(t, err)
			r := request(tt.head)
			target, refusal := route.Parse(r)
			require.Nil(t, refusal)
			v := tab.Match(r, target, netip.MustParseAddr("10.0.0.1"))
			require.Equal(t, tt.reserved, v.Kind == route.Reserved, "%+v", v)
			require.Equal(t, tt.endpoint, v.Endpoint)
		})
	}
}

func TestMatchVerdict(t *testing.T) {
	tab := table(t, route.Room{
		Name:    "sale",
		Protect: []route.Rule{{Paths: []string{"/a"}}, {Paths: []string{"/b", "/order"}, Hosts: []string{"shop.test"}}},
		Exempt:  []route.Rule{{Paths: []string{"/order/hook"}}},
	})
	tests := []struct {
		name string
		head string
		want route.Verdict
	}{
		{"the rule and the reading that decided", "GET /x/..%2forder/1", route.Verdict{
			Kind: route.Protected, Room: "sale", Rule: "rooms[0].protect[1].paths[1]", Reading: "/order/1", Reason: route.ReasonRule,
		}},
		{"an unknown host is named as the reason", "GET /order\tHost: made.up", route.Verdict{
			Kind: route.Protected, Room: "sale", Rule: "rooms[0].protect[1].paths[1]", Reading: "/order", Reason: route.ReasonUnknownHost,
		}},
		{"the exempt rule", "GET /order/hook", route.Verdict{
			Kind: route.Exempt, Room: "sale", Rule: "rooms[0].exempt[0]", Reading: "/order/hook", Reason: route.ReasonExempt,
		}},
		{"a preflight keeps the rule that protects", "OPTIONS /a\tOrigin: null\tAccess-Control-Request-Method: GET", route.Verdict{
			Kind: route.Exempt, Room: "sale", Rule: "rooms[0].protect[0].paths[0]", Reading: "/a", Reason: route.ReasonPreflight,
		}},
		{"no room", "GET /x%20y", route.Verdict{Kind: route.Open, Reading: "/x%20y", Reason: route.ReasonNoRoom}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request(tt.head)
			target, refusal := route.Parse(r)
			require.Nil(t, refusal)
			require.Equal(t, tt.want, tab.Match(r, target, netip.Addr{}))
		})
	}
}

func TestZeroValuesOpenNothing(t *testing.T) {
	require.Equal(t, route.Refused, route.Verdict{}.Kind)
	v := new(route.Table).Match(request("GET /x"), route.Target{Readings: []string{"/x"}}, netip.Addr{})
	require.Equal(t, route.Reserved, v.Kind, "a table nobody compiled forwards nothing")
	require.Empty(t, v.Endpoint)
	v = table(t, sale()...).Match(request("GET /x"), route.Target{}, netip.Addr{})
	require.Equal(t, route.Refused, v.Kind, "a target nobody parsed is not forwarded")
}
