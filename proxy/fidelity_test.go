package proxy_test

import (
	"bufio"
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

// targets are request targets that proxies like to mend.
var targets = []string{
	"/a%2Fb", "/a//b", "//x", "///x/y", "//x?y=//z", "/wiki//x", "/a/%2e%2e/b", "/a/../b", "/./a", "/%E2%9C%93", "/a%20b+c", "/a:b@c", "/x/",
	"/x?", "/x??", "/x?a=1;b=2", "/x?q=%zz", "/x?q=100%", "/x?a=1&a=2&b", "/x?x=%2B+%20", "/x?url=https://e.test//y", "/a;v=1/b",
	"/x?q=\"<>|^`{}", "/a|b", "/a\"b", "/\xc3\xbc", "/a[1]", "/x?\xff", "/x?q=\\", "/*", "/%7Euser/~user", "/x?" + strings.Repeat("k=v&", 1500),
}

func TestShopReceivesTheTargetByteForByte(t *testing.T) {
	b := newBench(t)
	token := b.admit()
	for _, target := range targets {
		for _, method := range []string{"GET", "POST"} {
			got := b.do(method, target, "", "Content-Length: 0")
			require.Equal(t, 200, got.StatusCode, target)
			require.Equal(t, method+" "+target+" HTTP/1.1", b.shop.last().line)
		}
		protected := "/order" + target
		got := b.do("GET", protected, "", "X-Entry-Token: "+token)
		if got.StatusCode == http.StatusBadRequest {
			continue // the table finds readings in it that it will not judge
		}
		require.Equal(t, 200, got.StatusCode, protected)
		require.Equal(t, protected, b.shop.last().target())
	}
}

func TestTargetThatCannotBeSentAsItIsIsRefused(t *testing.T) {
	b := newBench(t)
	got := b.do("GET", "//a|b", "")
	require.Equal(t, 400, got.StatusCode)
	require.Empty(t, b.shop.requests())
}

func TestAbsoluteTargetGoesOutInOriginForm(t *testing.T) {
	b := newBench(t)
	got := b.do("GET", "http://shop.test/a%2Fb?c=%zz", "")
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "/a%2Fb?c=%zz", b.shop.last().target())
	require.Equal(t, []string{"shop.test"}, b.shop.last().header["Host"])
}

func TestOddTargetsAreRefused(t *testing.T) {
	b := newBench(t)
	for _, line := range []string{
		"GET http:http://inner/order", "GET http:order", "GET foo:http://x/order", "GET *", "PRI *", "CONNECT shop.test:443", "CONNECT /order",
		"TRACE /order", "track /", "GET /order#/x", "GET /a\\b", "GET /a%00", "GET /a%0a",
	} {
		method, target, _ := strings.Cut(line, " ")
		got := b.do(method, target, "")
		require.Contains(t, []int{400, 405}, got.StatusCode, line)
		require.Equal(t, "no-store", got.Header.Get("Cache-Control"), line)
	}
	require.Empty(t, b.shop.requests())
}

