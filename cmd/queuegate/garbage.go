package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// garbageRoom is how much garbage may lie about before it is collected, however
	// little there is beside it. A gate whose crowd is in Redis has a heap of some MB,
	// which Go collects over and over under load. It was tried with GOGC=400, in two runs
	// one after the other, against programs that took turns with it: 0.98 and 1.10 of a
	// bare proxy on an open route, 0.67 and 0.71 of an empty handler for polls, 0.44 and
	// 0.52 for the queue page, but 0.94 and 0.92 with a pass, which is within the scatter.
	garbageRoom = 64 << 20
	// Go's own measure, in percent of what lives, and the one that a small heap has.
	usualGarbage, mostGarbage = 100, 400
	// garbageGlance is how often the measure is fitted to what lives.
	garbageGlance = time.Second
)

// garbagePercent is the measure for a heap of which so many bytes live.
func garbagePercent(live uint64) int {
	return int(min(max(garbageRoom*100/max(live, 1), usualGarbage), mostGarbage))
}

// liveHeap is how many bytes were found to live when garbage was collected last.
func liveHeap() uint64 {
	now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(now)
	return now[0].Value.Uint64()
}

// leaveGarbage fits the collector to what lives until ctx ends. Whoever has set GOGC is
// obeyed. A limit by GOMEMLIMIT holds all the same: near it Go collects as often as
// it must.
func leaveGarbage(ctx context.Context, live func() uint64) {
	set := debug.SetGCPercent(usualGarbage)
	defer func() { debug.SetGCPercent(set) }()
	if set != usualGarbage {
		return
	}
	now := set
	tick := time.NewTicker(garbageGlance)
	defer tick.Stop()
	for {
		if percent := garbagePercent(live()); percent != now {
			debug.SetGCPercent(percent)
			now = percent
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
