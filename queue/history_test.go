package queue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
)

// writePoints has each line offer a point within one slot of five seconds; what one
// of them wrote before the slot was over is taken away.
func writePoints(t *testing.T, rdb *redis.Client, lines ...*queue.Line) {
	t.Helper()
	key, _ := lines[0].RecordKeys()
	for ; ; require.NoError(t, rdb.Del(t.Context(), key).Err()) {
		last, sameSlot := queue.PointEvery, true
		for _, line := range lines {
			rest, err := line.WritePoint(t.Context())
			require.NoError(t, err)
			require.Positive(t, rest)
			require.LessOrEqual(t, rest, queue.PointEvery)
			sameSlot = sameSlot && rest <= last
			last = rest
		}
		if sameSlot {
			return
		}
	}
}

func history(t *testing.T, line *queue.Line) []queue.Point {
	t.Helper()
	points, err := line.History(t.Context(), time.Time{})
	require.NoError(t, err)
	return points
}

// age makes all points so many slots older, as if they had been written then.
func age(t *testing.T, rdb *redis.Client, line *queue.Line, slots int) {
	t.Helper()
	key, _ := line.RecordKeys()
	all, err := rdb.HGetAll(t.Context(), key).Result()
	require.NoError(t, err)
	require.NoError(t, rdb.Del(t.Context(), key).Err())
	for _, text := range all {
		words := strings.Fields(text)
		slot, err := strconv.Atoi(words[1])
		require.NoError(t, err)
		at, err := strconv.Atoi(words[2])
		require.NoError(t, err)
		words[1], words[2] = strconv.Itoa(slot-slots), strconv.Itoa(at-slots*5000)
		require.NoError(t, rdb.HSet(t.Context(), key, (slot-slots)%720, strings.Join(words, " ")).Err())
	}
}

func TestHistoryTellsTheRoomAsItWas(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{Slots: 2, PerMinute: 600} })
		inside := enter(t, line, 1, 2)
		waiting := []queue.Standing{join(t, line, 10), join(t, line, 11)}
		for i := range waiting {
			waiting[i] = touch(t, line, waiting[i])
		}
		tickThrough(t, line)
		writePoints(t, rdb, line)
		age(t, rdb, line, 3)
		for range 12 { // in steps that nobody is overdue in
			advance(t, line, rdb, 5*time.Second)
			waiting[0] = touch(t, line, waiting[0])
		}
		release(t, line, inside[0])
		writePoints(t, rdb, line)

		points := history(t, line)
		require.Len(t, points, 2, "one for each slot")
		first, second := points[0], points[1]
		require.EqualValues(t, 2, first.Waiting)
		require.EqualValues(t, 2, first.Holding)
		require.Equal(t, queue.Open, first.State)
		require.Equal(t, queue.Limits{Slots: 2, PerMinute: 600}, first.Limits)
		require.EqualValues(t, 1, first.Tally.Gates)
		require.EqualValues(t, 4, first.Tally.Joined)
		require.EqualValues(t, 2, first.Tally.Admitted)
		require.WithinDuration(t, time.Now(), second.At, time.Minute)
		require.InDelta(t, 15, second.At.Sub(first.At).Seconds(), 5)

		require.EqualValues(t, 3, second.Tally.Admitted)
		require.EqualValues(t, 1, second.Tally.Ended[queue.Released])
		require.EqualValues(t, 1, second.Waiting+second.Away)
		at, known := second.Waits.Since(first.Waits).Quantile(0.95)
		require.True(t, known)
		require.InDelta(t, 60, at.Seconds(), 12, "the one who got the slot waited a minute")
		at, known = first.Waits.Quantile(0.5)
		require.True(t, known)
		require.Less(t, at, time.Second, "the first two came in at once")
	})
}

func TestGatesWriteOnePointASlotTogether(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		one, two := newLine(t, rdb, nil), newLine(t, rdb, nil)
		tickThrough(t, one)
		writePoints(t, rdb, one, two, one)
		points := history(t, two)
		require.Len(t, points, 1)
		require.Equal(t, points, history(t, one))
		enter(t, one, 1, 1)
		writePoints(t, rdb, two)
		if again := history(t, two); len(again) == 1 { // still the same slot
			require.Equal(t, points, again, "the point of a slot is written once")
		}
		age(t, rdb, one, 1)
		writePoints(t, rdb, two) // when the first is dead
		require.GreaterOrEqual(t, len(history(t, two)), 2)
	})
}

