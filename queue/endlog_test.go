package queue_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// Two gates in a bubble whose clock stands still while anybody works, so that a second
// is a second on any machine.
func TestEveryGateHearsOfAnEndWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		defer m.Close()
		rdb, err := queue.NewClient(queue.ClientOptions{
			Timeout: queuetest.Timeout,
			Dial:    func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		})
		require.NoError(t, err)
		defer func() { _ = rdb.Close() }()
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer func() { cancel(); group.Wait() }()
		var gates []*queue.Line
		for range 2 {
			line, err := queue.New(queue.Options{Redis: rdb, Room: "sale", Timeout: queuetest.Timeout, Limits: queue.Limits{Slots: 50}})
			require.NoError(t, err)
			gates = append(gates, line)
			group.Go(func() { _ = line.Run(ctx) })
		}
		sleep(ctx, time.Second)
		ends := map[queue.Why]func(context.Context, queue.Holding) (queue.Standing, error){
			queue.Left: gates[0].Leave, queue.Released: gates[0].Release,
		}
		n := 0
		for want, end := range ends {
			for range 20 { // at any moment between two ticks
				n++
				s := claim(t, gates[0], join(t, gates[0], n))
				require.Equal(t, queue.Active, s.State)
				sleep(ctx, time.Duration(n*37)*time.Millisecond)
				_, ended := gates[1].Ended(s.Visitor, s.Lease.Place)
				require.False(t, ended)
				_, err := end(ctx, holding(s))
				require.NoError(t, err)
				_, ended = gates[0].Ended(s.Visitor, s.Lease.Place)
				require.True(t, ended, "the gate itself knows at once")
				sleep(ctx, time.Second)
				why, ended := gates[1].Ended(s.Visitor, s.Lease.Place)
				require.True(t, ended, "the other one a second later")
				require.Equal(t, want, why)
			}
		}
	})
}
