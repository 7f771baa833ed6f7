package main_test

import (
	"context"
	"net"
	"net/http"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A listener on [::] may take IPv6 alone, as some hosts are set up to.
func TestHealthIsAskedOfAListenerOfIPv6Alone(t *testing.T) {
	t.Parallel()
	for network, address := range map[string]string{"tcp6": "[::]:0", "tcp4": "0.0.0.0:0"} {
		ln, err := net.Listen(network, address)
		require.NoError(t, err)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthz" {
				http.NotFound(w, r)
			}
		})}
		go func() { _ = server.Serve(ln) }()
		t.Cleanup(func() { _ = server.Shutdown(context.Background()) })
		out, err := exec.CommandContext(t.Context(), binary(t), "healthcheck", "--admin", ln.Addr().String()).CombinedOutput()
		require.NoError(t, err, "%s: %s", ln.Addr(), out)
	}
}
