package queue_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
)

// newClient returns a client that connects nowhere.
func newClient(t *testing.T, o queue.ClientOptions) redis.UniversalClient {
	t.Helper()
	client, err := queue.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestClientsOfEveryKindOfRedisKeepTheSamePromises(t *testing.T) {
	t.Parallel()
	const timeout = 100 * time.Millisecond
	for name, o := range map[string]queue.ClientOptions{
		"one server": {URL: "redis://127.0.0.1:1/3"},
		"a socket":   {URL: "unix:///nowhere.sock?db=3"},
		"Sentinels":  {Addrs: []string{"127.0.0.1:1"}, MasterName: "m"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Timeout, o.Lines, o.Username, o.Password = timeout, 3, "gate", "secret"
			opts := newClient(t, o).(*redis.Client).Options()
			require.Zero(t, opts.MaxRetries, "no command is tried twice")
			require.Equal(t, 1, opts.DialerRetries)
			require.True(t, opts.ContextTimeoutEnabled)
			require.True(t, opts.DisableIdentity)
			require.Equal(t, maintnotifications.ModeDisabled, opts.MaintNotificationsConfig.Mode)
			require.Equal(t, timeout, opts.PoolTimeout)
			require.Equal(t, 48, opts.PoolSize, "each line can have all its calls in flight")
			require.Equal(t, "gate:secret", opts.Username+":"+opts.Password)
			if o.MasterName == "" {
				require.Equal(t, 3, opts.DB)
			} else {
				// A frozen Sentinel must run out of time before the connection does
				// that asks it, again on a new connection, and then the others: else
				// the client holds the caller to blame and asks it for ever.
				require.GreaterOrEqual(t, opts.DialTimeout, 4*opts.ReadTimeout)
			}
		})
	}
	t.Run("a Cluster", func(t *testing.T) {
		opts := newClient(t, queue.ClientOptions{Addrs: []string{"127.0.0.1:1"}, Timeout: timeout, Lines: 3}).(*redis.ClusterClient).Options()
		require.Negative(t, opts.MaxRetries)
		require.Equal(t, 3, opts.MaxRedirects)
		require.Equal(t, 1, opts.DialerRetries)
		require.True(t, opts.ContextTimeoutEnabled)
		require.True(t, opts.DisableIdentity)
		require.Equal(t, maintnotifications.ModeDisabled, opts.MaintNotificationsConfig.Mode)
		require.Equal(t, timeout, opts.PoolTimeout)
		require.Equal(t, 48, opts.PoolSize)
		require.False(t, opts.ReadOnly || opts.RouteByLatency || opts.RouteRandomly, "masters alone are asked")
		require.LessOrEqual(t, opts.ClusterStateReloadInterval, time.Second)
	})
}
