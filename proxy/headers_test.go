package proxy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

func TestHeaderReachesTheShopOrNot(t *testing.T) {
	rows := []struct {
		name   string
		line   string
		passes bool
	}{
		{"another target, by IIS and Symfony", "X-Original-URL: /order", false},
		{"another target, by ingress-nginx", "X-Original-URI: /order", false},
		{"another path", "X-Original-Path: /order", false},
		{"another path, with underscores", "X_Original_Path: /order", false},
		{"another path, by Envoy", "X-Envoy-Original-Path: /order", false},
		{"another path, by Envoy, in lower case", "x-envoy-original-path: /order", false},
		{"a rewritten path", "X-Rewrite-Path: /order", false},
		{"a rewritten URI", "X-Rewrite-Uri: /order", false},
		{"a rewritten URI with one underscore", "X-Rewrite_Uri: /order", false},
		{"a rewritten URL with dots", "X.Rewrite.Url: /order", false},
		{"an overriding URL", "X-Override-Url: /order", false},
		{"a request URI", "X-Request-Uri: /order", false},
		{"another method with a tilde", "X~HTTP~Method~Override: PUT", false},
		{"ours with dots", "X.Queuegate.Visitor: admin", false},
		{"ours with mixed marks", "X-Entry.Token: t", false},
		{"a twin of Transfer-Encoding", "Transfer_Encoding: chunked", false},
		{"a twin of Transfer-Encoding in upper case", "TRANSFER_ENCODING: chunked", false},
		{"a twin of Transfer-Encoding with a dot", "Transfer.Encoding: chunked", false},
		{"a twin of Content-Length", "Content_Length: 7", false},
		{"a twin of Content-Length with an exclamation mark", "content!length: 7", false},
		{"a twin of Proxy-Connection", "Proxy_Connection: close", false},
		{"a twin of Keep-Alive", "Keep_Alive: 1", false},
		{"a forwarded address with dots", "X.Forwarded.For: 6.6.6.6", false},
		{"a forwarded address with underscores", "X_Forwarded_For: 6.6.6.6", false},
		{"the shop's own header", "X-Request-Id: 1", true},
		{"the shop's own header with underscores", "my_header: 1", true},
		{"the shop's own header with a dot", "my.header: 1", true},
		{"a name that only begins like a removed one", "X-Original-Paths: 1", true},
		{"a content header that frames nothing", "Content_Type: text/plain", true},
	}
	for _, change := range []func(*proxy.Options){func(*proxy.Options) {}, trustLoopback} {
		b := newBench(t, change)
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				require.Equal(t, 200, b.do("GET", "/public", "", row.line).StatusCode)
				name, _, _ := strings.Cut(row.line, ":")
				var seen []string
				for _, line := range b.shop.last().lines {
					if got, _, _ := strings.Cut(line, ":"); strings.EqualFold(got, name) {
						seen = append(seen, line)
					}
				}
				require.Equal(t, row.passes, len(seen) == 1, "the shop saw %q", seen)
			})
		}
	}
}

func TestAnswerLosesOursInEverySpelling(t *testing.T) {
	b := newBench(t)
	b.shop.says("HTTP/1.1 200 OK\r\nX_Entry_Token: t\r\nX.Entry.Token: t\r\nX-Queue.Ticket: t\r\nX.Queuegate.Command: release\r\n" +
		"x_queuegate_stock: 3\r\nX.Shop: kept\r\nContent-Length: 0\r\n\r\n")
	got := b.do("GET", "/x", "")
	require.Equal(t, 200, got.StatusCode)
	require.Equal(t, "kept", got.Header.Get("X.Shop"))
	for name := range got.Header {
		folded := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
		require.NotContains(t, []string{"x-entry-token", "x-queue-ticket", "x-queuegate-command", "x-queuegate-stock"}, folded)
	}
}
