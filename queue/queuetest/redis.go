// Package queuetest starts the Redis servers that tests of the line run against:
// a real redis-server on a socket of its own, and the embedded one.
package queuetest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
)

// Timeout is what the clients of tests allow one command: a machine that is
// busy with other tests must not decide a verdict.
const Timeout = time.Minute

// Backends are the servers every test of the line runs on, by name.
func Backends() map[string]func(testing.TB) *redis.Client {
	return map[string]func(testing.TB) *redis.Client{"redis": Real, "embedded": Embedded}
}

// Real returns a client of a new redis-server that ends with the test.
func Real(t testing.TB) *redis.Client {
	t.Helper()
	return Start(t).Client(t)
}

// Embedded returns a client of a new embedded Redis, reached without a socket.
func Embedded(t testing.TB) *redis.Client {
	t.Helper()
	m := miniredis.NewMiniRedis()
	t.Cleanup(m.Close)
	return single(t, queue.ClientOptions{
		Dial: func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
	})
}

// Server is one redis-server process.
type Server struct {
	Addr string // 127.0.0.1:port
	URL  string // redis://127.0.0.1:port
	// Relay is what callers who are told of the server find it by; nil: they find it
	// itself.
	Relay *Relay
	dir   string
	args  []string
	cmd   *exec.Cmd
}

// Start starts a redis-server on a free port of the loopback interface, without
// persistence unless args say otherwise, in a folder that the test removes. A
// missing redis-server fails the test: it is never skipped.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, args...)
	s.Resume(t)
	return s
}

// newServer is a server that is not started yet.
func newServer(t testing.TB, args ...string) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "queuegate-redis-")
	require.NoError(t, err)
	port := FreePort(t)
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", port), dir: dir}
	s.URL = "redis://" + s.Addr
	s.args = append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
		"--logfile", filepath.Join(dir, "redis.log"), "--enable-debug-command", "local",
		"--repl-diskless-sync-delay", "0",
	}, args...)
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	})
	return s
}

// Ports that servers are to listen on come from below those that the kernel gives
// to connections and to listeners that ask for any, and each process has a part of
// its own: between the choice of a port and the server's start, or while a server
// is down, nobody else takes it.
const (
	firstPort    = 10_000
	partOfPorts  = 350
	partsOfPorts = 64
)

// part is what this process has of the ports. It is whose listens on the first one.
type part struct {
	holder net.Listener
	first  int
}

// takePart returns a part that no other process has, for as long as this one lives.
func takePart(from int) (part, error) {
	var err error
	for i := range partsOfPorts {
		first := firstPort + (from+i)%partsOfPorts*partOfPorts
		var holder net.Listener
		if holder, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first))); err == nil {
			return part{holder, first}, nil
		}
	}
	return part{}, err
}

var (
	ownPart = sync.OnceValues(func() (part, error) { return takePart(os.Getpid()) })
	// asked is how many ports this process has been given.
	asked atomic.Int64
)

// FreePort returns a port of the loopback interface that nobody listens on.
func FreePort(t testing.TB) string {
	t.Helper()
	own, err := ownPart()
	require.NoError(t, err, "every part of the ports is taken")
	for range partOfPorts {
		port := own.first + 1 + int(asked.Add(1)%(partOfPorts-1))
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		require.NoError(t, listener.Close())
		return strconv.Itoa(port)
	}
	require.Fail(t, "no port is free")
	return ""
}

// StartBehindRelay starts a redis-server with a relay before it.
func StartBehindRelay(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, args...)
	s.Relay = NewRelay(t, s.Addr)
	s.Resume(t)
	return s
}

// Dir is the folder that the server keeps its data in.
func (s *Server) Dir() string { return s.dir }

// port is the port alone.
func (s *Server) port() string { return portOf(s.Addr) }

// announced is where callers who are told of the server find it.
func (s *Server) announced() string {
	if s.Relay != nil {
		return s.Relay.Addr
	}
	return s.Addr
}

// portOf is the port of an address alone.
func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// Pid is the process of the server, 0 while it is killed.
func (s *Server) Pid() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Resume starts the server again after Kill, in the same folder on the same port.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.start(t)
	s.awaitAnswer(t)
}

func (s *Server) start(t testing.TB) {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	require.NoError(t, err, "install redis-server (Debian: apt-get install -y redis-server)")
	s.cmd = exec.Command(binary, s.args...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, s.cmd.Start())
}

func (s *Server) awaitAnswer(t testing.TB) {
	t.Helper()
	client := s.Client(t)
	defer func() { _ = client.Close() }()
	require.Eventually(t, func() bool {
		return client.Ping(context.Background()).Err() == nil
	}, Timeout, 5*time.Millisecond, "redis-server does not answer on %s", s.Addr)
}

// AwaitFollowing waits until the server follows a master.
func (s *Server) AwaitFollowing(t testing.TB) {
	t.Helper()
	client := s.Client(t)
	require.Eventually(t, func() bool {
		return strings.Contains(client.Info(context.Background(), "replication").Val(), "master_link_status:up")
	}, Timeout, 10*time.Millisecond, "%s does not follow its master", s.Addr)
}

// Kill ends the server at once, as a crash does. Killing twice is harmless.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Save returns a copy of the server's data as it is now.
func (s *Server) Save(t testing.TB) []byte {
	t.Helper()
	require.NoError(t, s.Client(t).Save(context.Background()).Err())
	dump, err := os.ReadFile(filepath.Join(s.dir, "dump.rdb"))
	require.NoError(t, err)
	return dump
}

// Restore kills the server and starts it again with that copy of its data, or
// with none when the copy is nil.
func (s *Server) Restore(t testing.TB, dump []byte) {
	t.Helper()
	s.RestoreNow(t, dump)
	s.awaitAnswer(t)
}

// RestoreNow is Restore without waiting until the server has loaded the copy.
func (s *Server) RestoreNow(t testing.TB, dump []byte) {
	t.Helper()
	s.Kill()
	file := filepath.Join(s.dir, "dump.rdb")
	require.NoError(t, os.WriteFile(file, dump, 0o600))
	if dump == nil {
		require.NoError(t, os.Remove(file))
	}
	s.start(t)
}

// Freeze stops the server without closing its connections; Thaw lets it go on.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGSTOP))
}

// Thaw continues a frozen server.
func (s *Server) Thaw(t testing.TB) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGCONT))
}

// Client returns a new client as the gate uses it, closed with the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return single(t, queue.ClientOptions{URL: s.URL})
}

// single returns a new patient client of one server, closed with the test.
func single(t testing.TB, o queue.ClientOptions) *redis.Client {
	t.Helper()
	o.Timeout = Timeout
	return NewClient(t, o).(*redis.Client)
}

// NewClient returns a new client as the gate uses it, closed with the test.
func NewClient(t testing.TB, o queue.ClientOptions) redis.UniversalClient {
	t.Helper()
	client, err := queue.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// SetArg replaces what an argument says when the server is started the next time, or
// adds it.
func (s *Server) SetArg(name, value string) {
	for i := range s.args {
		if s.args[i] == name {
			s.args[i+1] = value
			return
		}
	}
	s.args = append(s.args, name, value)
}
