package main_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
)

// pulse is how often a watcher looks.
const pulse = 150 * time.Millisecond

// watch starts the watchers: of a server that nothing is done to, and at each gate of a route that is
// not protected and of a place in a line that stands still. What it returns waits until
// they have gone.
func (w *chaosWorld) watch(ctx context.Context) (wait func()) {
	var all sync.WaitGroup
	look := func(what chaos.What, gate int, path func() (string, map[string]string), note func(answer)) {
		all.Go(func() {
			for ctx.Err() == nil {
				url, header := path()
				c := chaos.Call{What: what, Gate: gate, Sent: w.since()}
				got, err := send(w.client, request{method: "GET", url: url, header: header})
				c.Got, c.Code, c.Degraded = w.since(), got.code, got.doc.RoomState == "degraded"
				if err != nil {
					c.Why = err.Error()
				} else if note != nil {
					note(got)
				}
				w.mu.Lock()
				w.calls = append(w.calls, c)
				w.mu.Unlock()
				w.wait(pulse)
			}
		})
	}
	look(chaos.Direct, -1, func() (string, map[string]string) { return w.plainURL + "/direct", nil }, nil)
	for i := range w.gates {
		look(chaos.Open, i, func() (string, map[string]string) { return *w.addresses[i].Load() + "/about", nil }, nil)
		ticket := ""
		look(chaos.Status, i, func() (string, map[string]string) {
			header := map[string]string{"Accept": "application/json"}
			if ticket == "" {
				return *w.addresses[i].Load() + "/watch", header // joins
			}
			header["X-Queue-Ticket"] = ticket
			return *w.addresses[i].Load() + "/_queue/watch/status", header
		}, func(got answer) {
			if got.doc.Ticket != "" {
				ticket = got.doc.Ticket
			}
		})
	}
	return all.Wait
}

// met tells of each fault what visitors and watchers met while it was on: the share of
// requests that were not answered as on a good day. It is for the table in the README.
func (w *chaosWorld) met(e *chaos.Evidence) map[string]string {
	type tally struct {
		times, calls, failed, unknown, degraded int
		slowest, healed                         time.Duration
	}
	all := map[chaos.Kind]*tally{}
	for _, f := range e.Faults {
		m := all[f.Kind]
		if m == nil {
			m = &tally{}
			all[f.Kind] = m
		}
		m.times++
		m.healed = max(m.healed, f.Ended-f.Began-f.For)
		for _, people := range w.people {
			for _, p := range people {
				for _, h := range p.Heard {
					if h.Sent < f.Began || h.Sent > f.Ended {
						continue
					}
					m.calls++
					switch {
					case h.Failed != 0:
						m.failed++
					case h.Code == 0:
						m.unknown++
					case h.Degraded:
						m.degraded++
					}
					if h.Code != 0 {
						m.slowest = max(m.slowest, h.Got-h.Sent)
					}
				}
			}
		}
	}
	told := map[string]string{}
	for kind, m := range all {
		told[string(kind)] = fmt.Sprintf("%d times, %d requests: %d degraded, %d failed, %d without an answer, the slowest answer after %d ms; over %.1f s after it was mended",
			m.times, m.calls, m.degraded, m.failed, m.unknown, m.slowest.Milliseconds(), m.healed.Seconds())
	}
	return told
}

// checkGrowth compares a gate that has seen everything with one that has seen nothing.
func (w *chaosWorld) checkGrowth() {
	w.client.CloseIdleConnections()
	w.transport.CloseIdleConnections()
	fresh := startGate(w.t, w.config, w.gates[0].env...)
	fresh.waitReady(w.t)
	w.gates[0].noMoreThan(w.t, fresh.holds(w.t), 20, 4<<20)
	fresh.kill()
}
