package queue_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

type set = map[queue.Setting]string

func change(t *testing.T, line *queue.Line, by string, to set, cleared ...queue.Setting) queue.Controls {
	t.Helper()
	c, err := line.Control(t.Context(), queue.Change{By: by, Set: to, Clear: cleared})
	require.NoError(t, err)
	return c
}

func TestEveryGateFollowsALiveValueUntilItIsCleared(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		file := func(o *queue.Options) {
			o.Limits = queue.Limits{Slots: 5, PerMinute: 600}
			o.Session, o.SessionMax, o.Message = 2*time.Minute, time.Hour, "Bring your card"
		}
		one, two := newLine(t, rdb, file), newLine(t, rdb, file)
		before := one.Settings()
		require.Equal(t, queue.Settings{
			State: queue.Open, Limits: queue.Limits{Slots: 5, PerMinute: 600, Burst: 10}, Session: 2 * time.Minute,
			SessionMax: time.Hour, Message: "Bring your card",
		}, before)
		change(t, one, "ana", set{
			queue.SettingState: "paused", queue.SettingSlots: "2", queue.SettingPerMinute: "60", queue.SettingSession: "1m",
			queue.SettingSessionMax: "2m", queue.SettingDisableRenewal: "true", queue.SettingMessage: "Doors at ten",
			queue.SettingStock: "40",
		})
		turn(t, two)
		late := newLine(t, rdb, file)
		for _, line := range []*queue.Line{one, two, late} {
			require.Equal(t, queue.Settings{
				State: queue.Paused, Limits: queue.Limits{Slots: 2, PerMinute: 60, Burst: 1}, Session: time.Minute,
				SessionMax: 2 * time.Minute, DisableRenewal: true, Message: "Doors at ten", Stock: new(int64(40)),
			}, line.Settings(), "the burst goes with the rate")
			room, _ := line.Room()
			require.Equal(t, queue.Paused, room.State)
			require.EqualValues(t, 2, room.Limits.Slots)
			live := line.Controls().Live[queue.SettingSlots]
			require.Equal(t, "2", live.Value)
			require.Equal(t, "ana", live.By)
			require.WithinDuration(t, room.Clock, live.At, time.Minute)
			require.Equal(t, "5", line.Controls().File[queue.SettingSlots])
		}
		change(t, late, "ben", nil, queue.SettingState, queue.SettingSlots, queue.SettingPerMinute, queue.SettingSession,
			queue.SettingSessionMax, queue.SettingDisableRenewal, queue.SettingMessage, queue.SettingStock)
		turn(t, one, two)
		for _, line := range []*queue.Line{one, two, late} {
			require.Equal(t, before, line.Settings(), "the file's values count again")
		}
	})
}

func TestASessionChangedLiveIsHowLongPassesLast(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line, other := newLine(t, rdb, nil), newLine(t, rdb, nil)
		change(t, other, "ana", set{queue.SettingSession: "20s"})
		turn(t, line)
		s := claim(t, line, join(t, line, 1))
		advance(t, line, rdb, 80*time.Second)
		s, err := line.Renew(t.Context(), holding(s))
		require.NoError(t, err)
		require.EqualValues(t, 20_000, s.Lease.End-s.Room.Now)
	})
}

func TestChangesMadeAtOnceAreAllThere(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		lines := []*queue.Line{newLine(t, rdb, nil), newLine(t, rdb, nil), newLine(t, rdb, nil)}
		names := []queue.Setting{queue.SettingSlots, queue.SettingStock, queue.SettingMessage}
		var group sync.WaitGroup
		for i, line := range lines {
			group.Go(func() {
				for n := range 10 {
					for try := 0; try < 50; try++ {
						if _, err := line.Control(context.Background(), queue.Change{
							By: fmt.Sprintf("operator %d", i), Set: set{names[i]: strconv.Itoa(n + 1)},
						}); err == nil {
							break
						}
					}
				}
			})
		}
		group.Wait()
		turn(t, lines...)
		for _, line := range lines {
			for i, name := range names {
				live := line.Controls().Live[name]
				require.Equal(t, "10", live.Value, name)
				require.Equal(t, fmt.Sprintf("operator %d", i), live.By)
			}
			require.Len(t, line.Controls().History, 20, "the last ones")
		}
	})
}