func TestHeadersOnlyTheGateMayWriteAreRemovedInEverySpelling(t *testing.T) {
	smuggled := []string{
		"X-Queuegate-Visitor: admin", "x_queuegate_visitor: admin", "X-Queuegate_Room: vip", "X-QUEUEGATE-ADMISSION: 1", "X-Queuegate-Anything: 1",
		"X_Entry_Token: x", "X-Queue-Ticket: t", "X_Queue_Ticket: t",
		"X-Original-URL: /admin", "X-Original-URI: /admin", "X_Original_Url: /admin", "X-Rewrite-URL: /admin", "X-Forwarded-Uri: /admin",
		"X-Forwarded-Prefix: /admin", "X-Forwarded-Path: /admin", "X-Forwarded-Method: PUT", "X-Original-Method: PUT",
		"X-HTTP-Method-Override: PUT", "X-HTTP-Method: PUT", "X-Method-Override: PUT", "X_HTTP_Method_Override: PUT",
		"X_Forwarded_For: 6.6.6.6", "X_Forwarded_Proto: https", "X-Real-IP: 6.6.6.6", "Forwarded: for=6.6.6.6", "X-Forwarded-Port: 1",
		"Connection: close, X-Queuegate-Visitor, X-Queuegate-Room, X-Forwarded-For, X-Forwarded-Proto",
	}
	for _, change := range []func(*proxy.Options){func(*proxy.Options) {}, trustLoopback} {
		b := newBench(t, change)
		token := b.admit()
		p, err := b.passes.Verify(token, "sale")
		require.NoError(t, err)
		for _, target := range []string{"/public", "/robots.txt", "/order"} {
			got := b.do("GET", target, "", append([]string{"X-Entry-Token: " + token, "Cookie: a=1; queuegate_entry_sale=x; b=2"}, smuggled...)...)
			require.Equal(t, 200, got.StatusCode)
			seen := b.shop.last()
			for name, values := range seen.header {
				folded := strings.ReplaceAll(strings.ToLower(name), "_", "-")
				require.NotContains(t, []string{
					"x-entry-token", "x-queue-ticket", "x-original-url", "x-original-uri", "x-rewrite-url", "x-forwarded-uri", "x-forwarded-prefix",
					"x-forwarded-path", "x-forwarded-method", "x-original-method", "x-http-method-override", "x-http-method", "x-method-override",
				}, folded)
				if strings.HasPrefix(folded, "x-queuegate") {
					require.Equal(t, "/order", target)
					require.Contains(t, map[string]string{
						"X-Queuegate-Room": "sale", "X-Queuegate-Visitor": p.Visitor, "X-Queuegate-Admission": p.Admission,
					}, name)
					require.Len(t, values, 1)
					require.NotContains(t, values, "admin")
				}
				if strings.HasPrefix(folded, "x-forwarded-") {
					require.NotContains(t, name, "_")
				}
			}
			require.Equal(t, []string{"127.0.0.1"}, seen.header["X-Forwarded-For"], "one that named itself in Connection")
			require.Equal(t, []string{"http"}, seen.header["X-Forwarded-Proto"])
			require.Equal(t, []string{"shop.test"}, seen.header["X-Forwarded-Host"])
			require.Equal(t, []string{"a=1; b=2"}, seen.header["Cookie"])
			if target == "/order" {
				require.Equal(t, []string{p.Visitor}, seen.header["X-Queuegate-Visitor"])
			}
		}
	}
}

func TestForwardedHeadersFollowTheTrustRule(t *testing.T) {
	sent := []string{"X-Forwarded-For: 1.1.1.1, 2.2.2.2", "X-Forwarded-For: 3.3.3.3", "X-Forwarded-Proto: https", "X-Forwarded-Host: www.shop.test", "X-Forwarded-Port: 443"}
	t.Run("from anybody the chain begins with the peer", func(t *testing.T) {
		b := newBench(t)
		b.do("GET", "/x", "", sent...)
		seen := b.shop.last().header
		require.Equal(t, []string{"127.0.0.1"}, seen["X-Forwarded-For"])
		require.Equal(t, []string{"http"}, seen["X-Forwarded-Proto"])
		require.Equal(t, []string{"shop.test"}, seen["X-Forwarded-Host"])
		require.Empty(t, seen["X-Forwarded-Port"])
		require.Equal(t, []string{"shop.test"}, seen["Host"])
	})
	t.Run("from a trusted peer it is kept and the peer appended", func(t *testing.T) {
		b := newBench(t, trustLoopback)
		b.do("GET", "/x", "", sent...)
		seen := b.shop.last().header
		require.Equal(t, []string{"1.1.1.1, 2.2.2.2, 3.3.3.3, 127.0.0.1"}, seen["X-Forwarded-For"])
		require.Equal(t, []string{"https"}, seen["X-Forwarded-Proto"])
		require.Equal(t, []string{"www.shop.test"}, seen["X-Forwarded-Host"])
		require.Equal(t, []string{"443"}, seen["X-Forwarded-Port"])
		require.Equal(t, []string{"shop.test"}, seen["Host"])
	})
}

func TestTokenIsForwardedOnlyWhenConfigured(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].ForwardToken = true })
	token := b.admit()
	b.do("GET", "/order", "", "X-Entry-Token: "+token)
	require.Equal(t, []string{token}, b.shop.last().header["X-Entry-Token"])
	b.do("GET", "/public", "", "X-Entry-Token: "+token)
	require.Empty(t, b.shop.last().header["X-Entry-Token"])
}

func TestShopsCookiesStayInOrderAndOursStayAway(t *testing.T) {
	b := newBench(t)
	for sent, want := range map[string][]string{
		"a=1; b=2":                            {"a=1; b=2"},
		"queuegate_entry_sale=x; a=1;b=2;  c": {"a=1;b=2;  c"},
		"a=1; queuegate_ticket_drop=y; b=\"q w\"; __Host-queuegate_entry_sale=z; a=2": {"a=1; b=\"q w\"; a=2"},
		"queuegate_ticket_sale=only": nil,
		"myqueuegate_entry_sale=1; Queuegate_ticket_sale=2; queuegate_theme=dark": {"myqueuegate_entry_sale=1; Queuegate_ticket_sale=2; queuegate_theme=dark"},
	} {
		b.do("GET", "/x", "", "Cookie: "+sent)
		require.Equal(t, want, b.shop.last().header["Cookie"], sent)
	}
}

