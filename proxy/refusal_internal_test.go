package proxy

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAShopThatRefusesIsTriedOnceASecondWhileAnybodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, down := 0, true
		r := &refusal{log: slog.New(slog.DiscardHandler), dial: func(context.Context, string, string) (net.Conn, error) {
			tries++
			if down {
				return nil, errors.New("refused")
			}
			here, _ := net.Pipe()
			return here, nil
		}}
		_, err := r.DialContext(t.Context(), "tcp", "shop:80")
		require.Error(t, err)
		for range 100 { // ten seconds
			require.True(t, r.refuses())
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		require.InDelta(t, 11, tries, 1)

		time.Sleep(time.Hour)
		require.InDelta(t, 11, tries, 1, "nobody asked")
		down = false
		require.True(t, r.refuses())
		synctest.Wait()
		require.False(t, r.refuses())
	})
}

// A shop that takes every other connection is down and up many times a second. The
// lines follow that; who reads the log wants to hear of it once.
func TestAShopThatComesAndGoesIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		down := false
		r := &refusal{log: slog.New(slog.NewJSONHandler(&text, nil)), dial: func(context.Context, string, string) (net.Conn, error) {
			if down {
				return nil, errors.New("refused")
			}
			here, _ := net.Pipe()
			return here, nil
		}}
		for range 100 {
			time.Sleep(500 * time.Millisecond)
			down = !down
			conn, err := r.DialContext(t.Context(), "tcp", "shop:80")
			require.Equal(t, down, err != nil)
			require.Equal(t, down, r.refuses())
			if conn != nil {
				require.NoError(t, conn.Close())
			}
		}
		require.Equal(t, 1, strings.Count(text.String(), "\n"), text.String())
		require.Contains(t, text.String(), "the shop takes no connections")
		for range 10 {
			time.Sleep(500 * time.Millisecond)
			require.False(t, r.refuses())
		}
		require.Equal(t, 2, strings.Count(text.String(), "\n"), text.String())
		require.Contains(t, text.String(), "the shop takes connections again")
	})
}

func TestWhoGivesUpSaysNothingOfTheShop(t *testing.T) {
	r := &refusal{log: slog.New(slog.DiscardHandler), dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.DialContext(ctx, "tcp", "shop:80")
	require.Error(t, err)
	require.False(t, r.refuses())

	late, done := context.WithTimeout(t.Context(), time.Nanosecond)
	defer done()
	_, err = r.DialContext(late, "tcp", "shop:80")
	require.Error(t, err)
	require.True(t, r.refuses(), "nobody answered in time")
}
