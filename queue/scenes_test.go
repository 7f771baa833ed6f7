package queue_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/queue"
)

// A scene is one kind of script call at its most expensive: a full batch, in a
// room where as much as possible follows from it.
type scene struct {
	name    string
	most    int // commands of one call
	options func(*queue.Options)
	before  func(r *crowdedRoom) // writes what each call is to find, beside the line; nil for nothing
	call    func(r *crowdedRoom) error
}

// crowdedRoom is a room with a long line, and whatever else a scene writes into it
// by hand.
type crowdedRoom struct {
	t       testing.TB
	rdb     *redis.Client
	line    *queue.Line
	waiting int64 // people in the line
	named   int   // people beside it so far
	batch   []string
}

const (
	batch  = queue.BatchMost
	passes = queue.PassMost
	always = int64(1) << 41 // a due or a lease end that never comes

	front = int64(1_600_000_000_000_000) // places in front of the line's
	back  = int64(1_750_000_000_000_000) // and behind
)

func newCrowdedRoom(t testing.TB, rdb *redis.Client, s scene, waiting int64) *crowdedRoom {
	t.Helper()
	r := &crowdedRoom{t: t, rdb: rdb, line: newLine(t, rdb, s.options), waiting: waiting}
	r.clear()
	return r
}

// clear removes all that scenes wrote beside the line.
func (r *crowdedRoom) clear() {
	r.t.Helper()
	ctx, keys := context.Background(), r.line.Keys()
	remove := func(set string, from, to string) {
		for {
			some, err := r.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{
				Key: set, ByScore: true, Start: from, Stop: to, Count: 5000,
			}).Result()
			require.NoError(r.t, err)
			if len(some) == 0 {
				return
			}
			require.NoError(r.t, r.rdb.ZRem(ctx, set, some).Err())
			require.NoError(r.t, r.rdb.HDel(ctx, keys[3], some...).Err())
		}
	}
	remove(keys[1], "-inf", fmt.Sprintf("(%d", linePlace(0)))
	remove(keys[1], fmt.Sprint(back), "+inf")
	remove(keys[2], "-inf", "+inf")
	require.NoError(r.t, r.rdb.Unlink(ctx, keys[4:12]...).Err())
	r.forgetHeld()
}

// forgetHeld lets the scripts count the slots anew: that they are others than
// before is no loss here.
func (r *crowdedRoom) forgetHeld() {
	require.NoError(r.t, r.rdb.HDel(context.Background(), r.line.Keys()[0], "held").Err())
}

func (r *crowdedRoom) now() int64 {
	room, _ := r.line.Room()
	return room.Now
}

// people are n visitors never seen before.
func (r *crowdedRoom) people(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = visitor(r.named)
		r.named++
	}
	return names
}

// write puts people into a sorted set and what belongs to it into a hash.
func (r *crowdedRoom) write(set, hash int, names []string, entry func(i int64) (score int64, value any)) {
	r.t.Helper()
	members, values := make([]redis.Z, len(names)), make([]any, 0, 2*len(names))
	for i, name := range names {
		score, value := entry(int64(i))
		members[i] = redis.Z{Score: float64(score), Member: name}
		values = append(values, name, value)
	}
	keys := r.line.Keys()
	require.NoError(r.t, r.rdb.ZAdd(context.Background(), keys[set], members...).Err())
	require.NoError(r.t, r.rdb.HSet(context.Background(), keys[hash], values...).Err())
}

func (r *crowdedRoom) wait(names []string, place, due int64) {
	r.write(1, 3, names, func(i int64) (int64, any) { return place + i, due })
}

func (r *crowdedRoom) join(names []string, place, due int64) {
	r.write(2, 3, names, func(i int64) (int64, any) { return place + i, due })
}

func (r *crowdedRoom) away(names []string, place, due int64) {
	r.write(4, 5, names, func(i int64) (int64, any) { return due, place + i })
}