func TestAnswerOfTheShopKeepsItsCookiesAndLosesOurs(t *testing.T) {
	b := newBench(t)
	b.shop.says("HTTP/1.1 200 OK\r\nSet-Cookie: s1=1\r\nSet-Cookie: queuegate_entry_sale=evil\r\nSet-Cookie: s2=2; Path=/x\r\n" +
		"Set-Cookie: __Host-queuegate_ticket_sale=evil\r\nSet-Cookie: =queuegate_entry_sale=evil\r\nSet-Cookie: s3=3\r\nX-Queuegate-Command: none\r\nx_queuegate_stock: 3\r\nX-Entry-Token: t\r\n" +
		"Cache-Control: public, max-age=600\r\nCDN-Cache-Control: max-age=600\r\nETag: \"e\"\r\nContent-Length: 0\r\n\r\n")
	open := b.do("GET", "/x", "")
	require.Equal(t, []string{"s1=1", "s2=2; Path=/x", "s3=3"}, open.Header.Values("Set-Cookie"))
	require.Equal(t, "public, max-age=600", open.Header.Get("Cache-Control"))
	require.NotEmpty(t, open.Header.Get("Cdn-Cache-Control"))

	got := b.navigate("/order")
	require.Equal(t, 200, got.StatusCode)
	lines := got.Header.Values("Set-Cookie")
	require.Len(t, lines, 5, "a ticket and a pass are added")
	require.Equal(t, []string{"s1=1", "s2=2; Path=/x", "s3=3"}, lines[:3])
	require.Equal(t, "private, no-store", got.Header.Get("Cache-Control"))
	require.Empty(t, got.Header.Get("Cdn-Cache-Control"))
	require.Equal(t, `"e"`, got.Header.Get("Etag"))
	for name := range got.Header {
		require.NotContains(t, strings.ToLower(name), "queuegate")
	}
}

func TestAdmittedAnswerIsTheShopsOwn(t *testing.T) {
	b := newBench(t)
	token := b.admit()
	b.shop.says("HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\nCache-Control: public\r\nVary: Accept-Encoding\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n")
	got := b.do("GET", "/order", "", "X-Entry-Token: "+token, "If-None-Match: \"e\"", "Accept-Encoding: br")
	require.Equal(t, 304, got.StatusCode)
	got.Header.Del("Date")
	require.Equal(t, http.Header{
		"Etag": {`"e"`}, "Cache-Control": {"public"}, "Vary": {"Accept-Encoding"}, "Last-Modified": {"Mon, 01 Jan 2024 00:00:00 GMT"},
	}, got.Header)
	require.Equal(t, []string{"br"}, b.shop.last().header["Accept-Encoding"])
	b.do("GET", "/order", "", "X-Entry-Token: "+token)
	require.Empty(t, b.shop.last().header["Accept-Encoding"])
	require.Empty(t, b.shop.last().header["User-Agent"])
}

func TestBodiesArriveWhole(t *testing.T) {
	b := newBench(t)
	token := b.admit()
	big := strings.Repeat("0123456789abcdef", 1<<17)
	b.do("POST", "/order", big, "X-Entry-Token: "+token, "Content-Encoding: gzip")
	require.Equal(t, sha256.Sum256([]byte(big)), sha256.Sum256([]byte(b.shop.last().body)))
	require.Equal(t, []string{"gzip"}, b.shop.last().header["Content-Encoding"])

	b.do("POST", "/order", "", "X-Entry-Token: "+token, "Content-Length: 0")
	require.Equal(t, []string{"0"}, b.shop.last().header["Content-Length"])

	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /order HTTP/1.1\r\nHost: shop.test\r\nX-Entry-Token: "+token+"\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "abcdefg", b.shop.last().body)
	require.Equal(t, []string{"chunked"}, b.shop.last().header["Transfer-Encoding"])
}

func TestWebhookPassesExemptWithoutAPlace(t *testing.T) {
	b := newBench(t)
	b.fill()
	body := strings.Repeat("x", 1<<20)
	got := b.do("POST", "/order/callback", body, "Content-Type: application/odd")
	require.Equal(t, 200, got.StatusCode)
	require.Empty(t, got.Header.Values("Set-Cookie"))
	require.Equal(t, body, b.shop.last().body)
	require.Empty(t, b.line.take())
	require.Equal(t, 429, b.call("GET", "/order/callback", "").StatusCode)
	preflight := b.do("OPTIONS", "/order", "", "Origin: https://app.test", "Access-Control-Request-Method: POST")
	require.Equal(t, 200, preflight.StatusCode)
	require.Empty(t, preflight.Header.Values("Set-Cookie"))
	require.Equal(t, 200, b.do("GET", "/robots.txt", "").StatusCode)
}

