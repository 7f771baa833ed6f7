package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// composed reads a file of examples/compose, each of the pairs being replaced, the
// first of which must be there.
func composed(t testing.TB, name string, pairs ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../examples/compose", name))
	require.NoError(t, err)
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, string(text), pairs[i], name)
	}
	return strings.NewReplacer(pairs...).Replace(string(text))
}

// TestTheComposedInstallationLosesNobody runs what examples/compose starts, from
// processes and with its own files: a gate and Redis die and come back.
func TestTheComposedInstallationLosesNobody(t *testing.T) {
	t.Parallel()
	shop, dir := newRecordingShop(t), t.TempDir()
	conf := filepath.Join(dir, "redis.conf")
	require.NoError(t, os.WriteFile(conf, []byte(composed(t, "redis.conf", "dir /data\n", "", "bind * -::*\n", "")), 0o600))
	redis := queuetest.Start(t, "--include", conf)
	file := filepath.Join(dir, "queuegate.yaml")
	require.NoError(t, os.WriteFile(file, []byte(composed(t, "queuegate.yaml", "172.31.77.10/32", "127.0.0.1/32", "total_active_users: 20", "total_active_users: 1", "new_users_per_minute: 60", "new_users_per_minute: 6000")), 0o600))
	var gates []*gate
	public := queuetest.FreePort(t)
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		g := startGate(t, file, "QUEUEGATE_LISTEN="+host+":"+public, "QUEUEGATE_ADMIN_LISTEN="+host+":"+queuetest.FreePort(t), "QUEUEGATE_UPSTREAM_URL="+shop.URL,
			"QUEUEGATE_REDIS_URL="+redis.URL, "QUEUEGATE_REDIS_TIMEOUT=5s", "QUEUEGATE_TOKEN_SECRET="+signingSecret)
		g.waitReady(t)
		gates = append(gates, g)
	}
	address := freeAddress(t)
	startNginx(t, address, composed(t, "nginx.conf", "172.31.77.11:8080", "127.0.0.1:"+public, "172.31.77.12:8080", "127.0.0.2:"+public, "listen 8080", "listen "+address))
	front := &gate{url: "http://" + address}

	// One is inside, the others wait in the order they came.
	holder := newApp(t)
	holder.enter(t, front)
	require.Equal(t, []string{"127.0.0.1, 127.0.0.1"}, shop.last(t, "/checkout").Header["X-Forwarded-For"])
	line := make([]*app, 8)
	for i := range line {
		line[i] = newApp(t)
		got, err := line[i].join(front, nil)
		require.NoError(t, err)
		require.Equal(t, "waiting", got.doc.Status, "%s", got.body)
	}
	keeps := func(when string) {
		for i, a := range line {
			eventually(t, when+" everybody is in line", func() bool {
				got, err := a.poll(front)
				return err == nil && got.doc.Status == "waiting" && got.doc.Position != nil && *got.doc.Position <= int64(i+1)
			})
		}
	}
	keeps("at first")
	gates[0].kill()
	keeps("without a gate")
	gates[0].start(t)
	redis.Kill()
	redis.Resume(t)
	keeps("after Redis")
	for i, a := range line {
		left, err := holder.release(front)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, left.code, "%s", left.body)
		a.await(t, front)
		for _, behind := range line[i+1:] {
			behind.waits(t, front)
		}
		holder = a
	}
}
