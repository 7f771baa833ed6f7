//go:build servers

package main

import (
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/examples/shop/store"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// serverDir is a folder that the user of a server can write to, and who that is:
// PostgreSQL does not run as root.
func serverDir(t *testing.T, name string) (string, *syscall.SysProcAttr) {
	t.Helper()
	dir, err := os.MkdirTemp("", "queuegate-"+name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		return dir, attr
	}
	owner, err := user.Lookup(name)
	require.NoError(t, err, "Debian's package %s makes this user", name)
	uid, err := strconv.ParseUint(owner.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(owner.Gid, 10, 32)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return dir, attr
}

// newest is the newest of the files that a pattern names.
func newest(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, found, pattern)
	return found[len(found)-1]
}

// startPostgres starts a PostgreSQL and returns the address of its database.
func startPostgres(t *testing.T) string {
	t.Helper()
	dir, attr := serverDir(t, "postgres")
	bin := filepath.Dir(newest(t, "/usr/lib/postgresql/*/bin/initdb"))
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "shop", "-A", "trust", "--no-sync", "-E", "UTF8")
	initdb.Dir, initdb.SysProcAttr = dir, attr
	out, err := initdb.CombinedOutput()
	require.NoError(t, err, string(out))
	port := queuetest.FreePort(t)
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off")
	server.Dir, server.SysProcAttr = dir, attr
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once, with its children
		_ = server.Wait()
	})
	url := "postgres://shop@127.0.0.1:" + port + "/postgres?sslmode=disable"
	require.Eventually(t, func() bool {
		s, err := store.Open(t.Context(), url, store.Options{})
		return err == nil && s.Close() == nil
	}, patience, tick)
	return url
}

// startRabbit starts a RabbitMQ and returns its address.
func startRabbit(t *testing.T) string {
	t.Helper()
	dir, attr := serverDir(t, "rabbitmq")
	port, dist, epmd := queuetest.FreePort(t), queuetest.FreePort(t), queuetest.FreePort(t)
	attr.Setpgid = true // it has children of its own
	server := exec.Command(newest(t, "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"))
	server.Dir, server.SysProcAttr = dir, attr
	server.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "RABBITMQ_NODENAME=shop" + port + "@localhost",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_NODE_PORT=" + port, "RABBITMQ_DIST_PORT=" + dist, "ERL_EPMD_PORT=" + epmd,
		"RABBITMQ_MNESIA_BASE=" + dir, "RABBITMQ_LOG_BASE=" + dir, "RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"),
		"ERL_EPMD_ADDRESS=127.0.0.1",
	}
	log := &syncBuffer{}
	server.Stdout, server.Stderr = log, log
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		_ = server.Wait()
		// The names' server of Erlang has left the group.
		epmd := exec.Command("epmd", "-kill")
		epmd.Env = server.Env
		_ = epmd.Run()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return "amqp://guest:guest@127.0.0.1:" + port + "/"
}

// sells lets two hundred buy a hundred, through a shop that is killed in the middle.
func (w *world) sells(t *testing.T, env ...string) {
	t.Helper()
	first := w.open(append(env, "SHOP_TEST_KILL_AT=confirmed")...)
	_, _ = first.order("/orders", "ann", "key", "1") // the answer may die with the shop
	first.awaitDeath()
	p := w.open(env...)
	early := p.mustOrder("ann", "key")
	p.awaitStatus(early.Order, "confirmed")
	require.Equal(t, map[int]int{http.StatusAccepted: 99, http.StatusConflict: 101}, p.crowd(200))
	last := p.mustOrder("ann", "key")
	require.Equal(t, early.body, last.body)
	w.awaitLeft(0)
}

func TestTheShopSellsExactlyItsStockWithPostgreSQL(t *testing.T) {
	url := startPostgres(t)
	newWorld(t).sells(t, "SHOP_DATABASE="+url)
	books, err := store.Open(t.Context(), url, store.Options{})
	require.NoError(t, err)
	defer func() { _ = books.Close() }()
	require.Eventually(t, func() bool {
		products, err := books.Products(t.Context())
		return err == nil && products[0].Taken == 100
	}, patience, tick)
	state, err := books.Books(t.Context(), "lantern")
	require.NoError(t, err)
	require.Len(t, state.Live, 100)
	require.Zero(t, state.Left)
}

func TestTheShopSellsExactlyItsStockThroughRabbitMQ(t *testing.T) {
	w := newWorld(t)
	w.kafka = nil
	w.sells(t, "SHOP_KAFKA_BROKERS=", "SHOP_RABBITMQ_URL="+startRabbit(t))
	w.await(100, `SELECT COUNT(*) FROM orders`)
	w.await(0, `SELECT COUNT(*) FROM outbox WHERE done_at IS NULL`)
}
