package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// waitIn lets n people join and show up.
func waitIn(t *testing.T, line *queue.Line, from, n int) []queue.Standing {
	t.Helper()
	list := make([]queue.Standing, n)
	for i := range list {
		list[i] = touch(t, line, join(t, line, from+i))
		require.Equal(t, queue.Waiting, list[i].State)
	}
	return list
}

func letIn(t *testing.T, line *queue.Line, count int64) int64 {
	t.Helper()
	n, err := line.Admit(t.Context(), "ana", count)
	require.NoError(t, err)
	return n
}

func TestTheOperatorLetsInFromTheFrontBesideTheRate(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		limits := func(o *queue.Options) { o.Limits = queue.Limits{Slots: 9, PerMinute: 1, Burst: 1} }
		line, other := newLine(t, rdb, limits), newLine(t, rdb, limits)
		change(t, line, "ana", set{queue.SettingState: "paused"})
		people := waitIn(t, line, 1, 12)
		require.EqualValues(t, 4, letIn(t, line, 4))
		for i, s := range people {
			got := touch(t, other, s)
			require.Equal(t, i < 4, got.State == queue.Ready, "visitor %d is %s: the first four, though the room is paused", i, got.State)
		}
		require.EqualValues(t, 5, letIn(t, other, 100), "no more than there are slots")
		require.EqualValues(t, 0, letIn(t, line, 1))
		room, _ := line.Room()
		require.EqualValues(t, 9, room.Holding)
		require.EqualValues(t, 3, room.Waiting)

		change(t, line, "ana", nil, queue.SettingState)
		release(t, line, touch(t, line, people[0]))
		require.Equal(t, queue.Waiting, touch(t, line, people[9]).State, "a pause saves nothing up")
		advance(t, line, rdb, time.Minute)
		require.Equal(t, queue.Ready, touch(t, line, people[9]).State, "and whom the operator let in cost the rate nothing")
	})
}

func TestTheOperatorLetsInMoreThanOneCallCan(t *testing.T) {
	rdb := queuetest.Real(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{Slots: 1000, PerMinute: 1, Burst: 1} })
	change(t, line, "ana", set{queue.SettingState: "paused"})
	people := waitIn(t, line, 1, 170)
	require.EqualValues(t, 160, letIn(t, line, 160))
	require.Equal(t, queue.Ready, touch(t, line, people[159]).State)
	require.Equal(t, queue.Waiting, touch(t, line, people[160]).State)
	require.EqualValues(t, 10, letIn(t, line, queue.MostAdmitted), "there are no more")
	for _, count := range []int64{0, -1, queue.MostAdmitted + 1} {
		_, err := line.Admit(t.Context(), "ana", count)
		require.ErrorIs(t, err, queue.ErrSetting)
		require.ErrorContains(t, err, "count: must be from 1 to 10000")
	}
	_, err := line.Admit(t.Context(), "", 1)
	require.ErrorContains(t, err, "By must say")
}

func TestNobodyIsLetInWhileTheLineIsBroughtBack(t *testing.T) {
	rdb := queuetest.Embedded(t)
	line := newLine(t, rdb, nil)
	people := enter(t, line, 1, 2)
	waiting := waitIn(t, line, 3, 1)
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
	turn(t, line)
	touch(t, line, waiting[0])
	require.EqualValues(t, 0, letIn(t, line, 1))
	advance(t, line, rdb, 25*time.Second)
	touch(t, line, waiting[0])
	release(t, line, people[0])
	require.Equal(t, queue.Ready, touch(t, line, waiting[0]).State)
}

