package queue_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

func TestFaultsAreToldApartByWhatRedisSays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		err     error
		fault   string
		lasting bool
	}{
		{"nothing", nil, "", false},
		{"a slot in two places", errors.New("TRYAGAIN Multiple keys request during rehashing of slot"), "slot_moving", false},
		{"a slot elsewhere after all redirects", errors.New("MOVED 3999 127.0.0.1:6381"), "slot_moving", false},
		{"a slot on its way", errors.New("ASK 3999 127.0.0.1:6381"), "slot_moving", false},
		{"a Cluster that lacks slots", errors.New("CLUSTERDOWN Hash slot not served"), "cluster_down", false},
		{"a replica", errors.New("READONLY You can't write against a read only replica. script: 3c, on @user_script:40."), "read_only", false},
		{"a replica that serves nothing", errors.New("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), "master_down", false},
		{"no replicas", errors.New("NOREPLICAS Not enough good replicas to write."), "too_few_replicas", false},
		{"too many clients", errors.New("ERR max number of clients reached"), "too_many_clients", false},
		{"memory in a script of Redis 6", errors.New("ERR Error running script (call to f_3c): @user_script:40: @user_script: 40: -OOM command not allowed when used memory > 'maxmemory'."), "out_of_memory", false},
		{"a type in a script of Redis 6", errors.New("ERR Error running script (call to f_3c): @user_script:40: WRONGTYPE Operation against a key holding the wrong kind of value"), "wrong_type", true},
		{"a script's command not allowed, Redis 7.0", errors.New("ERR The user executing the script can't run this command or subcommand script: 3c, on @user_script:1."), "permission", true},
		{"a script's command not allowed, Redis 7.2", errors.New("ERR ACL failure in script: User gate has no permissions to run the 'zadd' command"), "permission", true},
		{"nobody logged in", errors.New("NOAUTH Authentication required."), "credentials", true},
		{"a password where there is none", errors.New("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"), "credentials", true},
		{"keys of several slots", redis.ErrCrossSlot, "cross_slot", true},
		{"protected mode", errors.New("DENIED Redis is running in protected mode because protected mode is enabled"), "protected_mode", true},
		{"no Cluster", errors.New("ERR This instance has cluster support disabled"), "no_cluster", true},
		{"too old or too small a server", errors.New("ERR unknown command 'EVALSHA', with args beginning with: "), "unsupported", true},
		{"a name the Sentinels do not know", fmt.Errorf("redis: all sentinels specified in configuration are unreachable: %w", errors.Join(redis.Nil)), "unknown_master", true},
		{"no Sentinel", errors.New("redis: all sentinels specified in configuration are unreachable: "), "no_sentinel", false},
		{"a certificate nobody vouches for", &net.OpError{Op: "dial", Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}, "tls", true},
		{"a port without TLS", fmt.Errorf("dial: %w", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}), "tls", true},
		{"a certificate the server wants", &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, "tls", true},
		{"nobody listens", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "refused", false},
		{"no answer in time", fmt.Errorf("read: %w", context.DeadlineExceeded), "timeout", false},
		{"no answer in the time of the connection", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "timeout", false},
		{"no connection free", redis.ErrPoolTimeout, "timeout", false},
		{"a cut line", errors.New("EOF"), "connection", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.err
			if err != nil {
				err = fmt.Errorf("%w: %w", queue.ErrUnavailable, err)
			}
			fault := queue.FaultOf(err)
			require.Equal(t, test.fault, fault.Name)
			require.Equal(t, test.lasting, fault.Lasting)
			require.Equal(t, test.lasting, fault.Remedy != "", "who must act is told what to do")
		})
	}
}

