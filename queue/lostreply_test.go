package queue_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// An answer that got lost says nothing about what was done: every call is made
// again and finds its own work, once.
func TestALostReplyIsFoundAgainNotDoneTwice(t *testing.T) {
	server := queuetest.Start(t)
	between, rdb := newRelay(t, server.Addr, queue.ClientOptions{Timeout: queuetest.Timeout})
	line := newLine(t, rdb, nil)
	inside := enter(t, line, 1, 2)

	// twice makes a call whose reply is eaten, and then the same call again.
	twice := func(call func() (queue.Standing, error)) queue.Standing {
		t.Helper()
		eaten := between.eat()
		_, err := call()
		require.ErrorIs(t, err, queue.ErrUnavailable)
		require.True(t, eaten(), "the reply was eaten")
		s, err := call()
		require.NoError(t, err)
		return s
	}
	ctx := context.Background()
	waiting := twice(func() (queue.Standing, error) { return line.Join(ctx, queue.Arrival{Visitor: visitor(10)}) })
	require.Equal(t, queue.Away, waiting.State)
	require.EqualValues(t, 1, waiting.Waiting, "one join, one place")
	waiting = twice(func() (queue.Standing, error) { return line.Touch(ctx, sign(waiting)) })
	require.Equal(t, queue.Waiting, waiting.State)

	behind := touch(t, line, join(t, line, 11))
	over := twice(func() (queue.Standing, error) { return line.Release(ctx, holding(inside[0])) })
	require.Equal(t, queue.Released, over.Why)
	require.EqualValues(t, 2, over.Room.Holding, "one slot was freed and the next person has it")
	require.Equal(t, queue.Waiting, touch(t, line, behind).State, "and only the next")

	ready := touch(t, line, waiting)
	require.Equal(t, queue.Ready, ready.State)
	active := twice(func() (queue.Standing, error) { return line.Claim(ctx, holding(ready)) })
	require.Equal(t, queue.Active, active.State)
	require.Equal(t, ready.Lease.Admission, active.Lease.Admission)
	left := twice(func() (queue.Standing, error) {
		return line.Leave(ctx, queue.Holding{Visitor: behind.Visitor, Place: behind.Place})
	})
	require.Equal(t, queue.Left, left.Why)
	require.EqualValues(t, 0, left.Room.Waiting)
}
