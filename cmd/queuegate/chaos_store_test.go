package main_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// chaosStore is the Redis of a run, of whatever kind, with a relay before each server.
type chaosStore struct {
	t        *testing.T
	topology chaos.Topology
	keys     string // keys of redis in the file
	servers  []*queuetest.Server
	sentinel *queuetest.Sentinel
	cluster  *queuetest.Cluster
	owner    map[string]*queuetest.Server // of each room, in a Cluster
}

func newChaosStore(t *testing.T, p chaos.Plan) *chaosStore {
	s := &chaosStore{t: t, topology: p.Topology}
	durable := []string{"--appendonly", "yes"}
	switch p.Topology {
	case chaos.Sentinel:
		s.sentinel = queuetest.StartSentinelBehindRelays(t, append(durable, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "2")...)
		s.servers = s.sentinel.Servers
		s.keys = fmt.Sprintf("addrs: [%s], master_name: %s", strings.Join(s.sentinel.Addrs, ", "), queuetest.MasterName)
	case chaos.Cluster:
		s.cluster = queuetest.StartClusterBehindRelays(t, append(durable, "--cluster-require-full-coverage", "no")...)
		s.servers = s.cluster.Servers
		s.keys = fmt.Sprintf("addrs: [%s]", strings.Join(s.cluster.Addrs, ", "))
		s.owner = map[string]*queuetest.Server{}
	default:
		durable = append(durable, "--key-load-delay", "0")
		server := queuetest.StartBehindRelay(t, durable...)
		s.servers = []*queuetest.Server{server}
		s.keys = fmt.Sprintf("url: \"redis://%s\"", server.Relay.Addr)
	}
	return s
}

// stepClock lets the scripts of a room find that Redis's clock has moved by so much since
// the call before: they compare it with what that call wrote down.
const stepClock = `
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HINCRBY', KEYS[1], 'clock', ARGV[1]) end
return 1`

// master is the server that a fault is done to: the one that has the room of a pick.
func (s *chaosStore) master(room string) *queuetest.Server {
	switch s.topology {
	case chaos.Sentinel:
		if master := s.sentinel.Master(s.t); master != nil {
			return master
		}
		return s.servers[0]
	case chaos.Cluster:
		if s.owner[room] == nil {
			s.owner[room] = s.cluster.Owner(s.cluster.Slot(s.t, room))
		}
		return s.owner[room]
	default:
		return s.servers[0]
	}
}

// client is a new client of one server, past its relay, that waits as long as it takes.
func (s *chaosStore) client(server *queuetest.Server) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, ReadTimeout: patience, DialTimeout: time.Second, Protocol: 2, PoolSize: 2})
}

// writes tells whether a server takes writes.
func (s *chaosStore) writes(server *queuetest.Server, key string) bool {
	client := s.client(server)
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return client.Set(ctx, key, "1", 0).Err() == nil
}

// awaitWell waits until the gates could work with Redis, the master that Sentinels name
// included, and returns then; standby waits until it could be replaced again.
func (s *chaosStore) awaitWell(rooms []roomPlan) {
	switch s.topology {
	case chaos.Sentinel:
		eventually(s.t, "a master takes writes", func() bool {
			master := s.sentinel.Master(s.t)
			return master != nil && s.writes(master, "probe")
		})
	case chaos.Cluster:
		s.cluster.AwaitWell(s.t, s.servers...)
		for _, room := range rooms {
			eventually(s.t, "the owner of each room takes writes", func() bool {
				return s.writes(s.master(room.name), "probe:{"+room.name+"}")
			})
		}
	default:
		eventually(s.t, "redis takes writes", func() bool { return s.writes(s.servers[0], "probe") })
	}
}

// awaitStandby waits until Sentinels could replace the master.
func (s *chaosStore) awaitStandby() {
	if s.topology != chaos.Sentinel {
		return
	}
	eventually(s.t, "two replicas follow the master", func() bool {
		master := s.sentinel.Master(s.t)
		if master == nil {
			return false
		}
		client := s.client(master)
		defer func() { _ = client.Close() }()
		return strings.Contains(client.Info(context.Background(), "replication").Val(), "connected_slaves:2")
	})
}

// copyData copies what a server that writes everything down has written so far.
func copyData(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}
