package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// TestTheShopInsideItsGateServes runs the program's own serve on a real Redis.
func TestTheShopInsideItsGateServes(t *testing.T) {
	addr := net.JoinHostPort("127.0.0.1", queuetest.FreePort(t))
	redis := queuetest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- serve(ctx, redis.URL, "thirty-two bytes, one more and a few", addr) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-failed:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.Fail(t, "the shop does not end")
		}
	})

	read := func(path string) string {
		var text string
		require.Eventually(t, func() bool {
			answer, err := http.Get("http://" + addr + path)
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			text = string(body)
			return err == nil && answer.StatusCode == http.StatusOK
		}, time.Minute, 10*time.Millisecond)
		return text
	}
	require.Equal(t, "/about for admission \"\"\n", read("/about"))
	require.Regexp(t, `^/checkout for admission "[^"]+"\n$`, read("/checkout"))
}
