package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue/queuetest"
)

// tellWithin is how soon operators are to know. It is what the test reports, not what
// it is judged by: a busy machine is slower.
const tellWithin = 5 * time.Second

// desk is what the one who is paged looks at.
type desk struct {
	t     *testing.T
	gate  *gate
	since int // of the log
}

// api asks the admin listener, as the dashboard does; it tells whether it answered.
func (d *desk) api(path string, into any) bool {
	got, err := newApp(d.t).send(request{method: "GET", url: d.gate.admin + path})
	return err == nil && got.code == http.StatusOK && json.Unmarshal(got.body, into) == nil
}

// happens does something and waits until each of the places to look at tells of it.
func (d *desk) happens(what string, do func(), told map[string]func() bool) {
	d.t.Helper()
	d.since = len(d.gate.stderr.String())
	do()
	start := time.Now()
	for place, tells := range told {
		eventually(d.t, what+": "+place+" tells", tells)
		took := time.Since(start)
		d.t.Logf("%s: %s told after %v at the latest (wanted %v)", what, place, took.Round(10*time.Millisecond), tellWithin)
	}
}

// logged tells whether a record with the message was written since it happened, and
// that there is one only.
func (d *desk) logged(message string) func() bool {
	return func() bool {
		n := strings.Count(d.gate.stderr.String()[d.since:], fmt.Sprintf(`"msg":"%s`, message))
		require.LessOrEqual(d.t, n, 1, "%s: once for a change", message)
		return n == 1
	}
}

func (d *desk) number(name string, want float64) func() bool {
	return func() bool {
		got, there := d.gate.numbers(d.t)[name]
		return there && got == want
	}
}

type roomSeen struct {
	State   string `json:"state"`
	RedisUp bool   `json:"redis_up"`
	Active  int    `json:"active"`
	Waiting int    `json:"waiting"`
}

// room looks at the room as the dashboard shows it.
func (d *desk) room(is func(roomSeen) bool) func() bool {
	return func() bool {
		var seen roomSeen
		return d.api("/api/rooms/checkout", &seen) && is(seen)
	}
}

// gates looks at the list of gates as the dashboard shows it.
func (d *desk) gates(is func(silent []float64, refuse int) bool) func() bool {
	return func() bool {
		var list struct {
			Gates []struct {
				Silent  float64 `json:"silent_seconds"`
				Refuses bool    `json:"shop_refuses"`
			}
		}
		if !d.api("/api/gates", &list) {
			return false
		}
		var silent []float64
		refuse := 0
		for _, g := range list.Gates {
			silent = append(silent, g.Silent)
			if g.Refuses {
				refuse++
			}
		}
		return is(silent, refuse)
	}
}

// TestWhoeverIsPagedIsToldByMetricsLogAndDashboard fills the room, stops the shop, kills
// a gate and Redis under the eyes of the gate that is left.
func TestWhoeverIsPagedIsToldByMetricsLogAndDashboard(t *testing.T) {
	t.Parallel()
	shop := newRecordingShop(t)
	redis := queuetest.Start(t, "--appendonly", "yes")
	config := writeConfig(t, plan{rooms: room("total_active_users: 1"), timeout: "2s"}, shop.URL, redis.URL)
	gate, other := startGate(t, config), startGate(t, config)
	gate.waitReady(t)
	other.waitReady(t)
	d := &desk{t: t, gate: gate}
	holder, waiting := newApp(t), newApp(t)

	d.happens("the room is full", func() {
		holder.enter(t, other)
		_, err := waiting.join(other, nil)
		require.NoError(t, err)
		waiting.waits(t, other)
	}, map[string]func() bool{
		"the log of the room":  d.logged("the room is full: all slots are taken"),
		"the log of the line":  d.logged("a line has formed"),
		"the metric of slots":  d.number(`queuegate_queue_active{room="checkout"}`, 1),
		"the metric of people": d.number(`queuegate_queue_waiting{room="checkout"}`, 1),
		"the dashboard":        d.room(func(r roomSeen) bool { return r.Active == 1 && r.Waiting == 1 }),
	})

	d.happens("a gate dies", other.kill, map[string]func() bool{
		"the metric":    d.number(`queuegate_gates{room="checkout"}`, 1),
		"the dashboard": d.gates(func(silent []float64, _ int) bool { return len(silent) == 2 && max(silent[0], silent[1]) > 2 }),
	})

	d.happens("the shop takes no connections", func() {
		shop.CloseClientConnections()
		require.NoError(t, shop.Listener.Close())
		_, err := holder.order(gate)
		require.NoError(t, err)
	}, map[string]func() bool{
		"the log":       d.logged("the shop takes no connections: nobody new is let in until it does"),
		"the metric":    d.number(`queuegate_upstream_refusing{room="checkout"}`, 1),
		"the dashboard": d.gates(func(_ []float64, refuse int) bool { return refuse == 1 }),
	})

	d.happens("Redis dies", redis.Kill, map[string]func() bool{
		"the log":       d.logged("redis lost: "),
		"the metric":    d.number(`queuegate_redis_up{room="checkout"}`, 0),
		"the dashboard": d.room(func(r roomSeen) bool { return !r.RedisUp }),
	})

	d.happens("Redis is back", func() { redis.Resume(t) }, map[string]func() bool{
		"the log":       d.logged("redis back"),
		"the metric":    d.number(`queuegate_redis_up{room="checkout"}`, 1),
		"the dashboard": d.room(func(r roomSeen) bool { return r.RedisUp && r.Active == 1 }),
	})
}
