package main_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// maker makes a fault, lets it last and takes it away.
type maker func(f *chaos.Fault)

// makers are all faults.
func (w *chaosWorld) makers() map[chaos.Kind]maker {
	return map[chaos.Kind]maker{
		chaos.GateKilled:    w.gateEnded(false, 1),
		chaos.GatesKilled:   w.gateEnded(false, len(w.gates)),
		chaos.GateRestarted: w.gateEnded(true, 1),
		chaos.GateFrozen:    w.gateFrozen,
		chaos.GateStarved:   w.gateStarved,

		chaos.RedisKilled:   w.redisKilled,
		chaos.RedisLoading:  w.redisLoading,
		chaos.RedisFrozen:   w.redisFrozen,
		chaos.RedisRefuses:  w.network(func(time.Duration, chan struct{}) queuetest.Weather { return queuetest.Weather{Refuse: true} }),
		chaos.RedisSilent:   w.network(silence),
		chaos.RedisSlow:     w.network(slowness),
		chaos.RedisLate:     w.network(lateness),
		chaos.RepliesLost:   w.network(deafness),
		chaos.RedisDropped:  w.redisDropped,
		chaos.RedisReadOnly: w.redisTold(nil, []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}),
		chaos.RedisFull:     w.redisTold(nil, []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}),
		chaos.RedisCrowded: w.redisTold([]any{"CONFIG", "SET", "maxclients", "1"}, []any{"CLIENT", "KILL", "TYPE", "normal"},
			[]any{"CONFIG", "SET", "maxclients", "10000"}),
		chaos.ScriptsGone:   w.redisTold(nil, []any{"SCRIPT", "FLUSH"}, nil),
		chaos.RedisEmptied:  w.redisTold(nil, []any{"FLUSHALL"}, nil),
		chaos.RedisBusy:     w.redisBusy,
		chaos.RedisEvicts:   w.redisEvicts,
		chaos.RedisOlder:    w.redisOlder,
		chaos.ClockAhead:    w.clockMoved(time.Hour),
		chaos.ClockBehind:   w.clockMoved(-time.Hour),
		chaos.ReplicaKilled: w.replicaKilled,
		chaos.SlotMoved:     w.slotMoved,

		chaos.ShopSlow:    w.shopTroubled(shopSlow),
		chaos.ShopResets:  w.shopTroubled(shopResets),
		chaos.ShopFails:   w.shopTroubled(shopFails),
		chaos.ShopRefuses: w.shopTroubled(shopRefuses),
		chaos.ShopKilled:  w.shopKilled,
		chaos.ShopFrozen:  w.shopFrozen,

		chaos.ClientsVanish:  w.clients(vanishing),
		chaos.ClientsGarbage: w.clients(garbage),
		chaos.ClientsFlood:   w.clientsFlood,
		chaos.ClientsForget:  w.clientsForget,

		chaos.FileReloaded: w.fileReloaded,
		chaos.RateLowered:  w.operated("both", `{"new_users_per_minute": 60}`, `{"new_users_per_minute": null}`),
		chaos.RoomPaused:   w.operated("slots", `{"state": "paused"}`, `{"state": null}`),
	}
}

// victims are the gates that a fault is done to: never the first where one is spared.
func (w *chaosWorld) victims(f *chaos.Fault, n int) []int {
	first := 0
	if w.run.plan.SparesOneGate() {
		first = 1
	}
	if n >= len(w.gates) {
		first, n = 0, len(w.gates)
	}
	for i := range n {
		f.Gates = append(f.Gates, first+int((f.Pick+uint64(i))%uint64(len(w.gates)-first)))
	}
	return f.Gates
}

// gateEnded ends gates, and starts them again.
func (w *chaosWorld) gateEnded(gently bool, n int) maker {
	return func(f *chaos.Fault) {
		for _, v := range w.victims(f, n) {
			g := w.gates[v]
			if gently {
				require.NoError(w.t, g.cmd.Process.Signal(syscall.SIGTERM))
				require.Zero(w.t, g.exit(w.t), "gate %d ends with an error", v)
			}
			g.kill()
			w.keepLog(v)
		}
		w.wait(f.For)
		for _, v := range f.Gates {
			w.hands[v].Lock()
			w.gates[v].start(w.t)
			w.publish(v)
			w.hands[v].Unlock()
		}
	}
}

func (w *chaosWorld) gateFrozen(f *chaos.Fault) {
	f.Gates = []int{int(f.Pick % uint64(len(w.gates)))}
	g := w.gates[f.Gates[0]]
	require.NoError(w.t, g.cmd.Process.Signal(syscall.SIGSTOP))
	w.wait(f.For)
	require.NoError(w.t, g.cmd.Process.Signal(syscall.SIGCONT))
}