func TestAChangeThatCannotBeMadeChangesNothing(t *testing.T) {
	rdb := queuetest.Embedded(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{Slots: 2} })
	before := line.Controls()
	for want, c := range map[string]queue.Change{
		`By must say in 1 to 64 characters who makes it`:                                    {Set: set{queue.SettingSlots: "3"}},
		`weather: there is no such setting`:                                                 {By: "ana", Set: set{"weather": "fine"}},
		`state: must be one of [open queue_all paused closed sold_out] (got "ajar")`:        {By: "ana", Set: set{queue.SettingState: "ajar"}},
		`total_active_users: must be a whole number from 0 (got "many")`:                    {By: "ana", Set: set{queue.SettingSlots: "many"}},
		`remaining_stock: must be a whole number from 0 (got "-1")`:                         {By: "ana", Set: set{queue.SettingStock: "-1"}},
		`total_active_users: a room needs total_active_users, new_users_per_minute or both`: {By: "ana", Set: set{queue.SettingSlots: "0"}},
		`burst: must be from 1 to new_users_per_minute (60)`:                                {By: "ana", Set: set{queue.SettingPerMinute: "60", queue.SettingBurst: "61"}},
		`session_duration: must be at least 100ms`:                                          {By: "ana", Set: set{queue.SettingSession: "1ms"}},
		`session_max: must not be below session_duration (5m0s), or 0s for none`:            {By: "ana", Set: set{queue.SettingSessionMax: "1m"}},
		`session_duration: must be a duration such as 5m (got "90")`:                        {By: "ana", Set: set{queue.SettingSession: "90"}},
		`disable_session_renewal: must be true or false (got "maybe")`:                      {By: "ana", Set: set{queue.SettingDisableRenewal: "maybe"}},
	} {
		_, err := line.Control(t.Context(), c)
		require.ErrorIs(t, err, queue.ErrSetting)
		require.ErrorContains(t, err, want)
		require.Equal(t, before, line.Controls())
	}
	turn(t, line)
	require.Equal(t, before, line.Controls())
}

func TestHistoryTellsWhoChangedWhat(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		change(t, line, "ana", set{queue.SettingSlots: "9"})
		change(t, line, "ben", set{queue.SettingSlots: "7"})
		require.NoError(t, line.Obey(t.Context(), set{queue.SettingStock: "100"}))
		got := change(t, line, "ana", nil, queue.SettingSlots, queue.SettingMessage).History
		for i := range got {
			require.WithinDuration(t, time.Now(), got[i].At, time.Hour)
			got[i].At = time.Time{}
		}
		require.Equal(t, []queue.Changed{
			{Setting: queue.SettingSlots, Old: "2", New: "9", By: "ana"},
			{Setting: queue.SettingSlots, Old: "9", New: "7", By: "ben"},
			{Setting: queue.SettingSlots, Old: "7", New: "2", By: "ana", Cleared: true},
		}, got, "and not each count of the stock")
	})
}

func TestTheShopChangesOnlyWhatNoOperatorHasSet(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.QueueAll = true })
		soldOut := set{queue.SettingState: "sold_out"}
		require.NoError(t, line.Obey(t.Context(), soldOut))
		require.Equal(t, queue.RoomSoldOut, line.Settings().State)
		require.NoError(t, line.Obey(t.Context(), nil, queue.SettingState))
		require.Equal(t, queue.QueueAll, line.Settings().State, "on sale again: as the file says")

		change(t, line, "ana", set{queue.SettingState: "paused", queue.SettingStock: "5"})
		require.NoError(t, line.Obey(t.Context(), set{queue.SettingState: "sold_out", queue.SettingStock: "1"}))
		require.NoError(t, line.Obey(t.Context(), nil, queue.SettingState))
		require.Equal(t, queue.Paused, line.Settings().State)
		require.EqualValues(t, 5, *line.Settings().Stock)

		change(t, line, "ana", nil, queue.SettingState, queue.SettingStock)
		require.NoError(t, line.Obey(t.Context(), soldOut))
		version := line.Controls().Version
		require.NoError(t, line.Obey(t.Context(), soldOut))
		require.Equal(t, version, line.Controls().Version, "said twice is one change")
		require.ErrorIs(t, line.Obey(t.Context(), set{queue.SettingStock: "lots"}), queue.ErrSetting)
	})
}

func TestSoldOutKeepsPlacesAndGivesNone(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		waiting := touch(t, line, join(t, line, 3))
		require.NoError(t, line.Obey(t.Context(), set{queue.SettingState: "sold_out"}))
		require.Equal(t, queue.SoldOut, join(t, line, 4).Refusal)
		release(t, line, inside[0])
		waiting = touch(t, line, waiting)
		require.Equal(t, queue.Waiting, waiting.State, "the place is kept")
		require.Equal(t, queue.RoomSoldOut, waiting.Room.State)
		require.Equal(t, queue.Active, claim(t, line, inside[1]).State, "who is inside goes on")
		require.NoError(t, line.Obey(t.Context(), nil, queue.SettingState))
		require.Equal(t, queue.Ready, touch(t, line, waiting).State)
	})
}

func TestLiveValuesSurviveALossAndTheNewestCounts(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, server *queuetest.Server, older []byte){
		"empty":         func(t *testing.T, server *queuetest.Server, _ []byte) { server.Restore(t, nil) },
		"an older copy": func(t *testing.T, server *queuetest.Server, older []byte) { server.Restore(t, older) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := queuetest.Start(t)
			rdb := server.Client(t)
			behind, newest := newLine(t, rdb, nil), newLine(t, rdb, nil)
			change(t, behind, "ana", set{queue.SettingState: "closed"})
			turn(t, behind, newest)
			older := server.Save(t)
			change(t, newest, "ana", set{queue.SettingState: "sold_out", queue.SettingMessage: "Thank you all"})
			lose(t, server, older)
			turn(t, behind, newest, behind)
			for _, line := range []*queue.Line{behind, newest, newLine(t, rdb, nil)} {
				require.Equal(t, queue.RoomSoldOut, line.Settings().State)
				require.Equal(t, "Thank you all", line.Settings().Message)
				room, _ := line.Room()
				require.Equal(t, queue.RoomSoldOut, room.State)
			}
		})
	}
}

