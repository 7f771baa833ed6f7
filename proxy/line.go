package proxy

import (
	"context"
	"time"

	"github.com/queuegate/queuegate/queue"
)

// Line is the line of one room as the gate uses it; *queue.Line implements it.
//
// Every call with a context may ask Redis and bounds the time it waits by
// itself. Its errors wrap queue.ErrUnavailable when Redis gave no answer: the
// outcome is unknown then and every call can be repeated. A Standing is what
// the line knows, never a guess.
type Line interface {
	// Join gives a newcomer a place (State Away), or admits at once (Ready) when
	// nobody waits and there is room. A full or closed room answers with
	// Refusal set. Who is known already gets the same answer again; whose stay
	// has ended begins a new one.
	Join(ctx context.Context, a queue.Arrival) (queue.Standing, error)
	// Touch records a sign of life and tells where the visitor stands. It admits
	// (Ready) when it is their turn.
	Touch(ctx context.Context, s queue.Sign) (queue.Standing, error)
	// Reckon is the part of Touch that asks nobody; ok is false where Touch would ask
	// Redis.
	Reckon(s queue.Sign) (st queue.Standing, ok bool)
	// Claim takes up an admission (Active). It is also how a token past its end
	// is exchanged: only when this very admission still holds a lease. Any other
	// state means that the holding is worth nothing. With Holding.Order set it also
	// asks for the order lock; Standing.Lease.Order tells who has it, and it is
	// empty while nobody may have one.
	Claim(ctx context.Context, h queue.Holding) (queue.Standing, error)
	// Renew extends an active lease. With Holding.Order set it asks for the order
	// lock, or keeps it for a request in flight.
	Renew(ctx context.Context, h queue.Holding) (queue.Standing, error)
	// Move gives the place of a ticket to another visitor, who turned out to be the
	// same person, and tells where that one stands: at this place, or at an
	// earlier one of their own; State Unknown means that they have none. Nothing
	// moves when the ticket's stay has ended or became a pass, nor from a visitor
	// to themselves: that only tells where they stand.
	Move(ctx context.Context, s queue.Sign, to string) (queue.Standing, error)
	// Leave gives up the place or the pass.
	Leave(ctx context.Context, h queue.Holding) (queue.Standing, error)
	// Release gives the pass back.
	Release(ctx context.Context, h queue.Holding) (queue.Standing, error)
	// Settle carries out what the shop's answer means for a pass: its order (named
	// by Holding.Order) used it up or failed, or the shop gave the pass back. It
	// waits for Redis no longer than the context allows, and repeats by itself what
	// Redis does not take.
	Settle(ctx context.Context, h queue.Holding, why queue.Why)
	// Obey makes a change of the room's live values that the shop has asked for,
	// within the context or as soon as Redis takes it. Its error is about the change
	// itself.
	Obey(ctx context.Context, set map[queue.Setting]string, cleared ...queue.Setting) error
	// Settings are the values of the room in force, as far as this gate has heard.
	Settings() queue.Settings
	// Barred tells without Redis whether a visitor has used up a pass and may not
	// queue again yet, and for how long.
	Barred(visitor string) (time.Duration, bool)
	// Glance tells where the holder of a ticket stands as far as this gate sees, without Redis; known
	// is false when only Redis can tell. It is no sign of life.
	Glance(s queue.Sign) (st queue.Standing, known bool)
	// Look asks where they stand. It is no sign of life either.
	Look(ctx context.Context, s queue.Sign) (queue.Standing, error)
	// Hints calls tell with the visitors whose stay has taken a turn, and with none when
	// values of the room have changed, until ctx ends. Some are never named.
	Hints(ctx context.Context, tell func(visitors []string)) error
	// Ended tells from the local copy of the ended log, without Redis, whether
	// the stay that began at this place is over and why.
	Ended(visitor string, place int64) (queue.Why, bool)
	// Now estimates the room time in milliseconds without Redis; false before
	// the first answer of Redis.
	Now() (int64, bool)
	// Up tells whether Redis answered the last call, which is seldom older than
	// half a second.
	Up() bool
	// Room tells the last known counts and state without Redis; false before
	// the first answer of Redis.
	Room() (queue.Room, bool)
}
