package proxy_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/route"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

func inShadow(o *proxy.Options) { o.Rooms[0].Shadow = true }

// newShadowBench is a bench whose room sale diverts nobody, with a real line.
func newShadowBench(t *testing.T, slots int64) (*bench, *queue.Line, *atomic.Int64) {
	t.Helper()
	line, err := queue.New(queue.Options{
		Redis: queuetest.Embedded(t), Room: "sale", Timeout: queuetest.Timeout, Limits: queue.Limits{Slots: slots},
		PresenceWindow: 5 * time.Minute, // nobody steps aside before all were counted
	})
	require.NoError(t, err)
	require.NoError(t, line.Configure(t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = line.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	turns := &atomic.Int64{}
	b := newBench(t, inShadow, trustLoopback, func(o *proxy.Options) {
		o.Rooms[0].Line = line
		o.Rooms[0].Consume = proxy.Consume{Routes: []route.Rule{{Paths: []string{"/order"}, Methods: []string{"POST"}}}}
		o.Observe = func(seen proxy.Observation) {
			if seen.Outcome == "" && seen.TookUp {
				turns.Add(1)
			}
		}
	})
	t.Cleanup(b.gate.Close)
	return b, line, turns
}

// person is somebody who is known by address and program alone.
func person(n int) string { return fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", n) }

func TestShadowShowsTheNumbersOfASaleAndDivertsNobody(t *testing.T) {
	b, line, turns := newShadowBench(t, 3)
	becomes := func(waiting, holding int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			room, _ := line.Room()
			return room.Waiting == waiting && room.Holding == holding
		}, soon, 5*time.Millisecond, "%d waiting and %d in the shop", waiting, holding)
	}
	for n := range 10 {
		got := b.navigate("/order", person(n))
		require.Equal(t, 200, got.StatusCode)
		require.Empty(t, got.Cookies())
		if n == 0 {
			becomes(0, 1) // admitted with the request itself
		}
	}
	becomes(7, 3)
	for n := range 10 { // the same people again are the same people
		require.Equal(t, 200, b.navigate("/order", person(n)).StatusCode)
	}
	becomes(7, 3)
	require.Eventually(t, func() bool { return turns.Load() == 3 }, soon, 5*time.Millisecond, "passes taken up, and how long that took")
	require.GreaterOrEqual(t, strings.Count(b.log.String(), `"reason":"shadow_queued"`), 7)
	require.Contains(t, b.log.String(), `"reason":"shadow_passed"`)
	require.NotContains(t, b.log.String(), `"decision":"queued"`)

	require.Equal(t, 200, b.do("POST", "/order", "x", person(0)).StatusCode) // an order that succeeds
	becomes(6, 3)
	b.do("HEAD", "/order", "", person(99)) // whoever would get no place has none here
	becomes(6, 3)
	require.Equal(t, 200, b.do("POST", "/order/callback", "x", person(98)).StatusCode) // exempt
	becomes(6, 3)
}

func TestShadowChangesNoByteInEitherDirection(t *testing.T) {
	heard := func(change func(*proxy.Options)) (shop, client string) {
		b := newBench(t, change)
		t.Cleanup(b.gate.Close)
		b.shop.says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\nCache-Control: max-age=9\r\nConnection: close\r\n\r\nok")
		for _, lines := range [][]string{{}, {"Cookie: x=y; z"}, {"Idempotency-Key: 0123456789abcdef", "X-Odd:  two  spaces"}} {
			got := b.do("POST", "/order/%2e?a;b", "body", append(lines, "User-Agent: t")...)
			sent := b.shop.last()
			shop += sent.line + "\n" + strings.Join(sent.lines, "\n") + sent.body
			got.Header.Del("Date") // a second may pass
			client += fmt.Sprint(got.StatusCode, got.Header, got.text)
		}
		address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
		return address.ReplaceAllString(shop, ""), address.ReplaceAllString(client, "")
	}
	offShop, offClient := heard(func(o *proxy.Options) { o.Rooms[0].Suspended = true })
	shop, client := heard(inShadow)
	require.Equal(t, offShop, shop)
	require.Equal(t, offClient, client)
}

// hangingLine never answers.
type hangingLine struct {
	*fakeLine
	over chan struct{}
}

func (l hangingLine) Join(context.Context, queue.Arrival) (queue.Standing, error) {
	<-l.over
	return queue.Standing{}, queue.ErrUnavailable
}

func TestShadowWaitsForNothing(t *testing.T) {
	line := hangingLine{newFakeLine(1), make(chan struct{})}
	b := newBench(t, inShadow, func(o *proxy.Options) { o.Rooms[0].Line = line })
	t.Cleanup(func() { close(line.over); b.gate.Close() })
	for range 3 {
		require.Equal(t, 200, b.navigate("/order").StatusCode)
	}
	require.Equal(t, 3, strings.Count(b.log.String(), `"reason":"shadow_unknown"`))
}

func (l *fakeLine) joins() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.arrivals)
}

func TestShadowGoesOnUnderTheGateThatTakesTheOthersPlace(t *testing.T) {
	var o proxy.Options
	b := newBench(t, inShadow, func(made *proxy.Options) { o = *made })
	require.Equal(t, 200, b.navigate("/order").StatusCode)
	require.Eventually(t, func() bool {
		b.navigate("/order")
		return strings.Contains(b.log.String(), "shadow_passed")
	}, soon, 5*time.Millisecond)
	o.After = b.gate
	next, err := proxy.New(o)
	require.NoError(t, err)
	joined := b.line.joins()
	b.gate.Close()
	b.server.Config.Handler = b.served(next)
	require.Equal(t, 200, b.navigate("/order").StatusCode)
	require.Equal(t, joined, b.line.joins(), "nobody has to join again")
	next.Close()
}
