package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

const friend = "https://www.shop.example"

func allowFriend(o *proxy.Options) { o.AllowOrigins = []string{friend} }

func TestAnswersAreSharedWithListedOriginsAlone(t *testing.T) {
	const none = ""
	for _, tc := range []struct {
		name, line, allowed string
	}{
		{"a listed site", "Origin: " + friend, friend},
		{"no site named", "X-None: 1", none},
		{"another site", "Origin: https://evil.test", none},
		{"a page without an origin", "Origin: null", none},
		{"the same host without TLS", "Origin: http://www.shop.example", none},
		{"another port", "Origin: " + friend + ":8443", none},
		{"a host that begins like it", "Origin: " + friend + ".evil.test", none},
		{"a host that ends like it", "Origin: https://evilwww.shop.example", none},
		{"capitals", "Origin: HTTPS://WWW.SHOP.EXAMPLE", none},
		{"two sites in one line", "Origin: " + friend + ", https://evil.test", none},
		{"two lines", "Origin: " + friend + "\r\nOrigin: https://evil.test", none},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, allowFriend)
			b.fill()
			for _, target := range []string{"GET /_queue/sale/status", "GET /_queue/nothing", "GET /order", "POST /order"} {
				method, path, _ := strings.Cut(target, " ")
				got := b.call(method, path, "", tc.line)
				require.Equal(t, tc.allowed, got.Header.Get("Access-Control-Allow-Origin"), target)
				require.Contains(t, strings.Join(got.Header.Values("Vary"), ","), "Origin", target)
				if tc.allowed == none {
					require.Empty(t, got.Header.Get("Access-Control-Allow-Credentials"), target)
					require.Empty(t, got.Header.Get("Access-Control-Expose-Headers"), target)
					continue
				}
				require.Equal(t, "true", got.Header.Get("Access-Control-Allow-Credentials"), target)
				require.Contains(t, got.Header.Get("Access-Control-Expose-Headers"), "X-Queue-Ticket", target)
			}
		})
	}
	t.Run("nobody is listed by default", func(t *testing.T) {
		b := newBench(t)
		require.Empty(t, b.call("GET", "/_queue/sale/status", "", "Origin: "+friend).Header.Get("Access-Control-Allow-Origin"))
	})
}

func TestListedOriginMayJoinPollAndLeave(t *testing.T) {
	b := newBench(t, allowFriend)
	b.fill()
	from := []string{"Origin: " + friend, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors"}
	asked := b.do("OPTIONS", "/_queue/sale/join", "", append(from, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-queue-ticket")...)
	require.Equal(t, http.StatusNoContent, asked.StatusCode)
	require.Equal(t, "POST", asked.Header.Get("Access-Control-Allow-Methods"))
	require.Contains(t, asked.Header.Get("Access-Control-Allow-Headers"), "X-Queue-Ticket")
	require.Equal(t, "600", asked.Header.Get("Access-Control-Max-Age"))
	require.Empty(t, asked.Header.Values("Set-Cookie"))
	require.Empty(t, b.line.take(), "a question gave a place")

	joined := b.call("POST", "/_queue/sale/join", "", from...)
	require.Equal(t, 200, joined.StatusCode)
	ticket := joined.Header.Get("X-Queue-Ticket")
	require.NotEmpty(t, ticket)
	require.Equal(t, "waiting", b.call("GET", "/_queue/sale/status", "", append(from, "X-Queue-Ticket: "+ticket)...).doc(t)["status"])
	require.Equal(t, "left", b.call("DELETE", "/_queue/sale", "", append(from, "X-Queue-Ticket: "+ticket)...).doc(t)["status"])
}

func TestOtherOriginsMayChangeNothing(t *testing.T) {
	b := newBench(t, allowFriend)
	b.fill()
	ticket := b.navigate("/order").cookie("queuegate_ticket_sale").Value
	for _, lines := range [][]string{
		{"Origin: https://evil.test"},
		{"Origin: null"},
		{"Sec-Fetch-Site: cross-site"},
		{"Sec-Fetch-Site: same-site"},
		{"Origin: https://evil.test", "Sec-Fetch-Site: cross-site", "Content-Type: text/plain"},
	} {
		asked := b.do("OPTIONS", "/_queue/sale/join", "", append(lines, "Access-Control-Request-Method: POST")...)
		require.GreaterOrEqual(t, asked.StatusCode, 400, lines)
		require.Empty(t, asked.Header.Get("Access-Control-Allow-Origin"))
		b.line.take()
		for _, target := range []string{"DELETE /_queue/sale", "POST /_queue/sale/join", "POST /_queue/sale/release"} {
			method, path, _ := strings.Cut(target, " ")
			require.Equal(t, 403, b.call(method, path, "", append(lines, "Cookie: queuegate_ticket_sale="+ticket)...).StatusCode, "%s %v", target, lines)
		}
		require.Empty(t, b.line.take(), lines)
	}
	for _, target := range []string{"/_queue/sale/join", "/_queue/sale/release"} {
		require.Equal(t, 405, b.navigate(target, "Cookie: queuegate_ticket_sale="+ticket).StatusCode, "a link or an image changes nothing")
	}
}

func TestPreflightOfTheShopsRoutesIsTheShops(t *testing.T) {
	b := newBench(t, allowFriend)
	b.fill()
	b.shop.says("HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: https://app.test\r\n\r\n")
	got := b.do("OPTIONS", "/order", "", "Origin: https://app.test", "Access-Control-Request-Method: POST")
	require.Equal(t, 204, got.StatusCode)
	require.Equal(t, []string{"https://app.test"}, got.Header.Values("Access-Control-Allow-Origin"))
	require.Empty(t, got.Header.Values("Set-Cookie"))
	require.Empty(t, b.line.take())
	before := len(b.shop.requests())
	require.Equal(t, 429, b.do("OPTIONS", "/order", "").StatusCode, "without the two headers it is no preflight")
	require.Equal(t, 429, b.do("OPTIONS", "/order", "x", "Origin: https://app.test", "Access-Control-Request-Method: POST").StatusCode)
	require.Len(t, b.shop.requests(), before)
}

func TestOriginThatIsNoneIsRefused(t *testing.T) {
	for _, origin := range []string{"*", "null", "shop.example", "https://shop.example/"} {
		_, err := proxy.New(proxy.Options{AllowOrigins: []string{origin}})
		require.Error(t, err)
	}
}
