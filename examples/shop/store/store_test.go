package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/examples/shop/store"
)

// open returns an empty database with total lanterns, whose clock the test moves.
func open(t *testing.T, total int) (*store.Store, *time.Time) {
	t.Helper()
	now := time.UnixMilli(1_800_000_000_000).UTC()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "shop.db"), store.Options{Now: func() time.Time { return now }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	require.NoError(t, s.AddProduct(t.Context(), store.Product{ID: "lantern", Name: "Lantern", Total: total}))
	return s, &now
}

func request(visitor, event string, quantity int) store.Request {
	return store.Request{
		EventID: event, Product: "lantern", Visitor: visitor, Quantity: quantity, Key: "key",
		At: time.UnixMilli(1_700_000_000_000).UTC(), Room: "checkout", Pass: "pass-of-" + visitor,
	}
}

// claim returns what the outbox asks for, by kind.
func claim(t *testing.T, s *store.Store) map[store.Kind]store.Task {
	t.Helper()
	tasks, err := s.Claim(t.Context(), 10, time.Second)
	require.NoError(t, err)
	byKind := map[store.Kind]store.Task{}
	for _, task := range tasks {
		byKind[task.Kind] = task
	}
	return byKind
}

func TestAnOrderIsConfirmedOnce(t *testing.T) {
	s, _ := open(t, 10)
	_, err := s.Accept(t.Context(), request("ann", "e1", 3))
	require.NoError(t, err)
	for range 2 {
		status, err := s.Confirm(t.Context(), "e1")
		require.NoError(t, err)
		require.Equal(t, store.StatusConfirmed, status)
	}
	status, err := s.Fail(t.Context(), "e1")
	require.NoError(t, err)
	require.Equal(t, store.StatusConfirmed, status, "what is decided stays")
	products, err := s.Products(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, products[0].Taken)
	_, err = s.Confirm(t.Context(), "e2")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestADecisionWritesWhatFollowsFromIt(t *testing.T) {
	tests := []struct {
		name     string
		total    int
		decide   func(*store.Store) (store.Status, error)
		want     store.Status
		follows  store.Kind
		keptPass string
	}{
		{"a confirmed order gives the pass back", 10, func(s *store.Store) (store.Status, error) { return s.Confirm(t.Context(), "e1") },
			store.StatusConfirmed, store.KindRelease, "pass-of-ann"},
		{"one that failed gives the stock back and forgets the pass", 10, func(s *store.Store) (store.Status, error) { return s.Fail(t.Context(), "e1") },
			store.StatusFailed, store.KindGiveBack, ""},
		{"so does one for which nothing is left", 2, func(s *store.Store) (store.Status, error) { return s.Confirm(t.Context(), "e1") },
			store.StatusSoldOut, store.KindGiveBack, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := open(t, tt.total)
			_, err := s.Accept(t.Context(), request("ann", "e1", 3))
			require.NoError(t, err)
			status, err := tt.decide(s)
			require.NoError(t, err)
			require.Equal(t, tt.want, status)
			open := claim(t, s)
			require.Len(t, open, 1, "the event is sent no more")
			require.Equal(t, tt.keptPass, open[tt.follows].Request.Pass)
			require.NoError(t, s.Done(t.Context(), open[tt.follows]))
			had, err := s.Request(t.Context(), "e1")
			require.NoError(t, err)
			require.Empty(t, had.Pass)
		})
	}
}

func TestAVisitorHasOneLiveOrderOfAProduct(t *testing.T) {
	s, _ := open(t, 10)
	for range 2 { // the same event twice is once
		had, err := s.Accept(t.Context(), request("ann", "e1", 1))
		require.NoError(t, err)
		require.Equal(t, "e1", had.EventID)
	}
	had, err := s.Accept(t.Context(), request("ann", "e2", 1))
	require.ErrorIs(t, err, store.ErrOther)
	require.Equal(t, "e1", had.EventID)
	_, err = s.Fail(t.Context(), "e1")
	require.NoError(t, err)
	had, err = s.Buy(t.Context(), request("ann", "e3", 1))
	require.NoError(t, err)
	require.Equal(t, store.StatusConfirmed, had.Status)
	_, err = s.Buy(t.Context(), request("ben", "e4", 10))
	require.ErrorIs(t, err, store.ErrSoldOut)
	_, err = s.Request(t.Context(), "e4")
	require.ErrorIs(t, err, store.ErrNotFound, "nothing is written of what was not sold")
}

func TestALineIsClaimedAgainUntilItIsDone(t *testing.T) {
	s, now := open(t, 10)
	_, err := s.Accept(t.Context(), request("ann", "e1", 1))
	require.NoError(t, err)
	require.Len(t, claim(t, s), 1)
	require.Empty(t, claim(t, s), "somebody has it")
	*now = now.Add(time.Second)
	again := claim(t, s)
	require.Equal(t, 1, again[store.KindOrder].Attempts, "whoever had it died")
	require.NoError(t, s.Later(t.Context(), again[store.KindOrder], time.Minute))
	*now = now.Add(59 * time.Second)
	require.Empty(t, claim(t, s))
	*now = now.Add(time.Second)
	require.Len(t, claim(t, s), 1)
}
