package main_test

import (
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// closedRooms let nobody in, each in its way; two of them are no obstacle at all.
const closedRooms = `  - {name: checkout, queue_all: true, total_active_users: 1, protect: [{paths: [/checkout]}], exempt: [{paths: [/checkout/callback], methods: [POST]}, {cidrs: [10.0.0.0/8, "2001:db8::/32"]}]}
  - {name: form, queue_all: true, total_active_users: 1, protect: [{paths: [/form], methods: [POST]}]}
  - {name: "off", suspended: true, total_active_users: 1, protect: [{paths: [/off]}]}
  - {name: passing, queueing_method: passthrough, total_active_users: 1, protect: [{paths: [/passing]}]}
`

// claims are headers by which a client says that it is somebody else, wants
// something else, or was let in before. Their values would open a door.
var claims = []string{
	"X-Forwarded-For: 10.1.2.3", "X-Forwarded-For: 10.1.2.3, 10.1.2.4", "X-Forwarded-For: ::ffff:10.1.2.3", "X_Forwarded_For: 10.1.2.3", "X-Real-IP: 10.1.2.3",
	"Forwarded: for=10.1.2.3;proto=https", "True-Client-IP: 10.1.2.3", "CF-Connecting-IP: 10.1.2.3", "X-Client-IP: 10.1.2.3",
	"X-Forwarded-Uri: /about", "X-Original-URL: /about", "X-Original-URI: /about", "X-Rewrite-URL: /about", "X-Forwarded-Prefix: /about", "X-Forwarded-Path: /about",
	"X_Original_Url: /about", "X-Envoy-Original-Path: /about", "X-Forwarded-Host: blog.example", "X-Forwarded-Proto: https", "X-Forwarded-Method: GET", "X-Original-Method: OPTIONS",
	"X-HTTP-Method-Override: GET", "X-HTTP-Method: GET", "X_Method_Override: GET", "User-Agent: kube-probe/1.30", "User-Agent: GoogleHC/1.0",
	"X-Queuegate-Visitor: admin", "x_queuegate_visitor: admin", "X.Queuegate.Admission: 1.0", "X-Queuegate-Room: checkout", "X-Queuegate-Command: release", "X-Queuegate-Anything: 1",
	"X_Entry_Token: x", "X-Queue-Ticket: x", "X_Queue.Ticket: x", "Connection: close, X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, X-Queuegate-Visitor",
	"Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", "Sec-Purpose: prefetch", "Access-Control-Request-Method: POST",
}

// headersOf makes a map of lines for the helper that sends.
func headersOf(lines ...string) map[string]string {
	h := map[string]string{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h[name] = value
	}
	return h
}

func TestNothingThatAClientClaimsOpensADoorOrReachesTheShop(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: closedRooms})
	g, client := f.gates[0], newClient(t)
	for _, claim := range claims {
		for _, line := range []string{"GET /checkout", "POST /checkout/order", "POST /form", "OPTIONS /checkout", "GET /checkout/callback", "POST /checkout/callbacks"} {
			method, path, _ := strings.Cut(line, " ")
			got := mustSend(t, client, request{method: method, url: g.url + path, header: headersOf(claim)})
			require.Equal(t, http.StatusTooManyRequests, got.code, "%s with %s", line, claim)
		}
	}
	// Where only POST is guarded, a header that makes a POST of a GET counts as one.
	for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X_HTTP_Method_Override"} {
		got := mustSend(t, client, request{method: "GET", url: g.url + "/form", header: map[string]string{name: "POST"}})
		require.Equal(t, http.StatusTooManyRequests, got.code, name)
	}
	require.Empty(t, f.shop.got(""))

	// On the routes that are open, each for another reason, none of them arrives.
	open := []string{"GET /about", "POST /checkout/callback", "GET /off", "GET /passing", "GET /form", "OPTIONS /checkout"}
	for _, claim := range claims {
		if strings.Contains(claim, "ethod") && !strings.HasPrefix(claim, "X-Forwarded") && !strings.HasPrefix(claim, "X-Original") {
			continue // on the route where the method decides it would be judged
		}
		for _, line := range open {
			method, path, _ := strings.Cut(line, " ")
			header := headersOf(claim)
			if method == http.MethodOptions {
				if strings.HasPrefix(claim, "Upgrade") {
					continue // no preflight asks for it
				}
				header["Origin"], header["Access-Control-Request-Method"] = "https://app.example", "POST"
			}
			got := mustSend(t, client, request{method: method, url: g.url + path, header: header})
			require.Contains(t, []int{http.StatusOK, http.StatusCreated}, got.code, "%s with %s", line, claim)
			require.Empty(t, got.header.Get("Set-Cookie"), line)
			seen := f.shop.last(t, path)
			require.Equal(t, []string{"127.0.0.1"}, seen.Header["X-Forwarded-For"], claim)
			require.Equal(t, []string{"http"}, seen.Header["X-Forwarded-Proto"], claim)
			require.Equal(t, []string{seen.Host}, seen.Header["X-Forwarded-Host"], claim)
			for name := range seen.Header {
				folded := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
				require.NotContains(t, folded, "queuegate", claim)
				require.NotContains(t, folded, "original", claim)
				require.NotContains(t, []string{
					"x-entry-token", "x-queue-ticket", "upgrade", "http2-settings", "forwarded", "x-real-ip", "x-rewrite-url",
					"x-forwarded-uri", "x-forwarded-prefix", "x-forwarded-path", "x-forwarded-method",
				}, folded, claim)
				require.False(t, strings.HasPrefix(folded, "x-forwarded-") && strings.ContainsAny(name, "_."), claim)
			}
		}
	}
}