// gateStarved takes a gate's descriptors down to those it has.
func (w *chaosWorld) gateStarved(f *chaos.Fault) {
	f.Gates = []int{int(f.Pick % uint64(len(w.gates)))}
	g := w.gates[f.Gates[0]]
	limit := func(n string) {
		out, err := exec.Command("prlimit", "--pid", strconv.Itoa(g.cmd.Process.Pid), "--nofile="+n+":").CombinedOutput()
		require.NoError(w.t, err, "%s", out)
	}
	n := descriptorsOf(g)
	limit(strconv.Itoa(n))
	f.Told = fmt.Sprintf("%d and no more", n)
	w.wait(f.For)
	limit("4096")
}

// room is the room of a fault of Redis: in a Cluster it says whose server.
func (w *chaosWorld) room(f *chaos.Fault) string { return w.rooms[f.Pick%uint64(len(w.rooms))].name }

// well ends a fault of Redis when the gates could work with it, and returns when the
// next one may begin.
func (w *chaosWorld) well(f *chaos.Fault) {
	w.store.awaitWell(w.rooms)
	f.Ended = w.since()
	f.Lost = f.Lost || f.Kind.Loses()
	w.store.awaitStandby()
}

func (w *chaosWorld) redisKilled(f *chaos.Fault) {
	server := w.store.master(w.room(f))
	f.Lost = w.store.topology == chaos.Sentinel // what was not replicated yet
	server.Kill()
	w.wait(f.For)
	server.Resume(w.t)
	w.well(f)
}

// redisLoading starts it again so that it reads what it has for a while.
func (w *chaosWorld) redisLoading(f *chaos.Fault) {
	server := w.store.master("")
	client := w.store.client(server)
	defer func() { _ = client.Close() }()
	ctx := context.Background()
	for i := range 64 {
		require.NoError(w.t, client.Set(ctx, fmt.Sprint("ballast:", i), strings.Repeat("x", 2048), 0).Err())
	}
	// The delay is in microseconds, and by key as long as nothing is read but what is there:
	// what was ever written would take for ever.
	require.NoError(w.t, client.BgRewriteAOF(ctx).Err())
	eventually(w.t, "redis wrote down what is there", func() bool {
		info := client.Info(ctx, "persistence").Val()
		return strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0")
	})
	server.SetArg("--key-load-delay", strconv.Itoa(int(f.For.Microseconds()/64)))
	server.SetArg("--loading-process-events-interval-bytes", "1024")
	server.Kill()
	server.Resume(w.t)
	server.SetArg("--key-load-delay", "0")
	w.well(f)
}

func (w *chaosWorld) redisFrozen(f *chaos.Fault) {
	server := w.store.master(w.room(f))
	f.Lost = w.store.topology == chaos.Sentinel
	server.Freeze(w.t)
	w.wait(f.For)
	server.Thaw(w.t)
	w.well(f)
}

// network sets the weather before a server. The channel is closed when it is good again.
func (w *chaosWorld) network(weather func(length time.Duration, over chan struct{}) queuetest.Weather) maker {
	return func(f *chaos.Fault) {
		relay := w.store.master(w.room(f)).Relay
		f.Lost = w.store.topology == chaos.Sentinel
		over := make(chan struct{})
		bad := weather(f.For, over)
		require.NoError(w.t, relay.Set(bad))
		if bad.Refuse {
			relay.Drop()
		}
		w.wait(f.For)
		require.NoError(w.t, relay.Set(queuetest.Weather{}))
		close(over)
		w.well(f)
	}
}

// silence holds everything until it is over.
func silence(_ time.Duration, over chan struct{}) queuetest.Weather {
	hold := func(words []byte) ([]byte, bool) {
		<-over
		return words, true
	}
	return queuetest.Weather{Requests: hold, Replies: hold}
}

func slowness(time.Duration, chan struct{}) queuetest.Weather {
	return queuetest.Weather{Replies: func(words []byte) ([]byte, bool) {
		<-time.After(2 * time.Second)
		return words, true
	}}
}

// lateness hands commands to Redis when their callers have long given up.
func lateness(time.Duration, chan struct{}) queuetest.Weather {
	return queuetest.Weather{Requests: func(words []byte) ([]byte, bool) {
		<-time.After(time.Second)
		return words, true
	}}
}

// deafness loses replies together with their connections.
func deafness(time.Duration, chan struct{}) queuetest.Weather {
	return queuetest.Weather{Replies: func([]byte) ([]byte, bool) { return nil, false }}
}

func (w *chaosWorld) redisDropped(f *chaos.Fault) {
	relay := w.store.master(w.room(f)).Relay
	for until := f.Began + f.For; w.since() < until; w.wait(200 * time.Millisecond) {
		relay.Drop()
	}
	w.well(f)
}

