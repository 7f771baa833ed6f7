package proxy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

func TestAnswerHasTheShapeItsReaderUnderstands(t *testing.T) {
	b := newBench(t)
	b.fill()
	const html, json, problem, text = "text/html; charset=utf-8", "application/json", "application/problem+json", "text/plain; charset=utf-8"
	for _, c := range []struct {
		name   string
		method string
		lines  []string
		want   string
		place  bool
	}{
		{"a browser opening a page", "GET", []string{"Sec-Fetch-Mode: navigate", "Accept: " + browserAccept}, html, true},
		{"an older browser", "GET", []string{"Accept: " + browserAccept}, html, true},
		{"a browser with HTML behind other things", "GET", []string{"Accept: text/html,application/xhtml+xml,*/*;q=0.8"}, html, true},
		{"a frame", "GET", []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe", "Accept: " + browserAccept}, html, true},
		{"axios", "GET", []string{"Accept: application/json, text/plain, */*"}, json, true},
		{"a JSON API client", "POST", []string{"Accept: application/vnd.api+json"}, json, true},
		{"fetch", "POST", []string{"Accept: */*", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"}, json, true},
		{"fetch that asks for HTML", "GET", []string{"Accept: text/html", "Sec-Fetch-Mode: same-origin"}, json, true},
		{"jQuery", "GET", []string{"Accept: */*", "X-Requested-With: XMLHttpRequest"}, json, true},
		{"curl", "GET", []string{"Accept: */*"}, json, true},
		{"nothing said", "GET", nil, json, true},
		{"JSON before HTML", "GET", []string{"Accept: application/json, text/html;q=0.9"}, json, true},
		{"HTML refused", "GET", []string{"Accept: text/html;q=0, */*"}, json, true},
		{"an event source", "GET", []string{"Accept: text/event-stream"}, json, true},
		{"a quality that is no number", "GET", []string{"Accept: text/html;q=x"}, json, true},
		{"a prefetch", "GET", []string{"Sec-Purpose: prefetch;prerender", "Sec-Fetch-Mode: navigate", "Accept: " + browserAccept}, problem, false},
		{"an older prefetch", "GET", []string{"Purpose: prefetch", "Accept: " + browserAccept}, problem, false},
		{"HEAD of a program", "HEAD", nil, problem, false},
		{"HEAD of a browser", "HEAD", []string{"Accept: " + browserAccept}, html, false},
		{"an image", "GET", []string{"Sec-Fetch-Dest: image", "Sec-Fetch-Mode: no-cors", "Accept: image/avif,*/*;q=0.8"}, problem, false},
		{"a script", "GET", []string{"Sec-Fetch-Dest: script", "Accept: */*"}, problem, false},
		{"an image of an older browser", "GET", []string{"Accept: image/png,image/*;q=0.8,*/*;q=0.5"}, problem, false},
		{"a WebSocket handshake", "GET", []string{"Connection: Upgrade", "Upgrade: websocket"}, text, false},
		{"a huge Accept", "GET", []string{"Accept: " + strings.Repeat("text/x,", 9000)}, json, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := b.line.seq
			got := b.do(c.method, "/order", "", c.lines...)
			require.Equal(t, 429, got.StatusCode)
			require.Equal(t, c.want, got.Header.Get("Content-Type"))
			require.Equal(t, "no-store", got.Header.Get("Cache-Control"))
			require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
			require.NotEmpty(t, got.Header.Get("Retry-After"))
			require.Empty(t, got.Header.Get("Location"))
			require.Equal(t, c.place, b.line.seq > before, "place")
			require.Equal(t, c.place, len(got.Header.Values("Set-Cookie")) > 0)
			if c.method == "HEAD" {
				require.Empty(t, got.text)
			}
		})
	}
	require.Empty(t, b.shop.requests())
}

func TestConfiguredStatusIsForNavigationsAlone(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].QueueingStatusCode = 200 })
	b.fill()
	require.Equal(t, 200, b.navigate("/order").StatusCode)
	require.Equal(t, 429, b.call("GET", "/order", "").StatusCode)
	form := b.do("POST", "/order", "a=1", "Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Mode: navigate", "Accept: "+browserAccept)
	require.Equal(t, 429, form.StatusCode, "a form must not look accepted")
}

func TestFormIsNotAcceptedAndLeadsBackToItsPage(t *testing.T) {
	b := newBench(t)
	b.fill()
	for referer, want := range map[string]string{
		"http://shop.test/order/form?step=2": `/order/form?step=2`,
		"http://evil.test/order/form":        `/order`,
		"http://shop.test//evil.test/":       `/order`,
		"http://shop.test/_queue/sale":       `/order`,
		"javascript:alert(1)":                `/order`,
		"":                                   `/order`,
	} {
		got := b.do("POST", "/order/submit", "a=1&b=2&c=3", "Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Mode: navigate",
			"Accept: "+browserAccept, "Referer: "+referer)
		require.Equal(t, 429, got.StatusCode)
		require.Contains(t, got.text, `href="`+want+`"`, referer)
		require.NotContains(t, got.text, "/order/submit", "the address of the form would be opened as if it were a page")
		require.NotContains(t, got.text, "evil")
	}
	require.Empty(t, b.shop.requests())
}

func TestPassiveRequestsUseAReadyPassWithoutTakingItUp(t *testing.T) {
	b := newBench(t)
	ready := b.call("GET", "/order", "").Header.Get("X-Entry-Token")
	b.line.take()
	for _, line := range []string{"Sec-Purpose: prefetch", "Sec-Fetch-Dest: image"} {
		got := b.do("GET", "/order", "", line, "X-Entry-Token: "+ready)
		require.Equal(t, 200, got.StatusCode)
		require.Empty(t, got.Header.Get("X-Entry-Token"))
	}
	require.Equal(t, 200, b.do("HEAD", "/order", "", "X-Entry-Token: "+ready).StatusCode)
	require.Empty(t, b.line.take())
	b.line.advance(b.line.claim)
	require.Equal(t, 429, b.do("HEAD", "/order", "", "X-Entry-Token: "+ready).StatusCode)
	require.Empty(t, b.line.take())
	require.Equal(t, 200, b.do("GET", "/order", "", "X-Entry-Token: "+ready).StatusCode, "nobody took its slot")
	require.Equal(t, []string{"claim"}, b.line.take())
}

func TestEightParallelFirstRequestsEndWithOneUsableIdentity(t *testing.T) {
	b := newBench(t)
	b.fill()
	var jar string
	for range 8 { // none has a cookie yet: each answer is that of a newcomer
		got := b.navigate("/order")
		jar = got.cookie("queuegate_ticket_sale").Value // the browser keeps the last
		for _, c := range got.Cookies() {
			require.Positive(t, c.MaxAge, "nothing is deleted")
		}
	}
	require.EqualValues(t, 8, b.line.seq)
	b.navigate("/order", "Cookie: queuegate_ticket_sale="+jar)
	require.EqualValues(t, 8, b.line.seq)
}

func TestEightParallelRequestsWithOneTicketHaveOnePlace(t *testing.T) {
	b := newBench(t)
	b.fill()
	ticket := b.tickets.Seal("sale", ticketOf(newVisitor(), 5))
	done := make(chan reply, 8)
	for range 8 {
		go func() { done <- b.call("GET", "/order", "", "X-Queue-Ticket: "+ticket) }()
	}
	for range 8 {
		require.EqualValues(t, 1, receive(t, done).doc(t)["position"])
	}
	require.Len(t, b.line.line, 1)
}
