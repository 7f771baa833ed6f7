package proxy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// h2cOffer is what Java's HttpClient and curl --http2 send with their first
// request to a server without TLS.
var h2cOffer = []string{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA"}

func TestOfferOfAnotherProtocolIsServedAsPlainHTTP(t *testing.T) {
	for _, tc := range []struct {
		name   string
		method string
		body   string
		lines  []string
	}{
		{"Java and curl offer h2c", "GET", "", h2cOffer},
		{"h2c with a body", "POST", "q=1", h2cOffer},
		{"settings that Connection does not name", "GET", "", []string{"Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"}},
		{"settings alone", "GET", "", []string{"HTTP2-Settings: AAMAAABkAAQAAP__"}},
		{"settings with an underscore", "GET", "", []string{"HTTP2_Settings: AAMAAABkAAQAAP__"}},
		{"an offer that Connection does not name", "GET", "", []string{"Upgrade: h2c"}},
		{"TLS on the same connection", "GET", "", []string{"Connection: Upgrade", "Upgrade: TLS/1.2"}},
		{"bytes that are no protocol", "GET", "", []string{"Connection: Upgrade", "Upgrade: \xff\xfe"}},
		{"WebSocket or h2c", "GET", "", []string{"Connection: Upgrade", "Upgrade: websocket, h2c"}},
		{"WebSocket and h2c on two lines", "GET", "", []string{"Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c"}},
		{"WebSocket twice", "GET", "", []string{"Connection: Upgrade", "Upgrade: websocket", "Upgrade: websocket"}},
		{"WebSocket by POST", "POST", "q=1", []string{"Connection: Upgrade", "Upgrade: websocket"}},
		{"WebSocket with a body", "GET", "q=1", []string{"Connection: Upgrade", "Upgrade: websocket"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			got := b.do(tc.method, "/public", tc.body, tc.lines...)
			require.Equal(t, 200, got.StatusCode, got.text)
			require.Equal(t, "shop", got.text)
			seen := b.shop.last()
			require.Equal(t, tc.body, seen.body)
			for name := range seen.header {
				require.NotContains(t, []string{"upgrade", "connection", "http2-settings", "http2_settings"}, strings.ToLower(name))
			}
			// Behind the line it is one more request without a pass.
			b.fill()
			before := len(b.shop.requests())
			require.Equal(t, 429, b.do(tc.method, "/order", tc.body, append(tc.lines, "Accept: application/json")...).StatusCode)
			require.Len(t, b.shop.requests(), before)
		})
	}
}

func TestShopThatSwitchesUnaskedIsNotFollowed(t *testing.T) {
	b := newBench(t)
	for _, answer := range []string{"Upgrade: h2c\r\n", "Upgrade: websocket\r\n", ""} {
		b.shop.says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n" + answer + "\r\n")
		require.Equal(t, 502, b.do("GET", "/public", "", h2cOffer...).StatusCode)
	}
}