// A gate meets each fault with a running client and goes on with it.
func TestEveryFaultIsNamedAndOverWithoutARestart(t *testing.T) {
	t.Parallel()
	server := queuetest.Start(t)
	root := server.Client(t)
	do := func(args ...any) {
		t.Helper()
		require.NoError(t, root.Do(context.Background(), args...).Err())
	}
	user := func(rules ...any) { t.Helper(); do(append([]any{"ACL", "SETUSER", "gate"}, rules...)...) }
	// cut makes the gates connect anew.
	cut := func() { t.Helper(); do("CLIENT", "KILL", "USER", "gate") }
	dump := filepath.Join(server.Dir(), "dump.rdb")
	user("on", ">secret", "~qg:*", "&qg:*", "+@all")

	line := newLine(t, queuetest.NewClient(t, queue.ClientOptions{
		URL: server.URL, Username: "gate", Password: "secret", Timeout: 3 * time.Second,
	}), nil)
	enter(t, line, 1, 2)
	waiting := touch(t, line, join(t, line, 10))
	ask := func() error { _, err := line.Touch(context.Background(), sign(waiting)); return err }

	for _, test := range []struct {
		fault       string
		lasting     bool
		begin, stop func(t testing.TB)
	}{
		{"credentials", true,
			func(testing.TB) { user("resetpass", ">other"); cut() }, func(testing.TB) { user(">secret") }},
		{"permission", true,
			func(testing.TB) { user("-evalsha", "-eval") }, func(testing.TB) { user("+evalsha", "+eval") }},
		{"permission", true, // of a command in the script
			func(testing.TB) { user("-hget") }, func(testing.TB) { user("+hget") }},
		{"wrong_type", true,
			func(testing.TB) { do("RENAME", line.Keys()[1], "kept"); do("SET", line.Keys()[1], "x") },
			func(testing.TB) { do("RENAME", "kept", line.Keys()[1]) }},
		// Redis closes the connection right behind this answer, which often gets lost.
		{"too_many_clients or connection", false,
			func(testing.TB) { do("CONFIG", "SET", "maxclients", "1"); cut() }, func(testing.TB) { do("CONFIG", "SET", "maxclients", "100") }},
		{"read_only", false,
			func(testing.TB) { do("REPLICAOF", "127.0.0.1", "1") }, func(testing.TB) { do("REPLICAOF", "NO", "ONE") }},
		{"master_down", false,
			func(testing.TB) {
				do("CONFIG", "SET", "replica-serve-stale-data", "no")
				do("REPLICAOF", "127.0.0.1", "1")
			}, func(testing.TB) { do("REPLICAOF", "NO", "ONE") }},
		{"too_few_replicas", false,
			func(testing.TB) { do("CONFIG", "SET", "min-replicas-to-write", "1") }, func(testing.TB) { do("CONFIG", "SET", "min-replicas-to-write", "0") }},
		{"out_of_memory", false,
			func(testing.TB) { do("CONFIG", "SET", "maxmemory", "1mb") }, func(testing.TB) { do("CONFIG", "SET", "maxmemory", "0") }},
		{"cannot_persist", false,
			func(t testing.TB) {
				do("CONFIG", "SET", "save", "3600 1")
				require.NoError(t, os.MkdirAll(filepath.Join(dump, "in the way"), 0o700))
				do("BGSAVE")
			}, func(t testing.TB) {
				require.NoError(t, os.RemoveAll(dump))
				do("CONFIG", "SET", "save", "")
			}},
		{"timeout", false, server.Freeze, server.Thaw},
		{"refused", false, func(t testing.TB) {
			require.NoError(t, root.Save(t.Context()).Err())
			server.Kill()
		}, func(t testing.TB) {
			server.Resume(t)
			user("on", ">secret", "~qg:*", "&qg:*", "+@all")
		}},
	} {
		t.Run(test.fault, func(t *testing.T) {
			test.begin(t)
			stop := sync.OnceFunc(func() { test.stop(t) })
			defer stop()
			met := map[string]bool{}
			require.Eventually(t, func() bool {
				err := ask()
				met[line.Problem().Name] = true
				return errors.Is(err, queue.ErrUnavailable) && strings.Contains(test.fault, line.Problem().Name)
			}, time.Minute, 10*time.Millisecond, "met %v", &met)
			require.Equal(t, test.lasting, line.Problem().Lasting)
			require.False(t, line.Up())
			stop()
			require.Eventually(t, func() bool { return ask() == nil }, time.Minute, 10*time.Millisecond)
			require.True(t, line.Up())
			require.Equal(t, waiting.Place, touch(t, line, waiting).Place)
		})
	}
}
