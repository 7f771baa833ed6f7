package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// waitingRoom is a room that lets nobody in, and where nobody who only stands there
// for the other side's turns counts as gone.
const waitingRoom = "total_active_users: 1\n    queue_all: true\n    presence_window: 10m"

// measureJoin compares what a place in line costs at the gate with the usual way,
// over HTTP and without.
func (b *bench) measureJoin(ctx context.Context) error {
	shop, err := b.startPeer(ctx, "shop")
	if err != nil {
		return err
	}
	ours, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	theirs, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	g, err := b.startGate(ctx, gateConfig{shop: shop.url, redis: ours, room: waitingRoom})
	if err != nil {
		return err
	}
	p, err := b.startPeer(ctx, "usual", theirs.url)
	if err != nil {
		return err
	}
	for _, at := range []struct {
		once        int
		rate, redis rowID
	}{{throng, joinHTTP, joinRedis}, {connections, joinFew, joinFewRedis}} {
		shots, err := b.alternate(ctx, []side{
			{name: "gate", load: load{url: g.url, method: http.MethodPost, path: joinPath, connections: at.once}, meter: ours.cpu},
			{name: "four commands", load: load{url: p.url, method: http.MethodPost, path: "/join", connections: at.once}, meter: theirs.cpu},
		})
		if err != nil {
			return err
		}
		b.noteRate(at.rate, shots[0], shots[1])
		b.note(at.redis, ratio(shots[0], shots[1], spent), "%.1f and %.1f µs of Redis", 1e6*median(shots[0], spent), 1e6*median(shots[1], spent))
	}
	return b.measureJoinAlone(ctx, ours, theirs)
}

// measureJoinAlone does the same in this process, without HTTP.
func (b *bench) measureJoinAlone(ctx context.Context, ours, theirs *store) error {
	client, err := queue.NewClient(queue.ClientOptions{URL: ours.url, Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	line, err := queue.New(queue.Options{
		Redis: client, Room: "alone", Timeout: time.Minute, Limits: queue.Limits{Slots: 1}, QueueAll: true, PresenceWindow: 10 * time.Minute,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = line.Run(ctx) })
	defer running.Wait()
	defer stop()
	u, err := newUsualClient(theirs.url)
	if err != nil {
		return err
	}
	defer func() { _ = u.Close() }()
	shots, err := b.alternate(ctx, []side{
		{name: "line", call: func(ctx context.Context) error {
			_, err := line.Join(ctx, queue.Arrival{Visitor: token.NewVisitor()})
			return err
		}},
		{name: "four commands", call: func(ctx context.Context) error {
			_, _, err := u.join(ctx, token.NewVisitor())
			return err
		}},
	})
	if err != nil {
		return err
	}
	b.noteRate(joinAlone, shots[0], shots[1])
	return nil
}

// callMany has a crowd call something again and again for the length of a turn.
func callMany(ctx context.Context, call func(context.Context) error, turn time.Duration) (shot, error) {
	var all sync.WaitGroup
	var calls atomic.Int64
	failed := make([]error, throng)
	began := time.Now()
	for i := range failed {
		all.Go(func() {
			for failed[i] == nil && time.Since(began) < turn {
				failed[i] = call(ctx)
				calls.Add(1)
			}
		})
	}
	all.Wait()
	n := float64(calls.Load())
	return shot{requests: n, rate: n / time.Since(began).Seconds()}, errors.Join(failed...)
}
