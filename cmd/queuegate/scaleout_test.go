package main_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// TestTheScaleOutExamplesServe starts two gates from each file as it is, but for
// addresses, on what it is written for.
func TestTheScaleOutExamplesServe(t *testing.T) {
	t.Parallel()
	secret := t.TempDir() + "/secret"
	require.NoError(t, os.WriteFile(secret, []byte("w8Jt3rXyQ0uZp5mB7cKe2nVfA9hLd6gS"), 0o600))
	for file, c := range map[string]struct {
		room, path string
		start      func(testing.TB) (addrs []string, master string)
	}{
		"sentinel.yaml": {"checkout", "/checkout", func(t testing.TB) ([]string, string) {
			return queuetest.StartSentinel(t).Addrs, queuetest.MasterName
		}},
		"cluster.yaml": {"theatre", "/theatre/checkout", func(t testing.TB) ([]string, string) {
			return queuetest.StartCluster(t).Addrs, ""
		}},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			addrs, master := c.start(t)
			shop := newRecordingShop(t)
			env := []string{
				"QUEUEGATE_LISTEN=127.0.0.1:0", "QUEUEGATE_ADMIN_LISTEN=127.0.0.1:0", "QUEUEGATE_UPSTREAM_URL=" + shop.URL,
				"QUEUEGATE_REDIS_ADDRS=" + strings.Join(addrs, ","), "QUEUEGATE_TOKEN_SECRET_FILE=" + secret,
				"QUEUEGATE_REDIS_TIMEOUT=5s",
			}
			if master != "" {
				env = append(env, "QUEUEGATE_REDIS_MASTER_NAME="+master)
			}
			here := startGate(t, "../../examples/scale-out/"+file, env...)
			there := startGate(t, "../../examples/scale-out/"+file, env...)
			a := newApp(t)
			a.room, a.path = c.room, c.path
			_, err := a.join(here, nil)
			require.NoError(t, err)
			got, err := a.order(there)
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, got.code, "what one gate gave counts at the other: %s", got.body)
			require.Len(t, shop.got(c.path), 1)
		})
	}
}
