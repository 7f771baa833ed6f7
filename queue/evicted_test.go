package queue_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
)

// A Redis that may evict, or a hand that deletes, takes single keys out of a room
// in use. Half of what belongs together must not be taken for the whole: a room
// whose slots look free would admit everybody once more.
func TestKeysDeletedAtRandomLoseNobodyAndAdmitNobodyBeyondTheSlots(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		const people, slots, rounds = 50, 4, 180
		options := func(o *queue.Options) { o.Limits.Slots = slots }
		gates := []*queue.Line{newLine(t, rdb, options), newLine(t, rdb, options)}
		chance := rand.New(rand.NewPCG(7, 7)) //nolint:gosec // the same every time
		standings, since := make([]queue.Standing, people), make([]int, people)
		for n := range standings {
			standings[n] = join(t, gates[n%2], n)
		}
		var order []int64
		deleted := map[int]int{}
		for round := range rounds {
			if round%10 == 9 {
				key := chance.IntN(len(gates[0].Keys()))
				deleted[key] += int(rdb.Del(t.Context(), gates[0].Keys()[key]).Val())
			}
			for n, s := range standings {
				gate := gates[chance.IntN(2)]
				switch {
				case s.State == queue.Away || s.State == queue.Waiting:
					next := touch(t, gate, s)
					require.NotEqual(t, queue.Ended, next.State, "nobody is lost")
					require.Equal(t, s.Place, next.Place)
					if next.State == queue.Ready {
						order = append(order, next.Place)
						next = claim(t, gate, next)
						require.Equal(t, queue.Active, next.State)
						since[n] = round
					}
					standings[n] = next
				case s.State == queue.Active && round-since[n] < 8:
					standings[n] = claimOrRenew(t, gate, s)
				case s.State == queue.Active:
					standings[n] = release(t, gate, s)
					require.Equal(t, queue.Ended, standings[n].State)
				}
			}
			inside := 0
			for _, s := range standings {
				if s.State == queue.Active {
					inside++
				}
			}
			require.LessOrEqual(t, inside, slots)
			turn(t, gates...)
			advance(t, gates[0], rdb, 5*time.Second)
		}
		t.Logf("deleted: %v", deleted)
		require.Greater(t, len(deleted), 5)
		require.Greater(t, len(order), people/2)
		require.True(t, slices.IsSorted(order), "in the order of the joins")
	})
}

// Whatever part is missing, the next call finds it out and the room is whole again.
func TestAMissingKeyIsALossAndIsMadeGood(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		for n, key := range line.Keys() {
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			line = newLine(t, rdb, nil)
			require.Equal(t, queue.Ended, release(t, line, enter(t, line, 8, 1)[0]).State)
			inside := enter(t, line, 1, 2)
			away := touch(t, line, join(t, line, 9))
			advance(t, line, rdb, time.Minute)
			waiting := touch(t, line, join(t, line, 10))
			turn(t, line)
			fresh := join(t, line, 11)
			existed := rdb.Del(t.Context(), key).Val() == 1
			turn(t, line)
			room, _ := line.Room()
			benign := n == 8 || n == 9 || n == 13 // unproven, lapses, snapshot: nothing is lost with them
			require.Equal(t, existed && !benign, room.Healing > 0, "%s", key)
			for _, s := range []queue.Standing{away, waiting, fresh} {
				back := touch(t, line, s)
				require.Equal(t, queue.Waiting, back.State, key)
				require.Equal(t, s.Place, back.Place, key)
			}
			for _, s := range inside {
				require.Equal(t, queue.Active, claimOrRenew(t, line, s).State, key)
			}
			require.EqualValues(t, 3, join(t, line, 10).Room.Waiting, key)
			room, _ = line.Room()
			require.EqualValues(t, 2, room.Holding, key)
		}
	})
}

func TestARoomWhoseHashIsLostGoesOnFromWhatIsLeft(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		slots := func(o *queue.Options) { o.Limits.Slots = 1 }
		before := newLine(t, rdb, slots)
		advance(t, before, rdb, time.Hour) // and the clock goes back by it when the hash is gone
		inside := enter(t, before, 1, 1)[0]
		waiting := waitIn(t, before, 10, 2)
		require.NoError(t, rdb.Del(t.Context(), before.Keys()[0]).Err())

		after := newLine(t, rdb, slots) // of a fleet started anew: nobody remembers
		require.Greater(t, join(t, after, 20).Place, waiting[1].Place, "newcomers stand behind everybody")
		_, err := after.Reset(t.Context(), "ana")
		require.NoError(t, err)
		for _, s := range waiting {
			require.Equal(t, queue.Expired, touch(t, after, s).Why, "a reset voids the places of before")
		}
		require.NotEqual(t, queue.Active, renewed(t, after, inside).State, "and the passes")
	})
}

func renewed(t *testing.T, line *queue.Line, s queue.Standing) queue.Standing {
	t.Helper()
	next, err := line.Renew(t.Context(), holding(s))
	require.NoError(t, err)
	return next
}
