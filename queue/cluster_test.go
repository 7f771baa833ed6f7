package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// viaCluster is a gate's client of a Cluster.
func viaCluster(t *testing.T, cluster *queuetest.Cluster) redis.UniversalClient {
	t.Helper()
	return queuetest.NewClient(t, queue.ClientOptions{Addrs: cluster.Addrs[:1], Timeout: 500 * time.Millisecond})
}

// roomsOfEachMaster are names of rooms whose keys lie on each of the masters.
func roomsOfEachMaster(t *testing.T, cluster *queuetest.Cluster) (names []string) {
	t.Helper()
	found := map[*queuetest.Server]bool{}
	for n := 0; len(names) < 3; n++ {
		name := fmt.Sprintf("room-%d", n)
		if owner := cluster.Owner(cluster.Slot(t, name)); !found[owner] {
			found[owner] = true
			names = append(names, name)
		}
	}
	return names
}

// The whole life of a visitor, by every script, on each master of a Cluster: there
// a script that touches a key it was not given is refused.
func TestRoomsOfAClusterLiveOnAllItsMasters(t *testing.T) {
	t.Parallel()
	cluster := queuetest.StartCluster(t)
	rdb := viaCluster(t, cluster)
	for _, room := range roomsOfEachMaster(t, cluster) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Room = room })
		inside := enter(t, line, 1, 2)
		front, behind := touch(t, line, join(t, line, 10)), touch(t, line, join(t, line, 11))
		_, err := line.Renew(t.Context(), holding(inside[0]))
		require.NoError(t, err)
		require.Equal(t, queue.Ended, release(t, line, inside[0]).State)
		front = touch(t, line, front)
		require.Equal(t, queue.Ready, front.State)
		require.Equal(t, queue.Active, claim(t, line, front).State)
		require.Equal(t, queue.Ended, leave(t, line, behind).State)
		turn(t, line)
		advance(t, line, rdb, 10*time.Minute)
		turn(t, line)
		require.NoError(t, line.Heal(t.Context()))
	}
}

// While a slot moves its keys are in two places and the room stands still; what
// was in it, and what came meanwhile, is there afterwards.
func TestARoomWhoseSlotMovesLosesNobody(t *testing.T) {
	t.Parallel()
	cluster := queuetest.StartCluster(t)
	line := newLine(t, viaCluster(t, cluster), brief)
	other := newLine(t, viaCluster(t, cluster), brief)
	inside := enter(t, line, 1, 2)
	var people []queue.Standing
	for n := range 5 {
		people = append(people, touch(t, line, join(t, line, 10+n)))
	}
	slot := cluster.Slot(t, "checkout")
	from := cluster.Owner(slot)
	to := cluster.Servers[0]
	if to == from {
		to = cluster.Servers[1]
	}
	met, tried := map[string]int{}, 0
	cluster.Move(t, slot, from, to, func() {
		tried++
		for _, call := range []func() error{
			func() error {
				_, err := line.Join(t.Context(), queue.Arrival{Visitor: visitor(20 + tried)})
				return err
			},
			func() error { _, err := other.Touch(t.Context(), sign(people[0])); return err },
		} {
			err := call()
			if err != nil {
				require.ErrorIs(t, err, queue.ErrUnavailable)
			}
			met[queue.FaultOf(err).Name]++
		}
	})
	t.Logf("%d steps, met %v", tried, met)
	require.NotZero(t, met["slot_moving"], "the line was asked while its keys were in two places")

	last := people[0].Place
	for i, s := range people {
		now := awaitPlace(t, other, s)
		require.EqualValues(t, i, now.Ahead)
		require.GreaterOrEqual(t, now.Place, last)
		require.Zero(t, now.Room.Healing, "nothing was lost")
		last = now.Place
	}
	places := map[int64]bool{}
	for n := 1; n <= tried; n++ {
		s := join(t, line, 20+n)
		require.Greater(t, s.Place, last, "who came later stands behind")
		require.False(t, places[s.Place])
		places[s.Place] = true
		require.Equal(t, s.Place, join(t, other, 20+n).Place)
	}
	require.Equal(t, queue.Ended, release(t, other, inside[0]).State)
	require.Equal(t, queue.Ready, touch(t, line, people[0]).State)
	require.Equal(t, queue.Waiting, touch(t, line, people[1]).State)
}

// A client that did not look by itself would call the dead node for a minute.
func TestAMasterOfAClusterThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	cluster := queuetest.StartCluster(t)
	master := cluster.Owner(cluster.Slot(t, "checkout"))
	replica := cluster.AddReplica(t, master)
	rdb := viaCluster(t, cluster)
	line := newLine(t, rdb, brief)
	inside := enter(t, line, 1, 2)
	waiting := touch(t, line, join(t, line, 10))
	require.EqualValues(t, 1, master.Client(t).Do(t.Context(), "WAIT", 1, 20_000).Val())

	master.Kill()
	began := time.Now()
	waiting = awaitPlace(t, line, waiting)
	t.Logf("the line answers %s after the master's end", time.Since(began).Round(time.Millisecond))
	require.Zero(t, waiting.Room.Healing, "nothing was lost")
	require.Equal(t, queue.Active, claim(t, line, inside[0]).State)
	require.Contains(t, replica.Client(t).Info(t.Context(), "replication").Val(), "role:master")

	// The dead one comes back as a replica and is left alone.
	master.Resume(t)
	master.AwaitFollowing(t)
	require.Equal(t, queue.Ended, release(t, line, inside[0]).State)
	require.Equal(t, queue.Ready, touch(t, line, waiting).State)
}

// Without a replica the whole Cluster stands still until the master is back; one
// that was kept on disk knows everybody.
func TestAClusterThatLacksAMasterStandsStillAndGoesOn(t *testing.T) {
	t.Parallel()
	cluster := queuetest.StartCluster(t, "--appendonly", "yes", "--appendfsync", "always")
	line := newLine(t, viaCluster(t, cluster), brief)
	owner := cluster.Owner(cluster.Slot(t, "checkout"))
	enter(t, line, 1, 2)
	waiting := touch(t, line, join(t, line, 10))
	down := func(fault string) {
		t.Helper()
		met := map[string]bool{}
		require.Eventually(t, func() bool {
			_, err := line.Touch(context.Background(), sign(waiting))
			met[queue.FaultOf(err).Name] = true
			return errors.Is(err, queue.ErrUnavailable) && line.Problem().Name == fault
		}, eventual, 20*time.Millisecond, "met %v", &met)
		require.False(t, line.Problem().Lasting)
	}

	other := cluster.Servers[0]
	if other == owner {
		other = cluster.Servers[1]
	}
	other.Kill()
	down("cluster_down")
	other.Resume(t)
	awaitPlace(t, line, waiting)

	owner.Kill()
	down("refused")
	owner.Resume(t)
	require.Zero(t, awaitPlace(t, line, waiting).Room.Healing, "nothing was lost")
}