func (r *crowdedRoom) hold(names []string, stage queue.State, place, end int64) {
	r.write(6, 7, names, func(i int64) (int64, any) {
		return end, fmt.Sprintf("%s a%d %d %d", stage, i, place+i, r.now())
	})
	r.forgetHeld()
}

func (r *crowdedRoom) end(names []string, place, number int64) {
	r.write(10, 11, names, func(i int64) (int64, any) { return number + i, fmt.Sprintf("%d released a%d", place+i, i) })
}

// signs are the tickets of people with places from one on.
func (r *crowdedRoom) signs(names []string, place int64) []queue.Sign {
	signs := make([]queue.Sign, len(names))
	for i, name := range names {
		signs[i] = queue.Sign{Visitor: name, Place: place + int64(i), Due: r.now() - 1000}
	}
	return signs
}

// holdings are their passes.
func (r *crowdedRoom) holdings(names []string, place int64) []queue.Holding {
	held := make([]queue.Holding, len(names))
	for i, name := range names {
		held[i] = queue.Holding{Visitor: name, Admission: fmt.Sprintf("a%d", i), Place: place + int64(i), End: always}
	}
	return held
}

// anywhere are the tickets of n people all over the line.
func (r *crowdedRoom) anywhere(n int) []queue.Sign {
	signs := make([]queue.Sign, n)
	for i := range signs {
		r.named++
		rank := int64(r.named) * 7919 % r.waiting
		signs[i] = queue.Sign{Visitor: lineName(rank), Place: linePlace(rank), Due: always}
	}
	return signs
}

func closedTo(o *queue.Options) { o.QueueAll, o.Limits.Slots = true, 1_000_000_000 }
func openTo(o *queue.Options)   { o.Limits.Slots = 1_000_000_000 }
func fullOf(slots int64) func(*queue.Options) {
	return func(o *queue.Options) { o.Limits.Slots = slots }
}

func joins(who func(*crowdedRoom) []string) func(*crowdedRoom) error {
	return func(r *crowdedRoom) error {
		var arrivals []queue.Arrival
		for _, name := range who(r) {
			arrivals = append(arrivals, queue.Arrival{Visitor: name})
		}
		_, err := r.line.JoinAll(context.Background(), arrivals)
		return err
	}
}

func touches(who func(*crowdedRoom) []queue.Sign) func(*crowdedRoom) error {
	return func(r *crowdedRoom) error {
		_, err := r.line.TouchAll(context.Background(), who(r))
		return err
	}
}

func newcomers(n int) func(*crowdedRoom) []string {
	return func(r *crowdedRoom) []string { return r.people(n) }
}

func theBatch(r *crowdedRoom) []queue.Sign { return r.signs(r.batch, back) }

func tickOnce(r *crowdedRoom) error {
	_, err := r.line.Tick(context.Background())
	return err
}

// withBatch lets f write a batch of people as the next call is to find them.
func withBatch(n int, f func(r *crowdedRoom)) func(r *crowdedRoom) {
	return func(r *crowdedRoom) {
		r.batch = r.people(n)
		f(r)
	}
}

// later makes the snapshot an old one, due whatever else there is to do, and lets f
// write more.
func later(f func(r *crowdedRoom)) func(r *crowdedRoom) {
	return func(r *crowdedRoom) {
		require.NoError(r.t, r.rdb.HSet(context.Background(), r.line.Keys()[0], "made", 0, "marked", 0).Err())
		f(r)
	}
}

// sweeping makes the snapshot a new one and the sweep an old one, and lets f write
// more.
func sweeping(f func(r *crowdedRoom)) func(r *crowdedRoom) {
	return func(r *crowdedRoom) {
		keys := r.line.Keys()
		require.NoError(r.t, r.rdb.HSet(context.Background(), keys[0], "swept", 1, "made", r.now()+60_000, "marked", 0).Err())
		require.NoError(r.t, r.rdb.Set(context.Background(), keys[13], "0 0", 0).Err())
		f(r)
	}
}