func TestAResetEndsEveryPlaceAndEveryPassAtAllGates(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		one, two := newLine(t, rdb, nil), newLine(t, rdb, nil)
		elsewhere := newLine(t, rdb, func(o *queue.Options) { o.Room = "drop" })
		there := join(t, elsewhere, 1)
		change(t, one, "ana", set{queue.SettingMessage: "Doors at ten"})
		inside := enter(t, one, 1, 2)
		waiting := waitIn(t, two, 3, 3)
		before, _ := two.Room()
		room, err := one.Reset(t.Context(), "ben")
		require.NoError(t, err)
		require.Greater(t, room.Generation, before.Generation)
		require.EqualValues(t, 0, room.Waiting)
		require.EqualValues(t, 0, room.Holding)
		turn(t, two)

		for _, line := range []*queue.Line{one, two} {
			heard, _ := line.Room()
			require.Equal(t, room.Generation, heard.Generation)
			for _, s := range waiting {
				got := touch(t, line, s)
				require.Equal(t, queue.Ended, got.State)
				require.Equal(t, queue.Expired, got.Why)
				glance, known := line.Glance(sign(s))
				require.True(t, known)
				require.Equal(t, queue.Ended, glance.State, "without asking")
			}
			for _, s := range inside {
				for _, use := range []func() (queue.Standing, error){
					func() (queue.Standing, error) { return line.Claim(t.Context(), holding(s)) },
					func() (queue.Standing, error) { return line.Renew(t.Context(), holding(s)) },
				} {
					got, err := use()
					require.NoError(t, err)
					require.Equal(t, queue.Unknown, got.State)
				}
			}
			require.Equal(t, "Doors at ten", line.Settings().Message, "live values stay")
		}
		fresh := claim(t, two, join(t, two, 1))
		require.Equal(t, queue.Active, fresh.State, "who was there before may come again")
		require.Greater(t, fresh.Place, room.Generation)
		require.Equal(t, queue.Ended, release(t, one, inside[0]).State)
		require.Equal(t, queue.Active, claimOrRenew(t, one, fresh).State, "and an old pass given back does not touch the new one")
		require.Equal(t, queue.Active, claim(t, elsewhere, there).State, "the other room knows of nothing")
		require.Equal(t, []queue.Changed{{
			Setting: queue.ActionReset, Old: fmt.Sprint(before.Generation), New: fmt.Sprint(room.Generation), By: "ben",
		}}, lastDone(one, 1))
	})
}

// lastDone is the newest of the history, without the times.
func lastDone(line *queue.Line, n int) []queue.Changed {
	list := line.Controls().History
	list = append([]queue.Changed(nil), list[len(list)-n:]...)
	for i := range list {
		list[i].At = time.Time{}
	}
	return list
}

func TestAResetOutlivesALoss(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, server *queuetest.Server, older []byte){
		"empty":         func(t *testing.T, server *queuetest.Server, _ []byte) { server.Restore(t, nil) },
		"an older copy": func(t *testing.T, server *queuetest.Server, older []byte) { server.Restore(t, older) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := queuetest.Start(t)
			rdb := server.Client(t)
			line := newLine(t, rdb, nil)
			inside := enter(t, line, 1, 2)
			waiting := waitIn(t, line, 3, 1)
			older := server.Save(t)
			room, err := line.Reset(t.Context(), "ana")
			require.NoError(t, err)
			newer := touch(t, line, touch(t, line, join(t, line, 9)))
			lose(t, server, older)
			gate := newLine(t, rdb, nil) // knows nothing of it
			require.Equal(t, newer.Place, touch(t, gate, newer).Place)
			turn(t, line, gate)
			heard, _ := gate.Room()
			require.Equal(t, room.Generation, heard.Generation)
			require.Equal(t, queue.Ended, touch(t, gate, waiting[0]).State)
			got, err := gate.Claim(t.Context(), holding(inside[0]))
			require.NoError(t, err)
			require.Equal(t, queue.Unknown, got.State)
		})
	}
}

func TestWhoComesAfterAResetIsDrawnAfterIt(t *testing.T) {
	rdb := queuetest.Embedded(t)
	line := newLine(t, rdb, drawing)
	toDraw(t, line, rdb, -10*time.Second)
	enter(t, line, 1, 2)
	old := touch(t, line, join(t, line, 3))
	room, err := line.Reset(t.Context(), "ana")
	require.NoError(t, err)
	require.Greater(t, room.Generation, old.Place)
	enter(t, line, 4, 2)
	for n := 6; n < 30; n++ {
		s := touch(t, line, join(t, line, n))
		require.Equal(t, queue.Waiting, s.State)
		require.Greater(t, s.Place, room.Generation)
	}
}

