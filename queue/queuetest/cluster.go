package queuetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const (
	slots   = 16384
	masters = 3
)

// Cluster is a Redis Cluster of three masters.
type Cluster struct {
	Addrs   []string  // of all nodes
	Servers []*Server // in the order of their slots; replicas behind the masters
	bus     map[*Server]string
	relays  bool
}

// StartCluster starts a Cluster and returns when all of its nodes call it well.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	return startCluster(t, &Cluster{bus: map[*Server]string{}}, args...)
}

// StartClusterBehindRelays does the same with a relay before each node, through which
// its callers speak to it, and not the nodes among themselves.
func StartClusterBehindRelays(t testing.TB, args ...string) *Cluster {
	t.Helper()
	return startCluster(t, &Cluster{bus: map[*Server]string{}, relays: true}, args...)
}

func startCluster(t testing.TB, c *Cluster, args ...string) *Cluster {
	t.Helper()
	for range masters {
		c.start(t, args...)
	}
	for i, server := range c.Servers {
		client := server.Client(t)
		require.NoError(t, client.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		require.NoError(t, client.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", i*slots/masters, (i+1)*slots/masters-1).Err())
		c.meet(t, server)
	}
	c.AwaitWell(t, c.Servers...)
	return c
}

// start adds one empty node.
func (c *Cluster) start(t testing.TB, args ...string) *Server {
	t.Helper()
	bus := FreePort(t)
	server := newServer(t, append([]string{
		"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0",
	}, args...)...)
	if c.relays {
		server.Relay = NewRelay(t, server.Addr)
		server.args = append(server.args, "--cluster-announce-ip", "127.0.0.1",
			"--cluster-announce-port", portOf(server.announced()), "--cluster-announce-bus-port", bus)
	}
	server.Resume(t)
	c.bus[server] = bus
	c.Servers = append(c.Servers, server)
	c.Addrs = append(c.Addrs, server.announced())
	return server
}

// meet makes a node known to the first one.
func (c *Cluster) meet(t testing.TB, server *Server) {
	t.Helper()
	if first := c.Servers[0]; server != first {
		require.NoError(t, server.Client(t).Do(t.Context(), "CLUSTER", "MEET", "127.0.0.1", first.port(), c.bus[first]).Err())
	}
}

// AwaitWell waits until the given nodes call the Cluster well and know all nodes.
func (c *Cluster) AwaitWell(t testing.TB, servers ...*Server) {
	t.Helper()
	for _, server := range servers {
		client := server.Client(t)
		require.Eventually(t, func() bool {
			info := client.ClusterInfo(context.Background()).Val()
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r\n", len(c.Servers)))
		}, Timeout, 20*time.Millisecond, "the Cluster is not well at %s", server.Addr)
	}
}

// AddReplica adds a replica of a master and returns it when it follows.
func (c *Cluster) AddReplica(t testing.TB, master *Server) *Server {
	t.Helper()
	replica := c.start(t)
	c.meet(t, replica)
	c.AwaitWell(t, c.Servers...)
	require.NoError(t, replica.Client(t).Do(t.Context(), "CLUSTER", "REPLICATE", c.id(t, master)).Err())
	replica.AwaitFollowing(t)
	return replica
}

func (c *Cluster) id(t testing.TB, server *Server) string {
	t.Helper()
	id, err := server.Client(t).Do(t.Context(), "CLUSTER", "MYID").Text()
	require.NoError(t, err)
	return id
}

// Slot is the slot of a key.
func (c *Cluster) Slot(t testing.TB, key string) int64 {
	t.Helper()
	slot, err := c.Servers[0].Client(t).ClusterKeySlot(t.Context(), key).Result()
	require.NoError(t, err)
	return slot
}

// Owner is the master that has a slot at the start.
func (c *Cluster) Owner(slot int64) *Server {
	for i := range masters {
		if slot < int64((i+1)*slots/masters) {
			return c.Servers[i]
		}
	}
	return nil
}

// Move moves a slot with its keys from one master to another, one key after the
// other, as redis-cli does. Between is called after each step.
func (c *Cluster) Move(t testing.TB, slot int64, from, to *Server, between func()) {
	t.Helper()
	ctx, source, target := t.Context(), from.Client(t), to.Client(t)
	set := func(client *redis.Client, how ...any) {
		t.Helper()
		require.NoError(t, client.Do(ctx, append([]any{"CLUSTER", "SETSLOT", slot}, how...)...).Err())
		between()
	}
	set(target, "IMPORTING", c.id(t, from))
	set(source, "MIGRATING", c.id(t, to))
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, int(slot), 1).Result()
		require.NoError(t, err)
		if len(keys) == 0 {
			break
		}
		require.NoError(t, source.Migrate(ctx, "127.0.0.1", to.port(), keys[0], 0, Timeout).Err())
		between()
	}
	for _, client := range []*redis.Client{target, source} {
		set(client, "NODE", c.id(t, to))
	}
}
