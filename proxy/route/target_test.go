package route_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/queuegate/queuegate/proxy/route"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		head string
		want route.Target
	}{
		{"a plain path has one reading", "GET /order/1?x=%2f", route.Target{
			Raw: "/order/1?x=%2f", Readings: []string{"/order/1"}, Host: "shop.test",
		}},
		{"an encoded letter gives two", "GET /%6frder", route.Target{
			Raw: "/%6frder", Readings: []string{"/%6frder", "/order"}, Host: "shop.test",
		}},
		{"the query stays as sent", "GET /x?a=1;b=2&c=%zz&?", route.Target{
			Raw: "/x?a=1;b=2&c=%zz&?", Readings: []string{"/x"}, Host: "shop.test",
		}},
		{"an absolute target loses its authority", "GET http://Other.test:80/a//b?c", route.Target{
			Raw: "/a//b?c", Readings: []string{"/a//b", "/a/b"}, Host: "other.test",
		}},
		{"an absolute target without a path gets one", "GET https://other.test?c", route.Target{
			Raw: "/?c", Readings: []string{"/"}, Host: "other.test",
		}},
		{"a known spelling of .well-known has one reading", "GET /.well-known/x", route.Target{
			Raw: "/.well-known/x", Readings: []string{"/.well-known/x"}, Host: "shop.test",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, refusal := route.Parse(request(tt.head))
			require.Nil(t, refusal)
			require.Equal(t, tt.want, got)
		})
	}
}

// In HTTP/2 a path may be a URL of another host than the authority that the shop is
// told, and a front proxy may tell such a target.
func TestParseRefusesTwoHosts(t *testing.T) {
	for _, target := range []string{"http://other.test/order", "https://shop.test:1/order", "http://SHOP.test/order", "HTTP://other.test"} {
		r := request("GET /")
		r.RequestURI = target
		_, refusal := route.Parse(r)
		require.NotNil(t, refusal, target)
		require.Equal(t, http.StatusBadRequest, refusal.Status)
	}
	r := request("GET /")
	r.RequestURI = "http://shop.test/order"
	got, refusal := route.Parse(r)
	require.Nil(t, refusal)
	require.Equal(t, route.Target{Raw: "/order", Readings: []string{"/order"}, Host: "shop.test"}, got)
}

// The tables build requests by hand; these go through the parser of net/http,
// which hands on targets that its own URL type shows as an empty path.
func TestParseFromTheWire(t *testing.T) {
	tests := []struct {
		name string
		wire string
		want string
	}{
		{"an opaque target", "GET http:http://internal-vhost/order HTTP/1.1\r\nHost: shop.test\r\n\r\n", bad},
		{"a rootless target", "GET http:order HTTP/1.1\r\nHost: shop.test\r\n\r\n", bad},
		{"an absolute target", "GET http://made.up/order HTTP/1.1\r\nHost: shop.test\r\n\r\n", inSale},
		{"a fragment", "GET /order#x HTTP/1.1\r\nHost: shop.test\r\n\r\n", bad},
		{"no host", "GET /order HTTP/1.0\r\n\r\n", inSale},
		{"an empty host", "GET /order HTTP/1.1\r\nHost:\r\n\r\n", inSale},
		{"an asterisk", "GET * HTTP/1.1\r\nHost: shop.test\r\n\r\n", bad},
		{"the HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bad},
		{"CONNECT", "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test\r\n\r\n", notAllowed},
		{"a raw backslash", "GET /static\\..\\order HTTP/1.1\r\nHost: shop.test\r\n\r\n", bad},
		{"two slashes are no authority", "GET //order HTTP/1.1\r\nHost: shop.test\r\n\r\n", inSale},
		{"a chunked preflight", "OPTIONS /order HTTP/1.1\r\nHost: shop.test\r\nOrigin: a\r\nAccess-Control-Request-Method: POST\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", inSale},
		{"a preflight", "OPTIONS /order HTTP/1.1\r\nHost: shop.test\r\nOrigin: a\r\nAccess-Control-Request-Method: POST\r\n\r\n", "exempt sale"},
		{"a preflight with a length of nothing", "OPTIONS /order HTTP/1.1\r\nHost: shop.test\r\nOrigin: a\r\nAccess-Control-Request-Method: POST\r\nContent-Length: 0\r\n\r\n", "exempt sale"},
	}
	tab := table(t, sale()...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(tt.wire)))
			require.NoError(t, err)
			require.Equal(t, tt.want, outcome(tab, r, noClient))
		})
	}
}

func TestRefusalHoldsNoBytesOfTheRequest(t *testing.T) {
	for _, head := range []string{"GET SECRET", "GET /SECRET#", "GET /SECRET%00", "GET /x\tHost: SECRET@x", "SECRET *"} {
		_, refusal := route.Parse(request(head))
		require.NotNil(t, refusal, head)
		require.NotEmpty(t, refusal.Reason)
		require.NotContains(t, strings.ToLower(refusal.Reason), "secret")
	}
}
