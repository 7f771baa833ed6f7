package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// turn lets gates do what Run does until there is nothing left to do at once.
func turn(t *testing.T, gates ...*queue.Line) {
	t.Helper()
	for _, gate := range gates {
		for again := true; again; {
			var err error
			again, err = gate.Step(t.Context())
			require.NoError(t, err)
		}
	}
}

func leave(t *testing.T, line *queue.Line, s queue.Standing) queue.Standing {
	t.Helper()
	left, err := line.Leave(t.Context(), queue.Holding{Visitor: s.Visitor, Place: s.Place, Epoch: s.Room.Epoch})
	require.NoError(t, err)
	return left
}

func TestEverybodyIsBackInTheOldOrderAfterALoss(t *testing.T) {
	losses := map[string]func(t *testing.T, server *queuetest.Server, older []byte){
		"everything flushed": func(t *testing.T, server *queuetest.Server, _ []byte) {
			require.NoError(t, server.Client(t).FlushAll(t.Context()).Err())
		},
		"killed and started empty": func(t *testing.T, server *queuetest.Server, _ []byte) {
			server.Restore(t, nil)
		},
		"killed and started with an older copy": func(t *testing.T, server *queuetest.Server, older []byte) {
			server.Restore(t, older)
		},
	}
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := queuetest.Start(t)
			rdb := server.Client(t)
			slots := func(o *queue.Options) { o.Limits = queue.Limits{Slots: 3} }
			gates := []*queue.Line{newLine(t, rdb, slots), newLine(t, rdb, slots)}
			inside := make([]queue.Standing, 0, 3)
			for n := range 3 {
				s := touch(t, gates[n%2], touch(t, gates[n%2], join(t, gates[n%2], n)))
				inside = append(inside, claim(t, gates[n%2], s))
			}
			var line []queue.Standing
			come := func(from, n int) {
				for i := range n {
					gate := gates[i%2]
					line = append(line, touch(t, gate, join(t, gate, from+i)))
				}
			}
			come(10, 5)
			turn(t, gates...)
			older := server.Save(t)

			advance(t, gates[0], rdb, 500*time.Millisecond)
			come(15, 5)
			left := line[2]
			require.Equal(t, queue.Ended, leave(t, gates[0], left).State)
			released := inside[0]
			require.Equal(t, queue.Ended, release(t, gates[1], released).State)
			inside[0] = claim(t, gates[0], touch(t, gates[0], line[0]))
			require.Equal(t, queue.Active, inside[0].State, "the first of the line got the slot")
			line = append(line[1:2:2], line[3:]...)
			lose(t, server, older)

			newcomer := join(t, gates[1], 99)
			require.Equal(t, queue.Away, newcomer.State)
			require.Positive(t, newcomer.Room.Healing)
			turn(t, gates...)
			for i := range line {
				i = len(line) - 1 - i
				back := touch(t, gates[i%2], line[i])
				require.Equal(t, queue.Waiting, back.State, "within one poll")
				require.Equal(t, line[i].Place, back.Place)
				require.Equal(t, line[i].Ahead, back.Ahead, "the number told before stands while the line is not complete")
				require.Less(t, back.Place, newcomer.Place)
				line[i] = back
			}
			room, _ := gates[0].Room()
			require.EqualValues(t, 3, room.Holding)
			require.EqualValues(t, 3, room.Limits.Slots, "the limits are written back")
			for _, s := range inside {
				renewed, err := gates[1].Renew(t.Context(), holding(s))
				require.NoError(t, err)
				require.Equal(t, queue.Active, renewed.State, "who was inside stays inside")
			}
			require.Equal(t, queue.Ended, touch(t, gates[1], left).State, "who left does not come back")
			require.Equal(t, queue.Ended, claim(t, gates[0], released).State, "nor does a pass given back")

			// Healing is over, and nobody gets in beyond the slots.
			advance(t, gates[0], rdb, 25*time.Second)
			for i := range line {
				line[i] = touch(t, gates[i%2], line[i])
				require.Equal(t, queue.Waiting, line[i].State)
			}
			require.Equal(t, queue.Ended, release(t, gates[0], inside[1]).State)
			require.Equal(t, queue.Ready, touch(t, gates[1], line[0]).State, "the first of the old order")
			require.Equal(t, queue.Waiting, touch(t, gates[1], line[1]).State)
		})
	}
}

