package queue_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// eater stands between a gate and Redis and, when told to, eats the next reply:
// the command is carried out and the connection breaks.
type eater struct {
	net.Listener
	hungry atomic.Bool
}

func newEater(t *testing.T, redisAddr string) *eater {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	e := &eater{Listener: ln}
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go e.serve(client, redisAddr)
		}
	}()
	return e
}

func (e *eater) serve(client net.Conn, redisAddr string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", redisAddr)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() { _, _ = io.Copy(server, client) }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil || n > 0 && e.hungry.CompareAndSwap(true, false) {
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// An answer that got lost says nothing about what was done: every call is made
// again and finds its own work, once.
func TestALostReplyIsFoundAgainNotDoneTwice(t *testing.T) {
	server := queuetest.Start(t)
	between := newEater(t, server.Addr)
	rdb, err := queue.NewClient(queue.ClientOptions{URL: "redis://" + between.Addr().String(), Timeout: queuetest.Timeout})
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	line := newLine(t, rdb, nil)
	inside := enter(t, line, 1, 2)

	// twice makes a call whose reply is eaten, and then the same call again.
	twice := func(call func() (queue.Standing, error)) queue.Standing {
		t.Helper()
		between.hungry.Store(true)
		_, err := call()
		require.ErrorIs(t, err, queue.ErrUnavailable)
		require.False(t, between.hungry.Load(), "the reply was eaten")
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
