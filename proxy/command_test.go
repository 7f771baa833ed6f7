package proxy_test

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/queue"
)

// says answers with further header lines.
func speaks(status string, lines ...string) func(shopRequest, net.Conn) {
	return func(_ shopRequest, c net.Conn) {
		head := "HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: 0\r\n"
		for _, line := range lines {
			head += line + "\r\n"
		}
		_, _ = io.WriteString(c, head+"\r\n")
	}
}

func TestTheShopsWordIsObeyedForTheRoomOfTheRequestAndNeverShown(t *testing.T) {
	for _, c := range []struct {
		name, target string
		lines        []string
		want         []string
	}{
		{"release", "/order", []string{"X-Queuegate-Command: release"}, []string{"settle released"}},
		{"sold out", "/order", []string{"x-queuegate-command: sold-out"}, []string{"obey state=sold_out"}},
		{"on sale", "/order", []string{"X-Queuegate-Command: on-sale"}, []string{"obey clear state"}},
		{"stock", "/order", []string{"X-Queuegate-Stock: 17"}, []string{"obey remaining_stock=17"}},
		{"two in one line", "/order", []string{"X-Queuegate-Command: sold-out, release"}, []string{"obey state=sold_out", "settle released"}},
		{"two lines, the later counts", "/order", []string{"X-Queuegate-Command: sold-out", "X-Queuegate-Command: on-sale"}, []string{"obey clear state"}},
		{"something else", "/order", []string{"X-Queuegate-Command: open-all"}, nil},
		{"another spelling", "/order", []string{"X_Queuegate_Command: release", "X-QUEUEGATE.Stock: 1"}, nil},
		{"an exempt callback", "/order/callback", []string{"X-Queuegate-Command: sold-out, release", "X-Queuegate-Stock: 0"}, []string{"obey state=sold_out", "obey remaining_stock=0"}},
		{"an open route", "/about", []string{"X-Queuegate-Command: sold-out, release", "X-Queuegate-Stock: 0"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			pass := b.admit()
			b.line.take()
			b.shop.does(speaks("200 OK", c.lines...))
			got := b.call("POST", c.target, "{}", "X-Entry-Token: "+pass, "Cookie: queuegate_entry_sale="+pass,
				"X-Queuegate-Command: sold-out", "X-Queuegate-Stock: 3")
			require.Equal(t, 200, got.StatusCode)
			require.ElementsMatch(t, c.want, b.line.take())
			require.Empty(t, b.other.take(), "no other room hears of it")
			for name := range got.Header {
				require.NotRegexp(t, `(?i)queuegate`, name)
			}
			for name := range b.shop.last().header {
				require.NotRegexp(t, `(?i)x.queuegate.(command|stock)`, name, "a client has no say")
			}
			if cookie := got.cookie("queuegate_entry_sale"); len(c.want) > 0 && c.want[len(c.want)-1] == "settle released" {
				require.NotNil(t, cookie)
				require.Negative(t, cookie.MaxAge)
				require.NotEqual(t, 200, b.call("HEAD", "/order", "", "X-Entry-Token: "+pass).StatusCode, "the pass is over")
			} else {
				require.Nil(t, cookie)
			}
		})
	}
}

func TestReleaseEndsAnOrderThatFailedAndASuccessGoesFirst(t *testing.T) {
	for status, want := range map[string]string{"422 No": "settle released", "201 Created": "settle consumed"} {
		b := newBench(t, consuming)
		pass := b.admit()
		b.line.take()
		b.shop.does(speaks(status, "X-Queuegate-Command: release"))
		b.call("POST", "/order/pay", "{}", "X-Entry-Token: "+pass)
		require.Equal(t, []string{"claim", want}, b.line.take())
	}
}

func TestWordThatNoRoomCanObeyIsLogged(t *testing.T) {
	b := newBench(t)
	pass := b.admit()
	b.line.change(func() { b.line.disobey = fmt.Errorf("%w: remaining_stock: must be a whole number", queue.ErrSetting) })
	b.shop.does(speaks("200 OK", "X-Queuegate-Stock: lots", "X-Queuegate-Command: sell-out"))
	require.Equal(t, 200, b.call("GET", "/order", "", "X-Entry-Token: "+pass).StatusCode)
	require.Contains(t, b.log.String(), "the shop says what the room cannot obey")
}

func TestWordOfASuspendedRoomGoesUnheard(t *testing.T) {
	b := newBench(t, func(o *proxy.Options) { o.Rooms[0].Suspended = true })
	b.shop.does(speaks("200 OK", "X-Queuegate-Command: sold-out"))
	require.Equal(t, 200, b.call("GET", "/order", "").StatusCode)
	require.Empty(t, b.line.take())
}

func TestLiveMessageAndStockAreTold(t *testing.T) {
	b := newBench(t)
	b.fill()
	b.line.change(func() { b.line.settings.Message, b.line.settings.Stock = "Doors at ten", new(int64(12)) })
	call := b.call("GET", "/order", "")
	require.Equal(t, "Doors at ten", call.doc(t)["message"])
	require.EqualValues(t, 12, call.doc(t)["remaining_stock"])
	status := b.call("GET", "/_queue/sale/status", "", "X-Queue-Ticket: "+call.Header.Get("X-Queue-Ticket"))
	require.EqualValues(t, 12, status.doc(t)["remaining_stock"])
	require.Contains(t, b.navigate("/order").text, "Doors at ten")
}

func TestSoldOutRoomTellsNewcomersAndKeepsPlaces(t *testing.T) {
	b := newBench(t)
	b.fill()
	waiting := b.call("GET", "/order", "")
	b.line.change(func() { b.line.state = queue.RoomSoldOut; b.line.settings.Stock = new(int64(0)) })
	got := b.call("POST", "/order", "{}")
	require.Equal(t, 429, got.StatusCode)
	require.Empty(t, got.Header.Get("Retry-After"), "there is nothing to wait for")
	require.Empty(t, got.Header.Get("X-Queue-Ticket"))
	d := got.doc(t)
	require.Equal(t, "urn:queuegate:problem:sold-out", d["type"])
	require.Equal(t, "sold_out", d["room_state"])
	require.Equal(t, "not_entered", d["status"])
	require.EqualValues(t, 0, d["remaining_stock"])
	page := b.navigate("/order")
	require.Contains(t, page.text, `data-state="sold_out"`)
	require.Empty(t, page.Header.Get("Retry-After"))
	kept := b.call("GET", "/order", "", "X-Queue-Ticket: "+waiting.Header.Get("X-Queue-Ticket")).doc(t)
	require.Equal(t, "waiting", kept["status"])
	require.Equal(t, "sold_out", kept["room_state"])
	require.EqualValues(t, 1, kept["position"])
}