func TestHistoryHoldsAnHourAndNoMore(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		tickThrough(t, line)
		writePoints(t, rdb, line)
		key, _ := line.RecordKeys()
		age(t, rdb, line, 700)
		require.Len(t, history(t, line), 1, "nearly an hour old")
		age(t, rdb, line, 20)
		require.Empty(t, history(t, line), "over an hour old")
		require.NoError(t, rdb.Del(t.Context(), key).Err())
		writePoints(t, rdb, line)
		require.Len(t, history(t, line), 1)
		age(t, rdb, line, -100)
		require.Empty(t, history(t, line), "of a time to come, when a clock went back")
		for place := range 720 {
			require.NoError(t, rdb.HSet(t.Context(), key, place, "1 1 5000 garbage of long ago").Err())
		}
		writePoints(t, rdb, line)
		require.Len(t, history(t, line), 1)
		require.EqualValues(t, 720, rdb.HLen(t.Context(), key).Val(), "a ring: the new ones take the place of the old")
		since, err := line.History(t.Context(), time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.Empty(t, since)
	})
}

func TestHistoryOutlivesAResetAndBeginsAnewAfterALoss(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		enter(t, line, 1, 2)
		tickThrough(t, line)
		writePoints(t, rdb, line)
		age(t, rdb, line, 1)
		_, err := line.Reset(t.Context(), "ana")
		require.NoError(t, err)
		writePoints(t, rdb, line)
		points := history(t, line)
		require.Len(t, points, 2)
		require.Greater(t, points[1].Generation, points[0].Generation)
		require.EqualValues(t, 1, points[1].Tally.Resets)

		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		_, err = line.WritePoint(t.Context())
		require.NoError(t, err)
		require.Empty(t, history(t, line), "there is no room to tell of")
		_, err = line.Step(t.Context())
		require.NoError(t, err)
		writePoints(t, rdb, line)
		again := history(t, line)
		require.NotEmpty(t, again)
		last := again[len(again)-1]
		require.Greater(t, last.Epoch, points[1].Epoch)
		require.True(t, last.Healing)
	})
}

func TestGatesTellOfThemselves(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		named := func(name, version string) *queue.Line {
			return newLine(t, rdb, func(o *queue.Options) { o.Gate, o.Version = name, version })
		}
		one, two, three := named("web-1", "v1.0"), named("web-2", "v1.1 of today"), named("web-3", "")
		for _, line := range []*queue.Line{one, two, three} {
			tickThrough(t, line)
			writePoints(t, rdb, line)
		}
		gates, err := two.Gates(t.Context())
		require.NoError(t, err)
		require.Equal(t, "web-1 v1.0, web-2 v1.1 of today, web-3 dev", listed(gates))
		three.SignOff(t.Context())
		advance(t, two, rdb, 8*time.Second)
		tickThrough(t, two)
		gates, err = two.Gates(t.Context())
		require.NoError(t, err)
		require.Equal(t, "web-1 v1.0, web-2 v1.1 of today", listed(gates), "one was stopped")
		require.GreaterOrEqual(t, gates[0].Silent, 7*time.Second, "one has died")
		require.Less(t, gates[1].Silent, 2*time.Second)

		advance(t, two, rdb, 11*time.Minute)
		tickThrough(t, two)
		age(t, rdb, two, 1)
		writePoints(t, rdb, two)
		gates, err = two.Gates(t.Context())
		require.NoError(t, err)
		require.Equal(t, "web-2 v1.1 of today", listed(gates))
	})
}

func listed(gates []queue.Gate) string {
	var list []string
	for _, g := range gates {
		list = append(list, g.Name+" "+g.Version)
	}
	return strings.Join(list, ", ")
}

// A quantile is true to a tenth, whatever people waited.
func TestQuantileOfWaits(t *testing.T) {
	_, known := queue.Waits{}.Quantile(0.5)
	require.False(t, known)
	for bucket := range len(queue.Waits{}) {
		t.Run(fmt.Sprint("bucket ", bucket), func(t *testing.T) {
			var w queue.Waits
			w[bucket] = 100
			low, _ := w.Quantile(0.01)
			high, _ := w.Quantile(1)
			require.LessOrEqual(t, low, high)
			if bucket > 0 {
				require.InDelta(t, 1.19, high.Seconds()/low.Seconds(), 0.02)
			}
		})
	}
	w := queue.Waits{0: 90, 25: 10} // ten waited 64 s to 76 s
	typical, _ := w.Quantile(0.5)
	worst, _ := w.Quantile(0.95)
	require.Less(t, typical, time.Second)
	require.InDelta(t, 70, worst.Seconds(), 2)
	later := w
	later[40] += 4
	only, known := later.Since(w).Quantile(0.5)
	require.True(t, known)
	require.Greater(t, only, 10*time.Minute)
	_, known = w.Since(later).Quantile(0.5)
	require.False(t, known)
}