func TestNobodyIsAdmittedWhileTheLineIsBroughtBack(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.PresenceWindow = time.Minute })
		inside := enter(t, line, 1, 2)
		front := touch(t, line, join(t, line, 10))
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		turn(t, line)
		require.Equal(t, queue.Ended, release(t, line, inside[0]).State)
		for range 4 {
			front = touch(t, line, front)
			require.Equal(t, queue.Waiting, front.State)
			require.False(t, front.WaitKnown)
			advance(t, line, rdb, 5*time.Second)
		}
		advance(t, line, rdb, 4*time.Second)
		require.Equal(t, queue.Ready, touch(t, line, front).State)
	})
}

func TestSlotsTakenBeforeALossStayReserved(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		slots := func(o *queue.Options) { o.Limits, o.PresenceWindow = queue.Limits{Slots: 4}, time.Hour }
		dying := newLine(t, rdb, slots)
		var inside, line []queue.Standing
		for n := range 4 {
			inside = append(inside, claim(t, dying, touch(t, dying, touch(t, dying, join(t, dying, n)))))
		}
		alive := newLine(t, rdb, slots)
		for n := range 4 {
			line = append(line, touch(t, alive, join(t, alive, 10+n)))
		}
		// The gate that saw the leases dies with Redis; the other knows their number.
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		turn(t, alive)
		waiting := func() (n int) {
			for i := range line {
				if line[i].State == queue.Waiting {
					line[i] = touch(t, alive, line[i])
				}
				if line[i].State == queue.Waiting {
					n++
				}
			}
			return n
		}
		require.Equal(t, 4, waiting())
		advance(t, alive, rdb, 25*time.Second)
		require.Equal(t, 4, waiting(), "four are inside though Redis knows none")
		back, err := alive.Renew(t.Context(), holding(inside[0]))
		require.NoError(t, err)
		require.Equal(t, queue.Active, back.State)
		require.EqualValues(t, 4, back.Room.Holding)
		require.Equal(t, 4, waiting(), "registered again, not a fifth")
		require.Equal(t, queue.Ended, release(t, alive, back).State)
		require.Equal(t, 3, waiting(), "one slot was given back and one person gets it")
		require.Equal(t, 3, waiting())
		advance(t, alive, rdb, 5*time.Minute)
		require.Zero(t, waiting(), "the sessions of the others are over by now")
	})
}

func TestAFreshFleetRecognisesOldTickets(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		old := newLine(t, rdb, nil)
		enter(t, old, 1, 2)
		first, second := touch(t, old, join(t, old, 10)), touch(t, old, join(t, old, 11))
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		fleet := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 4 })
		newcomer := join(t, fleet, 20)
		require.Equal(t, queue.Ready, newcomer.State, "a new room, as far as anybody can know")
		back := touch(t, fleet, second)
		require.Equal(t, queue.Waiting, back.State)
		require.Positive(t, back.Room.Healing, "the ticket says that there was a room before")
		require.Equal(t, queue.Away, join(t, fleet, 21).State)
		require.Equal(t, first.Place, touch(t, fleet, first).Place)
		advance(t, fleet, rdb, 25*time.Second)
		require.Equal(t, queue.Ready, touch(t, fleet, first).State)
	})
}

func TestAGateThatRemembersSeesThatTheRoomIsNew(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		old := newLine(t, rdb, nil)
		enter(t, old, 1, 2)
		turn(t, old)
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		newLine(t, rdb, nil) // a gate that started just now makes the room
		turn(t, old)
		room, _ := old.Room()
		require.Positive(t, room.Healing)
		require.EqualValues(t, 2, room.Holding)
	})
}