// redisTold speaks to Redis at the beginning and at the end, on one connection; what is
// empty is not said.
func (w *chaosWorld) redisTold(first, begin, end []any) maker {
	return func(f *chaos.Fault) {
		server := w.store.master(w.room(f))
		client := w.store.client(server)
		defer func() { _ = client.Close() }()
		conn := client.Conn()
		defer func() { _ = conn.Close() }()
		ctx := context.Background()
		for _, words := range [][]any{first, begin} {
			if words != nil {
				require.NoError(w.t, conn.Do(ctx, words...).Err(), "%v", words)
			}
		}
		w.wait(f.For)
		if end != nil {
			require.NoError(w.t, conn.Do(ctx, end...).Err(), "%v", end)
		}
		w.well(f)
	}
}

// redisBusy has a script run that does not end by itself.
func (w *chaosWorld) redisBusy(f *chaos.Fault) {
	server := w.store.master(w.room(f))
	client := w.store.client(server)
	defer func() { _ = client.Close() }()
	ctx := context.Background()
	require.NoError(w.t, client.ConfigSet(ctx, "busy-reply-threshold", "100").Err())
	ended := make(chan error, 1)
	go func() { ended <- client.Eval(ctx, "while true do end", nil).Err() }()
	w.wait(f.For)
	_ = client.ScriptKill(ctx).Err() // Sentinels do so as well
	require.Error(w.t, <-ended)
	w.well(f)
}

// redisEvicts leaves so little memory that keys are thrown away.
func (w *chaosWorld) redisEvicts(f *chaos.Fault) {
	server := w.store.master(w.room(f))
	client := w.store.client(server)
	defer func() { _ = client.Close() }()
	ctx := context.Background()
	used := int64(0)
	for line := range strings.Lines(client.Info(ctx, "memory").Val()) {
		if n, found := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); found {
			used, _ = strconv.ParseInt(n, 10, 64)
		}
	}
	require.Positive(w.t, used)
	require.NoError(w.t, client.ConfigSet(ctx, "maxmemory-policy", "allkeys-random").Err())
	require.NoError(w.t, client.ConfigSet(ctx, "maxmemory", strconv.FormatInt(used-1000, 10)).Err())
	w.wait(f.For)
	require.NoError(w.t, client.ConfigSet(ctx, "maxmemory", "0").Err())
	require.NoError(w.t, client.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	for line := range strings.Lines(client.Info(ctx, "stats").Val()) {
		if n, found := strings.CutPrefix(strings.TrimSpace(line), "evicted_keys:"); found {
			f.Told = n + " keys so far"
		}
	}
	w.well(f)
}

// redisOlder brings back what Redis had written down a while before.
func (w *chaosWorld) redisOlder(f *chaos.Fault) {
	server := w.store.master("")
	data, older := filepath.Join(server.Dir(), "appendonlydir"), filepath.Join(server.Dir(), "older")
	require.NoError(w.t, copyData(data, older))
	w.wait(f.For)
	server.Kill()
	require.NoError(w.t, copyData(older, data))
	server.Resume(w.t)
	w.well(f)
}

// clockMoved steps Redis's clock, and steps it back.
func (w *chaosWorld) clockMoved(by time.Duration) maker {
	step := func(by time.Duration) {
		for _, room := range w.rooms {
			client := w.store.client(w.store.master(room.name))
			require.NoError(w.t, client.Eval(context.Background(), stepClock, []string{"qg:{" + room.name + "}:room"}, -by.Milliseconds()).Err())
			_ = client.Close()
		}
	}
	return func(f *chaos.Fault) {
		step(by)
		w.wait(f.For)
		step(-by)
		w.well(f)
	}
}

func (w *chaosWorld) replicaKilled(f *chaos.Fault) {
	master := w.store.master("")
	for i := range w.store.servers {
		server := w.store.servers[(i+int(f.Pick%3))%3]
		if server == master {
			continue
		}
		server.Kill()
		w.wait(f.For)
		server.Resume(w.t)
		break
	}
	w.well(f)
}

// slotMoved gives the slot of a room to another master, key by key.
func (w *chaosWorld) slotMoved(f *chaos.Fault) {
	room := w.room(f)
	from := w.store.master(room)
	to := w.store.servers[f.Pick/7%3]
	if from == to {
		to = w.store.servers[(f.Pick/7+1)%3]
	}
	f.Told = room
	w.store.cluster.Move(w.t, w.store.cluster.Slot(w.t, room), from, to, func() { w.wait(20 * time.Millisecond) })
	w.store.owner[room] = to
	w.well(f)
}