func joinScenes() []scene {
	return []scene{
		{name: "join of one", most: 30, options: closedTo, call: joins(newcomers(1))},
		{name: "join", most: 30, options: closedTo, call: joins(newcomers(batch))},
		{name: "join, known already", most: 30 + 4*batch, options: closedTo, call: joins(func(r *crowdedRoom) []string {
			var names []string
			for _, s := range r.anywhere(batch) {
				names = append(names, s.Visitor)
			}
			return names
		})},
		{name: "join, after overdue newcomers", most: 45, options: closedTo,
			before: func(r *crowdedRoom) { r.join(r.people(1000), back, 1) }, call: joins(newcomers(batch))},
	}
}

func touchScenes() []scene {
	return []scene{
		{name: "touch of one", most: 30, options: closedTo,
			call: touches(func(r *crowdedRoom) []queue.Sign { return r.anywhere(1) })},
		{name: "touch", most: 30 + batch, options: closedTo,
			call: touches(func(r *crowdedRoom) []queue.Sign { return r.anywhere(batch) })},
		{name: "touch, first signs", most: 30 + 2*batch, options: closedTo,
			before: withBatch(batch, func(r *crowdedRoom) { r.join(r.batch, back, always) }), call: touches(theBatch)},
		{name: "touch, returning", most: 30 + batch, options: closedTo,
			before: withBatch(batch, func(r *crowdedRoom) { r.away(r.batch, back, r.now()-1) }), call: touches(theBatch)},
		{name: "touch, unknown to Redis", most: 30 + batch, options: closedTo,
			before: withBatch(batch, func(*crowdedRoom) {}), call: touches(theBatch)},
		{name: "touch, lapsed passes", most: 30 + 9*batch, options: closedTo,
			before: withBatch(batch, func(r *crowdedRoom) { r.hold(r.batch, queue.Ready, back, 1) }), call: touches(theBatch)},
		{name: "touch, sessions over", most: 30 + 6*batch, options: closedTo,
			before: withBatch(batch, func(r *crowdedRoom) { r.hold(r.batch, queue.Active, back, 1) }), call: touches(theBatch)},
		{name: "touch, admitting on expired leases", most: 350, options: fullOf(1000),
			before: withBatch(batch, func(r *crowdedRoom) {
				r.clear()
				r.hold(r.people(1000), queue.Active, front, 1)
				r.away(r.batch, back, r.now()-1)
			}), call: touches(theBatch)},
	}
}

func tickScenes() []scene {
	leasesOver := func(slots int) func(*crowdedRoom) {
		return later(func(r *crowdedRoom) {
			r.clear()
			r.hold(r.people(slots), queue.Active, front, 1)
			r.wait(r.people(500), front, always)
		})
	}
	return []scene{
		{name: "tick, snapshot", most: 180, options: closedTo, before: later(func(*crowdedRoom) {}), call: tickOnce},
		{name: "tick, sweep", most: 45, options: closedTo, before: sweeping(func(*crowdedRoom) {}), call: tickOnce},
		{name: "tick, overdue in front", most: 190, options: closedTo,
			before: later(func(r *crowdedRoom) { r.wait(r.people(1000), front, 1) }), call: tickOnce},
		{name: "tick, overdue newcomers", most: 330, options: closedTo,
			before: later(func(r *crowdedRoom) { r.join(r.people(1000), front, 1) }), call: tickOnce},
		{name: "tick, newcomers among the line", most: 330, options: closedTo,
			before: later(func(r *crowdedRoom) { r.join(r.people(1000), front, always) }), call: tickOnce},
		{name: "tick, places to drop", most: 60, options: closedTo,
			before: sweeping(func(r *crowdedRoom) { r.away(r.people(1000), back, 1) }), call: tickOnce},
		{name: "tick, ends to forget", most: 60, options: closedTo,
			before: sweeping(func(r *crowdedRoom) { r.end(r.people(1000), front, 1) }), call: tickOnce},
		{name: "tick, new ends and overdue people", most: 190, options: closedTo,
			before: later(func(r *crowdedRoom) {
				r.end(r.people(1000), front, r.now()*1000)
				r.wait(r.people(1000), front, 1)
			}), call: tickOnce},
		{name: "tick, admitting", most: 190, options: openTo,
			before: later(func(r *crowdedRoom) { r.wait(r.people(500), front, always) }), call: tickOnce},
		{name: "let in by hand", most: 100, options: fullOf(1_000_000),
			before: later(func(r *crowdedRoom) { r.wait(r.people(500), front, always) }),
			call: func(r *crowdedRoom) error {
				_, err := r.line.LetIn(context.Background(), "one", 500)
				return err
			}},
		{name: "tick, admitting on expired leases", most: 600, options: fullOf(1000), before: leasesOver(1000), call: tickOnce},
		{name: "tick, limits lowered", most: 600, options: fullOf(1), before: leasesOver(1000), call: tickOnce},
	}
}