// TestTrustedProxiesAreBelievedFromTheRightAndNoFarther: who is exempt by address
// is the first from the right whom no trusted proxy stands for.
func TestTrustedProxiesAreBelievedFromTheRightAndNoFarther(t *testing.T) {
	t.Parallel()
	shop, store := newRecordingShop(t), queuetest.Start(t)
	config := writeConfig(t, plan{rooms: closedRooms}, shop.URL, store.URL)
	four := startGate(t, config, "QUEUEGATE_TRUSTED_PROXIES=127.0.0.0/8,192.0.2.0/24")
	six := startGate(t, config, "QUEUEGATE_TRUSTED_PROXIES=::1/128,192.0.2.0/24", "QUEUEGATE_LISTEN=[::1]:0")
	stranger := startGate(t, config, "QUEUEGATE_LISTEN=[::1]:0")
	for _, g := range []*gate{four, six, stranger} {
		g.waitReady(t)
	}
	require.True(t, strings.HasPrefix(six.url, "http://[::1]:"), six.url)
	for _, tc := range []struct {
		name  string
		gate  *gate
		chain []string
		told  string // what the shop is told; empty: it is not reached
	}{
		{"who is exempt, behind the proxy", four, []string{"10.1.2.3"}, "10.1.2.3, 127.0.0.1"},
		{"the same behind two proxies", four, []string{"10.1.2.3, 192.0.2.9"}, "10.1.2.3, 192.0.2.9, 127.0.0.1"},
		{"the same, in two lines", four, []string{"10.1.2.3", "192.0.2.9"}, "10.1.2.3, 192.0.2.9, 127.0.0.1"},
		{"the same, written as IPv6", four, []string{"::ffff:10.1.2.3"}, "::ffff:10.1.2.3, 127.0.0.1"},
		{"an exempt IPv6", four, []string{"2001:db8::7"}, "2001:db8::7, 127.0.0.1"},
		{"a stranger who claims to speak for one", four, []string{"10.1.2.3, 203.0.113.9"}, ""},
		{"the same, in two lines", four, []string{"10.1.2.3", "203.0.113.9"}, ""},
		{"a stranger behind two proxies who claims it", four, []string{"10.1.2.3, 203.0.113.9, 192.0.2.9"}, ""},
		{"what is no address, on the right", four, []string{"10.1.2.3, unknown"}, ""},
		{"what is no address, behind a proxy", four, []string{"10.1.2.3, _hidden, 192.0.2.9"}, ""},
		{"nothing said", four, nil, ""},
		{"nothing but commas", four, []string{", ,"}, ""},
		{"over IPv6: who is exempt", six, []string{"2001:db8::7"}, "2001:db8::7, ::1"},
		{"over IPv6: an exempt IPv4", six, []string{"10.1.2.3, 192.0.2.9"}, "10.1.2.3, 192.0.2.9, ::1"},
		{"over IPv6: a stranger who claims it", six, []string{"2001:db8::7, 2001:db9::1"}, ""},
		{"over IPv6: nobody is trusted", stranger, []string{"2001:db8::7"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := len(shop.got("/checkout"))
			text := "GET /checkout HTTP/1.1\r\nHost: shop.test\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: www.shop.test\r\nConnection: close\r\n"
			for _, line := range tc.chain {
				text += "X-Forwarded-For: " + line + "\r\n"
			}
			got, err := sendRaw(strings.TrimPrefix(tc.gate.url, "http://"), text+"\r\n")
			require.NoError(t, err)
			if tc.told == "" {
				require.Equal(t, http.StatusTooManyRequests, got.code)
				require.Len(t, shop.got("/checkout"), before)
				return
			}
			require.Equal(t, http.StatusOK, got.code, "%s", got.body)
			seen := shop.last(t, "/checkout")
			require.Equal(t, []string{tc.told}, seen.Header["X-Forwarded-For"])
			require.Equal(t, []string{"https"}, seen.Header["X-Forwarded-Proto"])
			require.Equal(t, []string{"www.shop.test"}, seen.Header["X-Forwarded-Host"])
			require.Equal(t, "shop.test", seen.Host)
		})
	}
	// And to the shop, whoever is not believed has the address of the connection.
	mustSend(t, newClient(t), request{method: "GET", url: stranger.url + "/about", header: map[string]string{"X-Forwarded-For": "2001:db8::7", "X-Forwarded-Proto": "https"}})
	require.Equal(t, []string{"::1"}, shop.last(t, "/about").Header["X-Forwarded-For"])
	require.Equal(t, []string{"http"}, shop.last(t, "/about").Header["X-Forwarded-Proto"])
}