func TestWhatTheShopSaysWhileRedisIsAwayIsHeardLater(t *testing.T) {
	server := queuetest.Start(t)
	line := newLine(t, server.Client(t), func(o *queue.Options) { o.Timeout = 10 * time.Second })
	other := newLine(t, server.Client(t), nil)
	dump := server.Save(t)
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, line.Obey(ctx, set{queue.SettingStock: "9"}))
	require.NoError(t, line.Obey(ctx, set{queue.SettingStock: "3", queue.SettingState: "sold_out"}))
	server.Restore(t, dump)
	turn(t, line, other)
	require.EqualValues(t, 3, *other.Settings().Stock, "the newest word counts")
	require.Equal(t, queue.RoomSoldOut, other.Settings().State)
}

func TestAFileThatContradictsLiveValuesStopsNoRoom(t *testing.T) {
	rdb := queuetest.Embedded(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{Slots: 5, PerMinute: 600, Burst: 10} })
	change(t, line, "ana", set{queue.SettingBurst: "300", queue.SettingSlots: "0", queue.SettingSession: "10m"})
	other := newLine(t, rdb, func(o *queue.Options) {
		o.Limits, o.Session, o.SessionMax = queue.Limits{Slots: 5}, time.Minute, 5*time.Minute
	})
	require.Equal(t, queue.Limits{Slots: 5}, other.Settings().Limits)
	require.Equal(t, 5*time.Minute, other.Settings().Session)
	turn(t, line)
	require.Equal(t, other.Settings(), line.Settings())
}

func TestEveryValueTellsWhereItComesFrom(t *testing.T) {
	line := newLine(t, queuetest.Embedded(t), func(o *queue.Options) { o.Limits = queue.Limits{Slots: 5, PerMinute: 600, Burst: 10} })
	c := change(t, line, "ana", set{queue.SettingPerMinute: "120", queue.SettingStock: "40", queue.SettingSession: "2h"}).InForce()
	from := func(name queue.Setting) queue.InForce { return c[name] }
	require.Equal(t, queue.InForce{Value: "5", Origin: queue.FromFile, File: "5"}, from(queue.SettingSlots))
	require.Equal(t, queue.FromLive, from(queue.SettingPerMinute).Origin)
	require.Equal(t, "600", from(queue.SettingPerMinute).File)
	require.Equal(t, "ana", from(queue.SettingPerMinute).Live.By)
	require.Equal(t, queue.InForce{Value: "2", Origin: queue.Derived, File: "10"}, from(queue.SettingBurst), "one second of the new rate")
	require.Equal(t, "40", from(queue.SettingStock).Value)
	require.Empty(t, from(queue.SettingStock).File)

	other := newLine(t, queuetest.Embedded(t), func(o *queue.Options) { o.SessionMax = time.Hour })
	bent := other.Controls()
	bent.Live = map[queue.Setting]queue.Live{queue.SettingSession: {Value: "2h", By: "ana"}}
	got := bent.InForce()[queue.SettingSession]
	require.Equal(t, "1h0m0s", got.Value)
	require.Equal(t, queue.Derived, got.Origin, "the file that came later allows no more")
	require.Equal(t, "2h", got.Live.Value)
}

func TestAGateThatHoldsLetsNobodyInAndOthersDo(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		held := true
		limits := func(o *queue.Options) { o.Limits = queue.Limits{Slots: 5, PerMinute: 60, Burst: 2} }
		holds := newLine(t, rdb, func(o *queue.Options) { limits(o); o.Hold = func() bool { return held } })
		other := newLine(t, rdb, limits)
		people := waitIn(t, holds, 1, 6)
		for range 10 {
			advance(t, holds, rdb, time.Second)
			_, err := holds.Tick(t.Context())
			require.NoError(t, err)
			for i, s := range people {
				people[i] = touch(t, holds, s)
				require.Equal(t, queue.Waiting, people[i].State, "held: neither a tick nor a sign of life admits")
			}
		}
		require.Equal(t, queue.Ready, touch(t, other, people[0]).State, "a gate that reaches the shop goes on")

		held = false
		_, err := holds.Tick(t.Context())
		require.NoError(t, err)
		in := 0
		for i, s := range people[1:] {
			if touch(t, holds, s).State == queue.Ready {
				in++
				require.Equal(t, in, i+1, "in their order")
			}
		}
		require.Equal(t, 1, in, "and no more at once than after any quiet time: one of the burst of two is in already")
	})
}
