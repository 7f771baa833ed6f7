package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Topology is how Redis is run.
type Topology string

// The topologies.
const (
	Alone    Topology = "alone"    // one server that writes everything down
	Sentinel Topology = "sentinel" // a master, two replicas, three Sentinels
	Cluster  Topology = "cluster"  // three masters
)

// Topologies lists them.
func Topologies() []Topology { return []Topology{Alone, Sentinel, Cluster} }

// Lane is where trouble comes from. The troubles of one lane come one after the other,
// those of several lanes at once.
type Lane string

// The lanes.
const (
	Gates    Lane = "gate"
	Redis    Lane = "redis"
	Shop     Lane = "shop"
	Clients  Lane = "client"
	Operator Lane = "operator"
)

// Kind is what goes wrong, by the name that a schedule is printed with.
type Kind string

// Faults.
const (
	GateKilled    Kind = "gate killed"      // kill -9, started again when it is over
	GateFrozen    Kind = "gate frozen"      // SIGSTOP, SIGCONT
	GateRestarted Kind = "gate restarted"   // SIGTERM, which must end with 0, and a start
	GatesKilled   Kind = "all gates killed" // at once
	GateStarved   Kind = "gate without descriptors"

	RedisKilled   Kind = "redis killed"
	RedisFrozen   Kind = "redis frozen"
	RedisLoading  Kind = "redis killed and loading"
	RedisRefuses  Kind = "redis refuses"
	RedisSilent   Kind = "network to redis stands still"
	RedisSlow     Kind = "redis slow by 2 s"
	RedisLate     Kind = "commands run after the caller gave up"
	RepliesLost   Kind = "replies lost after execution"
	RedisDropped  Kind = "connections to redis dropped"
	RedisReadOnly Kind = "redis read-only"
	RedisFull     Kind = "redis out of memory"
	RedisBusy     Kind = "redis busy with a script"
	RedisCrowded  Kind = "redis takes no more clients"
	ScriptsGone   Kind = "SCRIPT FLUSH"
	RedisEvicts   Kind = "redis evicts keys"
	RedisEmptied  Kind = "FLUSHALL"
	RedisOlder    Kind = "an older copy of redis"
	ClockAhead    Kind = "redis clock an hour ahead"
	ClockBehind   Kind = "redis clock an hour behind"
	ReplicaKilled Kind = "a replica killed"
	SlotMoved     Kind = "a room's slot moves"

	ShopSlow    Kind = "shop slow"
	ShopResets  Kind = "shop resets in the middle"
	ShopRefuses Kind = "shop refuses"
	ShopFails   Kind = "shop answers 500"
	ShopKilled  Kind = "shop killed" // kill -9, started again when it is over
	ShopFrozen  Kind = "shop frozen" // SIGSTOP, SIGCONT

	ClientsVanish  Kind = "clients vanish"
	ClientsFlood   Kind = "clients flood"
	ClientsGarbage Kind = "clients send garbage"
	ClientsForget  Kind = "clients keep no cookies"

	FileReloaded Kind = "file reloaded"
	RateLowered  Kind = "rate lowered"
	RoomPaused   Kind = "room paused"
)

// trait is what a schedule needs to know of a fault.
type trait struct {
	kind        Kind
	lane        Lane
	weight      int
	least, most time.Duration
	only        []Topology // nil: all
	loses       bool       // part of the history of Redis, or may
	long        bool       // for runs of a minute and more alone
}

const second = time.Second