func TestPostIsNeverSentTwice(t *testing.T) {
	b := newBench(t)
	// The shop keeps the connection once, then acts on the next request and drops it.
	var again atomic.Int64
	b.shop.does(func(_ shopRequest, conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if _, err := readShopRequest(bufio.NewReader(conn), false); err == nil {
			again.Add(1)
		}
	})
	require.Equal(t, 200, b.do("GET", "/x", "").StatusCode)
	got := b.do("POST", "/x", "", "Content-Length: 0", "Idempotency-Key: 0123456789abcdef")
	require.Equal(t, 502, got.StatusCode)
	require.Len(t, b.shop.requests(), 1)
	require.EqualValues(t, 1, again.Load())
	b.shop.does(nil)
	b.do("POST", "/x", "", "Content-Length: 0", "Idempotency-Key: 0123456789abcdef")
	require.Contains(t, strings.ToLower(strings.Join(b.shop.last().lines, "\n")), "idempotency-key: 0123456789abcdef")
}

func TestEventsAndChunksAreNotHeldBack(t *testing.T) {
	b := newBench(t)
	for _, contentType := range []string{"text/event-stream; charset=utf-8", "application/x-ndjson"} {
		next := make(chan struct{}, 3)
		b.shop.does(func(_ shopRequest, conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: "+contentType+"\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range 3 {
				_, _ = io.WriteString(conn, "5\r\nline\n\r\n")
				b.shop.hold(next)
			}
			_, _ = io.WriteString(conn, "0\r\n\r\n")
		})
		resp, err := (&http.Client{Timeout: soon}).Get(b.server.URL + "/stream")
		require.NoError(t, err)
		r := bufio.NewReader(resp.Body)
		for range 3 { // each line arrives before the shop is told to write the next
			line, err := r.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "line\n", line)
			next <- struct{}{}
		}
		resp.Body.Close()
	}
}

// A file or a long answer of known length whose parts come slowly: its head arrives
// before any of it, and each part before the next.
func TestASlowBodyOfKnownLengthIsNotHeldBack(t *testing.T) {
	b := newBench(t)
	next := make(chan struct{}, 3)
	b.shop.does(func(_ shopRequest, conn net.Conn) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 15\r\n\r\n")
		for range 3 {
			b.shop.hold(next)
			_, _ = io.WriteString(conn, "line\n")
		}
	})
	resp, err := (&http.Client{Timeout: soon}).Get(b.server.URL + "/report")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.EqualValues(t, 15, resp.ContentLength)
	r := bufio.NewReader(resp.Body)
	for range 3 {
		next <- struct{}{}
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "line\n", line)
	}
}

func TestWebSocketPassesForTheAdmittedAlone(t *testing.T) {
	b := newBench(t)
	upgrade := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	token := b.admit()
	b.fill()
	refused := b.do("GET", "/order/live", "", upgrade...)
	require.Equal(t, 429, refused.StatusCode)
	require.Equal(t, "text/plain; charset=utf-8", refused.Header.Get("Content-Type"))
	require.Less(t, len(refused.text), 100)
	require.Empty(t, b.line.line, "a handshake got a place")

	b.shop.does(func(req shopRequest, conn net.Conn) {
		if len(req.header["Upgrade"]) != 1 || req.header["Upgrade"][0] != "websocket" {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Queuegate-Command: release\r\n\r\n")
		_, _ = io.Copy(conn, conn)
	})
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
	_, err = io.WriteString(conn, raw("GET", "/order/live", "", append(upgrade, "X-Entry-Token: "+token)...))
	require.NoError(t, err)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, 101, resp.StatusCode)
	require.Empty(t, resp.Header.Get("X-Queuegate-Command"))
	_, err = io.WriteString(conn, "ping\n")
	require.NoError(t, err)
	echo, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ping\n", echo)
}

func TestConnectionIsJudgedAnewAfterAFailedUpgrade(t *testing.T) {
	b := newBench(t)
	token := b.admit()
	b.fill()
	b.shop.says("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
	r := bufio.NewReader(conn)
	_, err = io.WriteString(conn, raw("GET", "/order", "", "X-Entry-Token: "+token, "Connection: Upgrade", "Upgrade: websocket"))
	require.NoError(t, err)
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, 404, resp.StatusCode)
	_, _ = io.Copy(io.Discard, resp.Body)
	before := len(b.shop.requests())
	_, err = io.WriteString(conn, raw("GET", "/order", ""))
	require.NoError(t, err)
	resp, err = http.ReadResponse(r, nil)
	require.NoError(t, err)
	require.Equal(t, 429, resp.StatusCode)
	require.Len(t, b.shop.requests(), before)
}
