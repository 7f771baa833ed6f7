package order_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/examples/shop/order"
	"github.com/queuegate/queuegate/examples/shop/store"
)

// outside is a broker and a gate that note what they are told, and may be away.
type outside struct {
	order.Shelf // not asked
	away        bool
	published   []order.Event
	released    []string
}

var errAway = errors.New("away")

func (o *outside) Publish(_ context.Context, events []order.Event) error {
	if o.away {
		return errAway
	}
	o.published = append(o.published, events...)
	return nil
}

func (o *outside) Release(_ context.Context, _, pass string) error {
	if o.away {
		return errAway
	}
	o.released = append(o.released, pass)
	return nil
}

func (o *outside) Report(context.Context) error { return nil }

// newRelay returns a relay with an accepted order, and what moves its clock.
func newRelay(t *testing.T) (*order.Relay, *store.Store, *outside, func(time.Duration)) {
	t.Helper()
	now := time.Now()
	books, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "shop.db"), store.Options{Now: func() time.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = books.Close() })
	require.NoError(t, books.AddProduct(t.Context(), store.Product{ID: "lantern", Name: "Lantern", Total: 10}))
	_, err = books.Accept(t.Context(), store.Request{
		EventID: "e1", Product: "lantern", Visitor: "ann", Quantity: 1, Key: "key", At: now, Room: "checkout", Pass: "pass-of-ann",
	})
	require.NoError(t, err)
	world := &outside{}
	relay, err := order.NewRelay(order.RelayOptions{
		Books: books, Publisher: world, Gate: world, Shelf: world, Again: time.Second, Resend: time.Minute,
	})
	require.NoError(t, err)
	return relay, books, world, func(d time.Duration) { now = now.Add(d) }
}

func TestAnEventIsSentAgainUntilItsOrderIsDecided(t *testing.T) {
	relay, books, world, pass := newRelay(t)
	round := func() {
		_, err := relay.Round(t.Context())
		require.NoError(t, err)
	}
	round()
	require.Len(t, world.published, 1)
	pass(59 * time.Second)
	round()
	require.Len(t, world.published, 1, "the consumers have a minute")
	pass(time.Second)
	round()
	require.Len(t, world.published, 2, "the broker may have lost it")
	_, err := books.Confirm(t.Context(), "e1")
	require.NoError(t, err)
	pass(time.Hour)
	round()
	require.Len(t, world.published, 2)
	require.Equal(t, []string{"pass-of-ann"}, world.released)
}

func TestWhatCouldNotBeToldIsToldLater(t *testing.T) {
	relay, books, world, pass := newRelay(t)
	world.away = true
	_, err := relay.Round(t.Context())
	require.ErrorIs(t, err, errAway)
	pass(time.Second)
	world.away = false
	_, err = relay.Round(t.Context())
	require.NoError(t, err)
	require.Len(t, world.published, 1)

	_, err = books.Confirm(t.Context(), "e1")
	require.NoError(t, err)
	world.away = true
	_, err = relay.Round(t.Context())
	require.NoError(t, err, "a gate that is away holds up nothing else")
	world.away = false
	_, err = relay.Round(t.Context())
	require.NoError(t, err)
	require.Empty(t, world.released, "not yet")
	pass(time.Second)
	for range 2 {
		_, err = relay.Round(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, []string{"pass-of-ann"}, world.released, "once")
}