// Room time stands while Redis is away, so that an outage takes nothing from anybody,
// however long it was: no place is dropped and no pass runs out meanwhile. That holds
// also when Redis comes back empty, and until everybody was heard from again.
func TestARedisThatComesBackEmptyAfterALongOutageTakesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		three := func(o *queue.Options) { o.Limits.Slots = 3 }
		before := newLine(t, rdb, three)
		enter(t, before, 1, 1) // somebody is in the room, so that it does not catch up with TIME
		behind := now(t, before) - (40 * time.Minute).Milliseconds()
		require.NoError(t, rdb.HSet(t.Context(), before.Keys()[0], "now", behind).Err())
		gates := []*queue.Line{newLine(t, rdb, three), newLine(t, rdb, three)}
		inside := enter(t, gates[0], 10, 2)
		waiting := touch(t, gates[1], join(t, gates[1], 20))
		turn(t, gates...)
		late := func() time.Duration { return time.Duration(now(t, gates[0])-behind) * time.Millisecond }
		require.Less(t, late(), 20*time.Minute, "the room was taken for empty")

		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		turn(t, gates...)
		for _, s := range inside {
			require.Equal(t, s.Lease.Admission, claimOrRenew(t, gates[1], s).Lease.Admission)
		}
		back := touch(t, gates[0], waiting)
		require.Equal(t, queue.Waiting, back.State)
		require.Equal(t, waiting.Place, back.Place)
		require.Less(t, late(), 20*time.Minute, "room time leapt")

		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		require.NoError(t, gates[0].Configure(t.Context())) // nobody is in the room at the next call
		require.Equal(t, queue.Waiting, touch(t, gates[1], back).State)
	})
}

func TestAGateThatWasCutOffForLongIsNoLoss(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		away, alive := newLine(t, rdb, nil), newLine(t, rdb, nil)
		turn(t, away, alive)
		enter(t, alive, 1, 1)
		for range 10 {
			advance(t, alive, rdb, 4*time.Minute)
			turn(t, alive)
		}
		turn(t, away)
		room, _ := away.Room()
		require.Zero(t, room.Healing)
		require.False(t, away.Lost())
	})
}

func TestLeavingAnEarlierPlaceDoesNotEndALaterStay(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		enter(t, line, 1, 2)
		first := touch(t, line, join(t, line, 10))
		require.Equal(t, queue.Ended, leave(t, line, first).State)
		second := touch(t, line, join(t, line, 10))
		require.Equal(t, queue.Ended, leave(t, line, first).State, "the same call, run late")
		again := touch(t, line, second)
		require.Equal(t, queue.Waiting, again.State)
		require.Equal(t, second.Place, again.Place)
	})
}

func TestWhoIsAwayKeepsThePlaceThroughALoss(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		enter(t, line, 1, 2)
		s := touch(t, line, join(t, line, 10))
		advance(t, line, rdb, time.Minute)
		turn(t, line)
		again := join(t, line, 10)
		require.Equal(t, queue.Away, again.State)
		require.Equal(t, s.Place, again.Place)
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		turn(t, line)
		back := touch(t, line, again)
		require.Equal(t, queue.Waiting, back.State)
		require.Equal(t, s.Place, back.Place)
	})
}

func TestAnOlderCopyDoesNotShortenALease(t *testing.T) {
	server := queuetest.Start(t)
	rdb := server.Client(t)
	line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
	ready := join(t, line, 1)
	older := server.Save(t)
	advance(t, line, rdb, time.Second)
	active := claim(t, line, ready)
	server.Restore(t, older)
	turn(t, line)
	other := touch(t, line, join(t, line, 2))
	advance(t, line, rdb, 100*time.Second)
	require.Equal(t, queue.Waiting, touch(t, line, other).State, "the copy knew a pass of 90 s, the gate a session")
	again := claim(t, line, active)
	require.Equal(t, queue.Active, again.State)
	require.Equal(t, active.Lease.Admission, again.Lease.Admission)
}

func TestAPassReleasedRightAfterALossFreesItsSlot(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, func(o *queue.Options) { o.Limits.Slots = 1 })
		inside := enter(t, line, 1, 1)[0]
		waiting := touch(t, line, join(t, line, 2))
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		// Before anything was written back.
		over := release(t, line, inside)
		require.Equal(t, queue.Released, over.Why)
		turn(t, line)
		require.Zero(t, touch(t, line, waiting).Room.Holding, "nothing is reserved for who has left")
		advance(t, line, rdb, 25*time.Second)
		require.Equal(t, queue.Ready, touch(t, line, waiting).State)
	})
}

