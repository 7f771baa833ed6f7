package queuetest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// MasterName is what the Sentinels of tests call their master.
const MasterName = "qgtest"

// Sentinel is a master with two replicas and the three Sentinels that watch them.
type Sentinel struct {
	Addrs     []string  // of the Sentinels
	Servers   []*Server // the first is the master at the start
	Sentinels []*Server
	clients   []*redis.Client // of the Sentinels
}

// sentinelConfig makes a Sentinel quick: a second until it gives a master up, a
// tenth of one between two looks at the servers.
const sentinelConfig = `port %s
bind 127.0.0.1
dir %s
logfile %s
sentinel myid %s
sentinel monitor ` + MasterName + ` 127.0.0.1 %s 2
sentinel down-after-milliseconds ` + MasterName + ` 1000
sentinel failover-timeout ` + MasterName + ` 2000
`

// StartSentinel starts a master, two replicas and three Sentinels, and returns
// when the Sentinels would replace the master. The args are for the servers.
func StartSentinel(t testing.TB, args ...string) *Sentinel {
	t.Helper()
	return startSentinel(t, false, args...)
}

// StartSentinelBehindRelays does the same with a relay before each server, through
// which the Sentinels and the replicas speak to it as well.
func StartSentinelBehindRelays(t testing.TB, args ...string) *Sentinel {
	t.Helper()
	return startSentinel(t, true, args...)
}

func startSentinel(t testing.TB, relays bool, args ...string) *Sentinel {
	t.Helper()
	s := &Sentinel{}
	for range 3 {
		server := newServer(t, args...)
		if relays {
			server.Relay = NewRelay(t, server.Addr)
			server.args = append(server.args, "--replica-announce-ip", "127.0.0.1", "--replica-announce-port", portOf(server.announced()))
		}
		s.Servers = append(s.Servers, server)
	}
	master := s.Servers[0]
	for _, replica := range s.Servers[1:] {
		replica.args = append(replica.args, "--replicaof", "127.0.0.1 "+portOf(master.announced()))
	}
	ids := make([]string, 3)
	for i := range ids {
		raw := make([]byte, 20)
		_, _ = rand.Read(raw)
		ids[i] = hex.EncodeToString(raw)
		s.Sentinels = append(s.Sentinels, newServer(t))
		s.Addrs = append(s.Addrs, s.Sentinels[i].Addr)
	}
	for i, sentinel := range s.Sentinels {
		text := fmt.Sprintf(sentinelConfig, sentinel.port(), sentinel.dir, filepath.Join(sentinel.dir, "redis.log"), ids[i], portOf(master.announced()))
		for _, replica := range s.Servers[1:] {
			text += fmt.Sprintf("sentinel known-replica %s 127.0.0.1 %s\n", MasterName, portOf(replica.announced()))
		}
		for j, other := range s.Sentinels {
			if j != i {
				text += fmt.Sprintf("sentinel known-sentinel %s 127.0.0.1 %s %s\n", MasterName, other.port(), ids[j])
			}
		}
		file := filepath.Join(sentinel.dir, "sentinel.conf")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		sentinel.args = []string{file, "--sentinel"}
	}
	for _, server := range s.Servers {
		server.start(t)
	}
	for _, replica := range s.Servers[1:] {
		replica.awaitAnswer(t)
		replica.AwaitFollowing(t)
	}
	for _, sentinel := range s.Sentinels {
		sentinel.start(t)
	}
	for i, sentinel := range s.Sentinels {
		sentinel.awaitAnswer(t)
		client := sentinel.Client(t)
		s.clients = append(s.clients, client)
		require.NoError(t, client.Do(t.Context(), "SENTINEL", "DEBUG", "info-period", "100", "publish-period", "200").Err())
		require.Eventually(t, func() bool { return s.watched(t, i) }, Timeout, 20*time.Millisecond,
			"the Sentinels do not see everybody")
	}
	return s
}

// watched tells whether a Sentinel sees two replicas that follow and two others
// like itself.
func (s *Sentinel) watched(t testing.TB, i int) bool {
	t.Helper()
	client, ctx := s.clients[i], t.Context()
	if client.Do(ctx, "SENTINEL", "CKQUORUM", MasterName).Err() != nil {
		return false
	}
	others, err := client.Do(ctx, "SENTINEL", "SENTINELS", MasterName).Slice()
	if err != nil || strings.Contains(fmt.Sprint(others), "disconnected") {
		return false
	}
	replicas, err := client.Do(ctx, "SENTINEL", "REPLICAS", MasterName).Slice()
	if err != nil || len(replicas) != 2 {
		return false
	}
	for _, replica := range replicas {
		if !strings.Contains(fmt.Sprint(replica), "master-link-status:ok") {
			return false
		}
	}
	return true
}

// Master is the server that the Sentinels which answer call the master, all of
// them; nil while they differ.
func (s *Sentinel) Master(t testing.TB) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	named := ""
	for _, client := range s.clients {
		addr, err := client.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).StringSlice()
		if err != nil || len(addr) != 2 {
			continue
		}
		if named != "" && named != addr[1] {
			return nil
		}
		named = addr[1]
	}
	for _, server := range s.Servers {
		if portOf(server.announced()) == named {
			return server
		}
	}
	return nil
}

// AwaitMaster waits until the Sentinels that answer call another server than old
// the master, and returns it.
func (s *Sentinel) AwaitMaster(t testing.TB, old *Server) (master *Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		master = s.Master(t)
		return master != nil && master != old
	}, time.Minute, 50*time.Millisecond, "the Sentinels do not replace the master")
	return master
}