// TestPaymentCallbackIsNeverInLine: a provider of payments knows no cookie, no
// queue and sometimes only HTTP/1.0.
func TestPaymentCallbackIsNeverInLine(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: closedRooms})
	g := f.gates[0]
	body := mebibytes(1)
	f.shop.behave(func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d %08x %s %v", r.Method, len(got), crc32.ChecksumIEEE(got), r.Header.Get("Content-Type"), err)
	})
	for _, version := range []string{"1.0", "1.1"} {
		got, err := sendRaw(strings.TrimPrefix(g.url, "http://"), fmt.Sprintf(
			"POST /checkout/callback?sig=a;b HTTP/%s\r\nHost: shop.test\r\nContent-Type: application/x-signed;odd\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", version, len(body), body))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.code)
		require.Equal(t, fmt.Sprintf("POST %d %08x application/x-signed;odd <nil>", len(body), crc32.ChecksumIEEE([]byte(body))), string(got.body))
		require.Empty(t, got.header.Get("Set-Cookie"))
		require.Equal(t, "/checkout/callback?sig=a;b", f.shop.last(t, "/checkout").Target)
	}
	require.Equal(t, http.StatusTooManyRequests, mustSend(t, newClient(t), request{method: "GET", url: g.url + "/checkout/callback"}).code)
}