// When an older copy of Redis comes back and every gate is new, nothing but what
// visitors carry tells that something was lost.
func TestWhatVisitorsCarryShowsThatAnOlderCopyCameBack(t *testing.T) {
	server := queuetest.Start(t)
	rdb := server.Client(t)
	slots := func(o *queue.Options) { o.Limits.Slots, o.PresenceWindow = 3, time.Hour }
	touched := func(fresh *queue.Line, s queue.Standing) (queue.Standing, error) {
		return fresh.Touch(context.Background(), sign(s))
	}
	renewed := func(fresh *queue.Line, s queue.Standing) (queue.Standing, error) {
		return fresh.Renew(context.Background(), holding(s))
	}
	for _, test := range []struct {
		name  string
		after func(t *testing.T, old *queue.Line, holder, poller queue.Standing) queue.Standing // what the copy does not know
		shown func(fresh *queue.Line, s queue.Standing) (queue.Standing, error)
		state queue.State
	}{
		{
			"a sign of life later than now",
			func(t *testing.T, old *queue.Line, _, poller queue.Standing) queue.Standing {
				return touch(t, old, poller)
			},
			touched, queue.Waiting,
		},
		{
			"a place that was never given",
			func(t *testing.T, old *queue.Line, _, _ queue.Standing) queue.Standing { return join(t, old, 12) },
			touched, queue.Waiting,
		},
		{
			"a pass for a place that was never given",
			func(t *testing.T, old *queue.Line, holder, poller queue.Standing) queue.Standing {
				leave(t, old, poller)
				release(t, old, holder)
				return claim(t, old, join(t, old, 13))
			},
			renewed, queue.Active,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			old := newLine(t, rdb, slots)
			inside := enter(t, old, 1, 2)
			known := claim(t, old, touch(t, old, join(t, old, 10)))
			poller := touch(t, old, join(t, old, 11))
			older := server.Save(t)
			advance(t, old, rdb, 10*time.Second)
			s := test.after(t, old, inside[0], poller)
			server.Restore(t, older)

			fresh := newLine(t, rdb, slots)
			turn(t, fresh)
			require.Equal(t, queue.Active, claimOrRenew(t, fresh, known).State)
			require.Zero(t, touch(t, fresh, poller).Room.Healing, "what the copy knows proves nothing")
			shown, err := test.shown(fresh, s)
			require.NoError(t, err)
			require.Equal(t, test.state, shown.State)
			require.Equal(t, s.Place, shown.Place)
			require.Positive(t, shown.Room.Healing, "history was lost")
			require.Equal(t, s.Room.Epoch+1, shown.Room.Epoch)
			again, err := test.shown(fresh, s)
			require.NoError(t, err)
			require.Equal(t, shown.Room.Epoch, again.Room.Epoch, "once")
		})
	}
}

func TestGatesStartedAnewTakeNothingForALoss(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		line := newLine(t, rdb, nil)
		inside := enter(t, line, 1, 2)
		var people []queue.Standing
		for n := range 5 {
			people = append(people, touch(t, line, join(t, line, 10+n)))
		}
		for round := range 5 {
			line = newLine(t, rdb, nil) // no gate remembers anything
			for i := range people {
				people[i] = touch(t, line, people[i])
				require.Zero(t, people[i].Room.Healing)
			}
			inside[round%2] = claimOrRenew(t, line, inside[round%2])
			advance(t, line, rdb, 5*time.Second)
			require.NoError(t, line.StopClock(t.Context(), rdb))
		}
		require.Equal(t, people[0].Room.Epoch, inside[0].Room.Epoch)
	})
}

// Room time stays behind TIME after a freeze, and an older copy takes it back.
func TestNewcomersStandBehindPlacesThatAnOlderCopyDoesNotKnow(t *testing.T) {
	server := queuetest.Start(t)
	rdb := server.Client(t)
	line := newLine(t, rdb, nil)
	enter(t, line, 1, 2)
	advance(t, line, rdb, -time.Hour)
	older := server.Save(t)
	advance(t, line, rdb, time.Minute)
	lost := touch(t, line, join(t, line, 10))
	server.Restore(t, older)
	newcomer := join(t, newLine(t, rdb, nil), 11)
	require.Greater(t, newcomer.Place, lost.Place)
}

