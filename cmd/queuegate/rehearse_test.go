package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

func TestCheckAsksTheOtherEndsWhenItIsTold(t *testing.T) {
	t.Parallel()
	store := queuetest.Start(t)
	require.NoError(t, store.Client(t).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	shop := newRecordingShop(t)
	file := writeConfig(t, plan{rooms: room("total_active_users: 1")}, shop.URL, store.URL)
	check := func(args ...string) string {
		p := run(t, nil, append([]string{"check", "-c", file}, args...)...)
		require.Zero(t, p.exit(t), p.stderr.String())
		return p.stderr.String()
	}
	require.Empty(t, check(), "nobody is asked unless it is wanted")
	require.Equal(t, "warning: redis: maxmemory-policy is allkeys-lru: Redis would throw people out of the line when memory runs short; set noeviction\n"+
		"warning: redis: appendonly nothing is written to disk: a restart of Redis is a loss of history; set appendonly yes\n", check("--connect"))

	nobody := "127.0.0.1:" + queuetest.FreePort(t)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "queuegate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), shop.URL, "http://"+nobody, 1)), 0o600))
	store.Kill()
	told := check("--connect")
	require.Contains(t, told, "warning: upstream.url: the shop takes no connection: dial tcp "+nobody+": connect: connection refused; start it, or name its address\n")
	require.Contains(t, told, "warning: redis: could not be asked about its settings (")
}
