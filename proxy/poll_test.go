package proxy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy"
)

// hurries polls until the gate answers that it is too fast.
func (b *bench) hurries(headers ...string) reply {
	b.t.Helper()
	for range 200 {
		if got := b.call("GET", "/_queue/sale/status", "", headers...); got.StatusCode == 429 {
			return got
		}
	}
	require.Fail(b.t, "nobody is too fast")
	return reply{}
}

func TestWhoPollsTooFastIsToldThePlaceAgainButNoCredentials(t *testing.T) {
	stopped := time.Now() // who asks too fast does so however slow the machine is
	b := newBench(t, func(o *proxy.Options) { o.Now = func() time.Time { return stopped } })
	pass := "X-Entry-Token: " + b.admit()
	b.fill()
	waits := with(b.waits(1))
	d := b.polls(waits)
	require.NotEmpty(t, d["ticket"])
	got := b.hurries(waits)
	again := got.doc(t)
	for _, same := range []string{"room", "status", "room_state", "position", "ahead", "behind", "waiting", "joined_at"} {
		require.Equal(t, d[same], again[same], same)
	}
	require.NotContains(t, again, "ticket")
	require.NotEmpty(t, got.Header.Get("Retry-After"))
	require.Empty(t, got.Cookies())

	active := b.polls(waits, pass)
	require.NotEmpty(t, active["entry_token"])
	got = b.hurries(waits, pass)
	again = got.doc(t)
	require.Equal(t, active["status"], again["status"])
	require.Equal(t, active["entry_expires_at"], again["entry_expires_at"])
	require.NotContains(t, again, "entry_token")
	require.NotContains(t, again, "ticket")
	require.Empty(t, got.Cookies())
	require.Empty(t, got.Header.Get("X-Entry-Token"))
}

// One ticket in two hands: planted in the other's browser, or left in a shared one.
func TestNobodyIsToldByATicketWhatItsOtherHolderWasTold(t *testing.T) {
	for name, proof := range map[string]func(*bench) string{
		"somebody with a name": func(*bench) string { return alice },
		"somebody with a pass": func(b *bench) string { return "X-Entry-Token: " + b.admit() },
	} {
		t.Run(name, func(t *testing.T) {
			stopped := time.Now() // who asked too fast does so however slow the machine is
			b := newBench(t, members, func(o *proxy.Options) { o.Now = func() time.Time { return stopped } })
			other := proof(b)
			b.fill()
			b.waits(1, alice)
			shared := with(b.waits(2))
			mine := b.hurries(shared).doc(t)
			require.EqualValues(t, 2, mine["position"])

			var told reply
			require.Eventually(t, func() bool {
				told = b.call("GET", "/_queue/sale/status", "", shared, other)
				return told.StatusCode == 200
			}, soon, time.Millisecond)
			require.NotEqual(t, told.doc(t)["position"], mine["position"])
			again := b.hurries(shared).doc(t)
			require.Equal(t, "waiting", again["status"])
			require.Equal(t, mine["position"], again["position"], "what the other was told is not repeated")
			require.NotContains(t, again, "ticket")
			require.NotContains(t, again, "entry_token")
			require.NotContains(t, again, "entry_expires_at")
		})
	}
}