func TestAVisitorIsLookedUpWithoutASignOfLife(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		s := join(t, line, 3)
		got := find(t, line, visitor(3))
		require.Equal(t, queue.Away, got.State, "looking brings nobody in")
		require.Equal(t, s.Place, got.Place)
		require.EqualValues(t, 0, got.Ahead)
		require.WithinDuration(t, s.Joined, got.Joined, time.Second)
		got = find(t, line, visitor(1))
		require.Equal(t, queue.Active, got.State)
		require.Equal(t, inside[0].Lease.Admission, got.Lease.Admission)
		release(t, line, inside[1])
		got = find(t, line, visitor(2))
		require.Equal(t, queue.Ended, got.State)
		require.Equal(t, queue.Released, got.Why)
		require.Equal(t, queue.Unknown, find(t, line, visitor(99)).State)
	})
}

func find(t *testing.T, line *queue.Line, visitor string) queue.Standing {
	t.Helper()
	s, err := line.Find(t.Context(), visitor)
	require.NoError(t, err)
	return s
}

func TestTheOperatorEndsAStay(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		waiting := waitIn(t, line, 3, 2)
		s, err := line.Dismiss(t.Context(), "ana", visitor(1))
		require.NoError(t, err)
		require.Equal(t, queue.Ended, s.State)
		require.Equal(t, queue.Released, s.Why)
		why, over := line.Ended(visitor(1), inside[0].Place)
		require.True(t, over)
		require.Equal(t, queue.Released, why)
		require.Equal(t, queue.Ready, touch(t, line, waiting[0]).State, "the next one has the slot")
		_, err = line.Dismiss(t.Context(), "ana", visitor(4))
		require.NoError(t, err)
		require.Equal(t, queue.Ended, touch(t, line, waiting[1]).State, "a place is ended, too")
		require.Equal(t, []queue.Changed{
			{Setting: queue.ActionRelease, New: visitor(1), By: "ana"}, {Setting: queue.ActionRelease, New: visitor(4), By: "ana"},
		}, lastDone(line, 2))
		for _, gone := range []string{visitor(4), visitor(50)} {
			s, err = line.Dismiss(t.Context(), "ana", gone)
			require.NoError(t, err)
			require.Contains(t, []queue.State{queue.Ended, queue.Unknown}, s.State)
		}
		require.Len(t, line.Controls().History, 2, "nothing was done to who is not there")
	})
}

func TestAChangeMadeForAnOlderVersionIsRefused(t *testing.T) {
	rdb := queuetest.Embedded(t)
	one, two := newLine(t, rdb, nil), newLine(t, rdb, nil)
	seen := one.Controls().Version
	turn(t, two)
	change(t, two, "ben", set{queue.SettingSlots: "7"})
	_, err := one.Control(t.Context(), queue.Change{By: "ana", Version: seen, Set: set{queue.SettingSlots: "3"}})
	require.ErrorIs(t, err, queue.ErrConflict, "also when this gate has not heard of it")
	turn(t, one)
	require.EqualValues(t, 7, one.Settings().Limits.Slots)
	_, err = one.Control(t.Context(), queue.Change{By: "ana", Version: one.Controls().Version, Set: set{queue.SettingSlots: "3"}})
	require.NoError(t, err)
}

func TestTheFlowIsThatOfTheRateAlone(t *testing.T) {
	rdb := queuetest.Embedded(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.Limits = queue.Limits{PerMinute: 60, Burst: 1} })
	join(t, line, 1) // in at once
	waitIn(t, line, 2, 58)
	for range 10 {
		advance(t, line, rdb, time.Second)
		tickThrough(t, line)
		letIn(t, line, 2)
	}
	room, _ := line.Room()
	require.InDelta(t, 1, room.Flow, 0.3, "and who waits is told the wait by it")
	tally, err := line.Tally(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, tally.Admitted, int64(30), "passes given by hand are passes given")
}