func passScenes() []scene {
	ctx := context.Background()
	holding := func(n int, stage queue.State) func(*crowdedRoom) {
		return withBatch(n, func(r *crowdedRoom) { r.hold(r.batch, stage, front, r.now()+5000) })
	}
	claim := func(r *crowdedRoom) error {
		_, err := r.line.ClaimAll(ctx, r.holdings(r.batch, front))
		return err
	}
	release := func(r *crowdedRoom) error {
		_, err := r.line.ReleaseAll(ctx, r.holdings(r.batch, front))
		return err
	}
	return []scene{
		{name: "claim of one", most: 30, options: closedTo, before: holding(1, queue.Ready), call: claim},
		{name: "claim", most: 30 + 6*passes, options: closedTo, before: holding(passes, queue.Ready), call: claim},
		{name: "renew", most: 30 + 4*passes, options: closedTo, before: holding(passes, queue.Active),
			call: func(r *crowdedRoom) error {
				_, err := r.line.RenewAll(ctx, r.holdings(r.batch, front))
				return err
			}},
		{name: "release", most: 30 + 11*passes, options: closedTo, before: holding(passes, queue.Active), call: release},
		{name: "release, and the next", most: 30 + 11*passes, options: openTo, before: withBatch(passes, func(r *crowdedRoom) {
			r.hold(r.batch, queue.Active, front, r.now()+5000)
			r.wait(r.people(passes), front, always)
		}), call: release},
		{name: "leave", most: 30 + 9*passes, options: closedTo,
			before: withBatch(passes, func(r *crowdedRoom) { r.wait(r.batch, back, always) }),
			call: func(r *crowdedRoom) error {
				places := r.holdings(r.batch, back)
				for i := range places {
					places[i].Admission = ""
				}
				_, err := r.line.ReleaseAll(ctx, places)
				return err
			}},
		{name: "move", most: 30 + 28*passes, options: closedTo,
			before: withBatch(passes, func(r *crowdedRoom) { r.away(r.batch, back, r.now()-1) }),
			call: func(r *crowdedRoom) error {
				_, err := r.line.MoveAll(ctx, r.signs(r.batch, back), r.people(passes))
				return err
			}},
		{name: "write back", most: 30 + 16*queue.HealMost, options: closedTo,
			before: withBatch(queue.HealMost, func(r *crowdedRoom) { r.wait(r.batch, front, always) }),
			call: func(r *crowdedRoom) error {
				var ends []queue.RememberedEnd
				for i, name := range r.batch {
					ends = append(ends, queue.RememberedEnd{Visitor: name, Place: front + int64(i), Why: queue.Released, Admission: "a"})
				}
				return r.line.WriteBack(ctx, ends, r.holdings(r.people(queue.HealMost), front))
			}},
	}
}

func scenes() []scene {
	var all []scene
	for _, some := range [][]scene{joinScenes(), touchScenes(), tickScenes(), passScenes()} {
		all = append(all, some...)
	}
	return all
}
