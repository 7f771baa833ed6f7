package queue_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
)

func TestALineGoesOverToOtherOptionsAndForgetsNothing(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{Slots: 1}; o.MaxRequest = time.Hour })
		holder, gone := join(t, line, 1), join(t, line, 2)
		first, second := touch(t, line, join(t, line, 3)), touch(t, line, join(t, line, 4))
		_, err := line.Leave(t.Context(), queue.Holding{Visitor: gone.Visitor, Place: gone.Place})
		require.NoError(t, err)
		_, err = line.Control(t.Context(), queue.Change{By: "ada", Set: map[queue.Setting]string{queue.SettingMessage: "live"}})
		require.NoError(t, err)
		epoch := holder.Room.Epoch

		apply, err := line.Prepare(queue.Options{Limits: queue.Limits{Slots: 2}, Message: "of the file", Session: time.Minute, MaxRequest: time.Minute})
		require.NoError(t, err)
		tickThrough(t, line)
		require.Equal(t, int64(1), line.Settings().Limits.Slots, "nothing is in force that was only prepared")
		apply()
		require.NoError(t, line.Configure(t.Context()))

		in := line.Settings()
		require.Equal(t, int64(2), in.Limits.Slots)
		require.Equal(t, time.Minute, in.Session)
		require.Equal(t, "live", in.Message, "what an operator has set stays")
		tickThrough(t, line)
		require.Equal(t, queue.Ready, touch(t, line, first).State, "a raised limit counts at once, in order")
		require.Equal(t, queue.Waiting, touch(t, line, second).State)
		_, over := line.Ended(gone.Visitor, gone.Place)
		require.True(t, over, "an end is not forgotten")
		room, _ := line.Room()
		require.Equal(t, epoch, room.Epoch, "to Redis it is the same gate")
		gates, err := rdb.HLen(t.Context(), "qg:{checkout}:gates").Result()
		require.NoError(t, err)
		require.Equal(t, int64(1), gates)
	})
}

func TestALineTakesNoOptionsThatNewWouldRefuse(t *testing.T) {
	t.Parallel()
	line, err := queue.New(queue.Options{Redis: &redis.Client{}, Room: "checkout", Limits: queue.Limits{Slots: 1}})
	require.NoError(t, err)
	apply, err := line.Prepare(queue.Options{Limits: queue.Limits{PerMinute: 1, Burst: 2}})
	require.EqualError(t, err, "queue: Options.Limits.Burst 2 is above PerMinute 1")
	require.Nil(t, apply)
	require.Equal(t, int64(1), line.Settings().Limits.Slots)

	// Redis was never reached: there is nothing to ask first.
	apply, err = line.Prepare(queue.Options{Limits: queue.Limits{Slots: 3}})
	require.NoError(t, err)
	apply()
	require.Equal(t, int64(3), line.Settings().Limits.Slots)
}
