package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/proxy/route/routetest"
)

// heads are the corpus and what it does not have: exempt routes, our own
// addresses, a room that is off.
func heads() []string {
	list := []string{
		"POST /order/callback", "GET /order/callback", "POST /order/callbacks", "POST /order/callback\tX-HTTP-Method-Override: GET",
		"GET /robots.txt", "GET /_queue/sale/status", "HEAD /_queue/sale/status", "GET /_queue/sale", "GET /_QUEUE/sale/status",
		"GET /_queue/../order", "GET /_queue/nosuch", "GET /off/1", "POST /off/../order", "GET //a|b",
		"GET /order\tAccept: text/html", "GET /order\tSec-Fetch-Mode: navigate\tSec-Purpose: prefetch", "GET /order\tSec-Fetch-Dest: image",
	}
	for _, c := range routetest.Cases() {
		list = append(list, c.Head)
	}
	return list
}

// withRoomOff adds a room that is suspended.
func withRoomOff(o *proxy.Options) {
	o.Rooms = append(o.Rooms, proxy.Room{Name: "off", Suspended: true, Protect: []route.Rule{{Paths: []string{"/off"}}}})
}

// wire sends bytes as they are and reads the answer.
func (b *bench) wire(text string) reply {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	require.NoError(b.t, err)
	defer conn.Close()
	require.NoError(b.t, conn.SetDeadline(time.Now().Add(soon)))
	_, err = io.WriteString(conn, text)
	require.NoError(b.t, err)
	method, _, _ := strings.Cut(text, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(b.t, err, "%q", text)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return reply{Response: resp, text: string(body)}
}

func TestExplainSaysWhatTheGateDoes(t *testing.T) {
	b := newBench(t, withRoomOff)
	b.fill()
	b.other.setSlots(0)
	verdicts := map[proxy.Verdict]int{}
	for _, head := range heads() {
		text := routetest.Raw(head)
		before := len(b.shop.requests())
		got := b.wire(text)
		reached := b.shop.requests()[before:]
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil { // the server refuses it before the gate sees it
			require.Equal(t, 400, got.StatusCode, "%q", head)
			require.Empty(t, reached, "%q", head)
			continue
		}
		e := b.gate.Explain(r)
		verdicts[e.Verdict]++
		switch e.Verdict {
		case proxy.VerdictRefused:
			require.Equal(t, e.Status, got.StatusCode, "%q", head)
			require.Empty(t, reached, "%q", head)
			if r.Method != "HEAD" {
				require.Equal(t, e.Detail, got.doc(t)["detail"], "%q", head)
			}
		case proxy.VerdictOwn:
			require.Empty(t, reached, "%q", head)
			require.Contains(t, []int{200, 404, 405, 429}, got.StatusCode, "%q", head)
		case proxy.VerdictProtected:
			require.Empty(t, reached, "%q", head)
			require.Equal(t, 429, got.StatusCode, "%q", head)
			want := map[string]string{
				"navigation": "text/html; charset=utf-8", "websocket": "text/plain; charset=utf-8",
				"program": "application/json", "passive": "application/problem+json",
			}[e.Sender]
			require.Equal(t, want, got.Header.Get("Content-Type"), "%q", head)
		default:
			require.Len(t, reached, 1, "%q", head)
			require.Equal(t, e.Target, reached[0].target(), "%q", head)
		}
	}
	for _, v := range []proxy.Verdict{
		proxy.VerdictRefused, proxy.VerdictOwn, proxy.VerdictOpen, proxy.VerdictExempt, proxy.VerdictOff, proxy.VerdictProtected,
	} {
		require.NotZero(t, verdicts[v], "the corpus has nothing that is %s", v)
	}
}