// The bound that no cleverness removes: when Redis comes back empty and no gate
// remembers, nobody knows that there was anything before, until the first visitor
// of the time before shows a ticket or token. Until then a room's slots may be
// given out once more, and not a third time.
func TestAFleetWithoutMemoryGivesOutTheSlotsOnceMoreAtMost(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		slots := func(o *queue.Options) { o.Limits.Slots = 4 }
		old := newLine(t, rdb, slots)
		inside := make([]queue.Standing, 4)
		for n := range inside {
			inside[n] = claim(t, old, touch(t, old, join(t, old, n)))
		}
		waiting := touch(t, old, join(t, old, 9))
		require.NoError(t, rdb.FlushAll(t.Context()).Err())

		fresh := newLine(t, rdb, slots)
		again := 0
		for n := range 20 {
			if s := touch(t, fresh, join(t, fresh, 100+n)); s.State == queue.Ready {
				require.Equal(t, queue.Active, claim(t, fresh, s).State)
				again++
			}
		}
		require.Equal(t, 4, again, "measured: as many again as there are slots")
		healing := touch(t, fresh, waiting)
		require.Positive(t, healing.Room.Healing, "the first ticket of before tells")
		require.Equal(t, waiting.Place, healing.Place)
		for n := range inside { // their tokens live: they go on, and count
			back, err := fresh.Renew(t.Context(), holding(inside[n]))
			require.NoError(t, err)
			require.Equal(t, queue.Active, back.State)
		}
		room, _ := fresh.Room()
		require.EqualValues(t, 8, room.Holding)
		advance(t, fresh, rdb, 25*time.Second)
		require.Equal(t, queue.Waiting, touch(t, fresh, waiting).State, "nobody more until eight have become four")
	})
}

// The bound for an older copy: a gate that had no answer since the copy was made knows no
// more than it does, and takes it for the truth where it calls first. Until one that
// remembers calls, as many slots may be given once more as the copy does not know of.
func TestAGateThatRemembersNoMoreThanAnOlderCopyTakesItForTheTruth(t *testing.T) {
	server := queuetest.Start(t)
	rdb := server.Client(t)
	slots := func(o *queue.Options) { o.Limits.Slots = 4 }
	remembers, other := newLine(t, rdb, slots), newLine(t, rdb, slots)
	inside := enter(t, remembers, 1, 2)
	turn(t, other) // its last answer before the copy
	older := server.Save(t)
	inside = append(inside, enter(t, remembers, 3, 2)...)
	server.Restore(t, older)

	again := 0
	for n := range 20 {
		if s := touch(t, other, join(t, other, 100+n)); s.State == queue.Ready {
			require.Equal(t, queue.Active, claim(t, other, s).State)
			again++
		}
	}
	require.Equal(t, 2, again, "measured: as many again as were admitted since the copy")
	turn(t, remembers)
	room, _ := remembers.Room()
	require.Positive(t, room.Healing, "the gate that remembers tells")
	for _, s := range inside { // their tokens live: they go on, and count
		back, err := remembers.Renew(t.Context(), holding(s))
		require.NoError(t, err)
		require.Equal(t, queue.Active, back.State)
	}
	room, _ = remembers.Room()
	require.EqualValues(t, 6, room.Holding)
}

// Somebody could keep one of a former sale, and stop the room for the time of a
// recovery at the minute of their choice.
func TestWhatIsLongOverProvesNoLoss(t *testing.T) {
	onEach(t, func(t *testing.T, rdb *redis.Client) {
		old := newLine(t, rdb, nil)
		pass := enter(t, old, 1, 1)[0]
		ticket := touch(t, old, join(t, old, 2))
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		line := newLine(t, rdb, nil)
		turn(t, line)
		advance(t, line, rdb, 2*time.Hour)
		join(t, line, 3)

		h := holding(pass)
		late := queue.Holding{Visitor: ticket.Visitor, Place: ticket.Place, Epoch: ticket.Room.Epoch}
		for name, show := range map[string]func() (queue.Standing, error){
			"a pass taken up":   func() (queue.Standing, error) { return line.Claim(t.Context(), h) },
			"a pass renewed":    func() (queue.Standing, error) { return line.Renew(t.Context(), h) },
			"a pass given back": func() (queue.Standing, error) { return line.Release(t.Context(), h) },
			"a ticket":          func() (queue.Standing, error) { return line.Touch(t.Context(), sign(ticket)) },
			"a ticket given up": func() (queue.Standing, error) { return line.Leave(t.Context(), late) },
		} {
			_, err := show()
			require.NoError(t, err)
			room, _ := line.Room()
			require.Zero(t, room.Healing, name)
		}
	})
}