// traits are all faults, in a fixed order that draws depend on.
func traits() []trait {
	return []trait{
		{kind: GateKilled, lane: Gates, weight: 5, least: 0, most: second},
		{kind: GateFrozen, lane: Gates, weight: 4, least: 2 * second, most: 4 * second},
		{kind: GateRestarted, lane: Gates, weight: 2, least: 0, most: 500 * time.Millisecond},
		{kind: GatesKilled, lane: Gates, weight: 1, least: 0, most: second},
		{kind: GateStarved, lane: Gates, weight: 1, least: second, most: 3 * second},

		{kind: RedisKilled, lane: Redis, weight: 3, least: 500 * time.Millisecond, most: 4 * second},
		{kind: RedisFrozen, lane: Redis, weight: 3, least: second, most: 6 * second},
		{kind: RedisLoading, lane: Redis, weight: 1, least: second, most: 2 * second, only: []Topology{Alone}},
		{kind: RedisRefuses, lane: Redis, weight: 2, least: second, most: 4 * second},
		{kind: RedisSilent, lane: Redis, weight: 2, least: second, most: 5 * second},
		{kind: RedisSlow, lane: Redis, weight: 2, least: 3 * second, most: 6 * second},
		{kind: RedisLate, lane: Redis, weight: 2, least: 2 * second, most: 5 * second},
		{kind: RepliesLost, lane: Redis, weight: 2, least: second, most: 4 * second},
		{kind: RedisDropped, lane: Redis, weight: 2, least: second, most: 3 * second},
		{kind: RedisReadOnly, lane: Redis, weight: 1, least: second, most: 3 * second, only: []Topology{Alone}},
		{kind: RedisFull, lane: Redis, weight: 1, least: second, most: 4 * second},
		{kind: RedisBusy, lane: Redis, weight: 1, least: second, most: 3 * second},
		{kind: RedisCrowded, lane: Redis, weight: 1, least: second, most: 3 * second},
		{kind: ScriptsGone, lane: Redis, weight: 1, most: 0},
		{kind: ReplicaKilled, lane: Redis, weight: 1, least: second, most: 3 * second, only: []Topology{Sentinel}},
		{kind: SlotMoved, lane: Redis, weight: 4, most: 0, only: []Topology{Cluster}},
		{kind: RedisEmptied, lane: Redis, weight: 1, most: 0, loses: true},
		{kind: RedisEvicts, lane: Redis, weight: 1, least: 100 * time.Millisecond, most: second, loses: true, long: true},
		{kind: RedisOlder, lane: Redis, weight: 1, least: second, most: 3 * second, only: []Topology{Alone}, loses: true, long: true},
		{kind: ClockAhead, lane: Redis, weight: 1, least: 2 * second, most: 5 * second, long: true},
		{kind: ClockBehind, lane: Redis, weight: 1, least: 2 * second, most: 5 * second, long: true},

		{kind: ShopSlow, lane: Shop, weight: 2, least: second, most: 4 * second},
		{kind: ShopResets, lane: Shop, weight: 2, least: second, most: 3 * second},
		{kind: ShopRefuses, lane: Shop, weight: 2, least: second, most: 4 * second},
		{kind: ShopFails, lane: Shop, weight: 1, least: second, most: 2 * second},
		{kind: ShopKilled, lane: Shop, weight: 2, least: 0, most: 2 * second},
		{kind: ShopFrozen, lane: Shop, weight: 1, least: second, most: 4 * second},

		{kind: ClientsVanish, lane: Clients, weight: 2, least: 0, most: second},
		{kind: ClientsFlood, lane: Clients, weight: 1, least: second, most: 2 * second},
		{kind: ClientsGarbage, lane: Clients, weight: 2, least: 0, most: second},
		{kind: ClientsForget, lane: Clients, weight: 1, least: 0, most: second},

		{kind: FileReloaded, lane: Operator, weight: 2, most: 0},
		{kind: RateLowered, lane: Operator, weight: 2, least: second, most: 4 * second},
		{kind: RoomPaused, lane: Operator, weight: 1, least: second, most: 3 * second},
	}
}

// Kinds lists all faults in the order of their lanes.
func Kinds() (all []Kind) {
	for _, t := range traits() {
		all = append(all, t.kind)
	}
	return all
}

// Loses tells whether a fault takes history from Redis by itself.
func (k Kind) Loses() bool {
	for _, t := range traits() {
		if t.kind == k {
			return t.loses
		}
	}
	return false
}

// Event is one trouble that is to come.
type Event struct {
	At, For time.Duration // when it begins, since the run did, and how long it lasts
	Lane    Lane
	Kind    Kind
	Pick    uint64 // which gate, server, room or client: taken modulo how many there are
}

func (e Event) String() string {
	return fmt.Sprintf("%8.3f s for %.3f s: %s (%d)", e.At.Seconds(), e.For.Seconds(), e.Kind, e.Pick%100)
}

// Plan says what a schedule is drawn for.
type Plan struct {
	Seed     uint64
	Topology Topology
	Length   time.Duration
	Only     []Kind // nil: all that the topology and the length have
}

// SparesOneGate tells whether the first gate of a run is never ended, so that there is
// one that remembers and one that grows old: by the seed.
func (p Plan) SparesOneGate() bool { return p.Seed%2 == 0 }

// longRun is from when on a run has time for the faults that take long to heal.
const longRun = time.Minute

// fits tells whether a fault may come in this run.
func (p Plan) fits(t trait) bool {
	switch {
	case t.only != nil && !slices.Contains(t.only, p.Topology):
		return false
	case p.Only != nil:
		return slices.Contains(p.Only, t.kind)
	case t.kind == GatesKilled && p.SparesOneGate():
		return false
	default:
		return !t.long || p.Length >= longRun
	}
}

// Schedule draws the troubles of a run: the same plan, the same troubles.
func Schedule(p Plan) []Event {
	var all []Event
	for i, lane := range []Lane{Gates, Redis, Shop, Clients, Operator} {
		chance := rand.New(rand.NewPCG(p.Seed, uint64(i))) //nolint:gosec // what goes wrong, not a secret
		var bag []trait
		for _, t := range traits() {
			if t.lane == lane && p.fits(t) {
				for range t.weight {
					bag = append(bag, t)
				}
			}
		}
		if len(bag) == 0 {
			continue
		}
		at := between(chance, second, 3*second)
		lost := time.Duration(0)
		for at < p.Length {
			t := bag[chance.IntN(len(bag))]
			event := Event{At: at, For: between(chance, t.least, t.most), Lane: lane, Kind: t.kind, Pick: chance.Uint64()}
			gap := between(chance, 300*time.Millisecond, 3*second)
			if t.loses {
				// The line is being brought back for half a minute, and goes on after it: a
				// loss a minute is enough, or nobody is ever let in.
				if lost > 0 && at < lost+longRun {
					continue
				}
				lost = at
			}
			at += event.For + gap
			all = append(all, event)
		}
	}
	slices.SortStableFunc(all, func(x, y Event) int { return cmp.Compare(x.At, y.At) })
	return all
}

// between draws a duration.
func between(chance *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(chance.Int64N(int64(max(0, most-least)+1)))
}

// Print is the schedule as it is printed, one line an event.
func Print(events []Event) string {
	var text strings.Builder
	for _, e := range events {
		text.WriteString(e.String() + "\n")
	}
	return text.String()
}
