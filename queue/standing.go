package queue

import "time"

// State is where a visitor is in the one life that everybody in a room leads:
// away -> waiting -> ready -> active -> ended.
type State string

// The five states, and the absence of any.
const (
	// Unknown: the line has no record of this visitor (or refused a place, see
	// Standing.Refusal).
	Unknown State = ""
	// Away: has a place and is not here: newly joined and not heard from since,
	// or overdue with the next sign of life. The place is kept.
	Away State = "away"
	// Waiting: has a place and is here.
	Waiting State = "waiting"
	// Ready: admitted; the pass was not used yet and falls back to the place
	// when it is not taken up within the claim window.
	Ready State = "ready"
	// Active: admitted and using the pass.
	Active State = "active"
	// Ended: this stay is over; Standing.Why tells how.
	Ended State = "ended"
)

// Why tells how a stay ended.
type Why string

// The reasons a stay ends for.
const (
	Consumed Why = "consumed" // a successful order used the pass up
	Released Why = "released" // the shop, an operator or the visitor gave the pass back
	Left     Why = "left"     // the visitor gave the place up
	Moved    Why = "moved"    // the place now belongs to another id of the same person
	Expired  Why = "expired"  // silent for too long, session over, or the room was reset

	// Failed ends nothing: an order came to nothing and its lock is free again.
	// It is for Line.Settle alone; no stay ends for it.
	Failed Why = "failed"
)

// Refusal tells why a newcomer got no place.
type Refusal string

// The reasons a place is refused for.
const (
	Full    Refusal = "full"     // max_waiting people are waiting already
	Closed  Refusal = "closed"   // the operator closed the room
	SoldOut Refusal = "sold_out" // there is nothing left to queue for
)

// Refusals are all of them.
func Refusals() []Refusal { return []Refusal{Full, Closed, SoldOut} }

// RoomState is what the operator and the shop have made of the room.
type RoomState string

// The states of a room that live in Redis. A gate adds its own (degraded,
// suspended) when it describes the room to a visitor.
const (
	Open         RoomState = "open"
	QueueAll     RoomState = "queue_all" // nobody new gets in; the line keeps its order
	Paused       RoomState = "paused"    // the same, for a while, by an operator's hand
	RoomClosed   RoomState = "closed"
	RoomSoldOut  RoomState = "sold_out"
	Unconfigured RoomState = "" // Redis holds no limits: nobody is admitted
)

// RoomStates are the states that a room can be put into.
func RoomStates() []RoomState { return []RoomState{Open, QueueAll, Paused, RoomClosed, RoomSoldOut} }

// Lease is an admission: the right to hold one slot until End.
type Lease struct {
	Admission string    // unique to this admission of this place; the jti of the entry token
	Place     int64     // the place it was given for
	End       int64     // room time in milliseconds at which the slot may be given on
	Until     time.Time // the same moment by Redis's TIME, for those who have no room time
	Started   int64     // room time in milliseconds of the claim (Active) or the admission (Ready)
	// Order is the request that has the order lock of the pass, empty when none has.
	Order string
}

// Standing is what the line knows of one visitor at one moment.
type Standing struct {
	Visitor string
	State   State
	Why     Why     // set when State is Ended
	Refusal Refusal // set when a newcomer got no place; State is Unknown then
	Place   int64   // sequence number in the line, 0 when there is none
	Joined  time.Time
	Lease   Lease // set when State is Ready or Active

	// Numbers. Ahead is the number of people in front who are here (or joined a
	// moment ago), or the number shown before when that is lower or hardly
	// higher: it never grows during one stay. -1 when there is no honest number.
	Ahead   int64
	Behind  int64
	Waiting int64 // everybody who is here or joined a moment ago

	Poll time.Duration // how long to wait before the next sign of life, without jitter (add up to 20 % either way)
	Seen int64         // room time in milliseconds of this sign of life, 0 when it was none
	Due  int64         // room time in milliseconds until which it counts

	// Wait is the estimated time until admission; WaitKnown is false when there
	// is no ground for a number (paused, nobody admitted yet and no rate set).
	Wait      time.Duration
	WaitKnown bool

	Room Room
}

// Room is what one answer of Redis says of the whole room.
type Room struct {
	State      RoomState
	Now        int64     // room time in milliseconds
	Clock      time.Time // Redis's TIME at the same moment
	Generation int64     // raised by a reset
	Epoch      int64     // raised when Redis lost its history
	Waiting    int64     // people here or newly joined
	Holding    int64     // slots taken, those reserved after a loss counted, expired leases not
	Limits     Limits
	// Flow is how many people a second were admitted lately while people waited;
	// 0 before there is a measure. Thinning is the share of the waiting who go
	// away in a second.
	Flow     float64
	Thinning float64
	// Healing is how much longer nobody is admitted because Redis lost its
	// history and those who know it bring it back; 0 usually.
	Healing time.Duration
}

// Limits are the two limits of a room and the burst of the second; they live
// in Redis so that all gates obey the same ones. Zero means no such limit.
type Limits struct {
	Slots     int64 // total_active_users
	PerMinute int64 // new_users_per_minute
	Burst     int64 // admissions that may come at once after a quiet time, at least 1 when PerMinute is set
}

// Arrival is somebody who asks for a place. Joining is idempotent per visitor:
// who has a place, or a pass, gets the same answer again.
type Arrival struct {
	Visitor string // chosen by the gate before the call, so that an answer that got lost can be asked for again
	Highest int64  // the highest place any ticket or token of this request shows, 0 for none
}

// Sign is a sign of life from the holder of a ticket.
type Sign struct {
	Visitor    string
	Place      int64
	Generation int64
	Epoch      int64
	Seen       int64 // room time in milliseconds of the last sign of life recorded in that epoch, from the ticket; 0 when none was
	Due        int64 // room time in milliseconds until which it counts, from the ticket
	Ahead      int64 // the number last shown, negative when none was
	Joined     time.Time
}

// Holding is a pass shown to the gate.
type Holding struct {
	Visitor    string
	Admission  string // empty: whatever this visitor holds (leaving)
	Place      int64
	Generation int64
	Epoch      int64
	Active     bool  // the token's stage: active, else ready
	End        int64 // the token's end, room time in milliseconds
	// Flight is how long a request in flight needs the slot at least, renewed
	// while it runs; 0 when the holding is shown for itself.
	Flight time.Duration
	// Order names the request that wants, has or had the order lock of this pass;
	// empty: no order. No blanks.
	Order string
}
