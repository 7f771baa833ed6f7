package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASmallHeapIsCollectedSeldomAndALargeOneAsUsual(t *testing.T) {
	for live, percent := range map[uint64]int{
		0: 400, 1: 400, 10 << 20: 400, 16 << 20: 400, 32 << 20: 200, 64 << 20: 100, 1 << 30: 100, 1 << 62: 100,
	} {
		require.Equal(t, percent, garbagePercent(live), "%d bytes live", live)
	}
}

// measureNow is what the collector goes by.
func measureNow() uint64 {
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(now)
	return now[0].Value.Uint64()
}

func TestTheCollectorIsFittedOnlyWhileTheGateRunsAndNobodySaysOtherwise(t *testing.T) {
	before := debug.SetGCPercent(usualGarbage)
	defer debug.SetGCPercent(before)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		leaveGarbage(ctx, func() uint64 { return 32 << 20 })
	}()
	require.Eventually(t, func() bool { return measureNow() == 200 }, 20*time.Second, time.Millisecond)
	stop()
	<-over
	require.EqualValues(t, usualGarbage, measureNow())

	debug.SetGCPercent(250) // as GOGC does
	leaveGarbage(t.Context(), func() uint64 {
		require.Fail(t, "the measure that was set is changed")
		return 0
	})
	require.EqualValues(t, 250, measureNow())
}
