// Package order is what the shop does: it takes orders ([Desk]), sends them on
// ([Relay]), decides them ([Processor]) and looks after what was left lying when a
// process died ([Keeper]).
//
//	buyer -> Desk: take from the stock (Redis), write request and outbox (database), 202
//	            Relay: outbox -> broker -> Processor: charge, write the order (database)
//	            Relay: outbox -> gate: the pass is given back
//
// Between any two of these steps the process may be killed. Everything is written
// before it is done, and may be done twice.
package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/queuegate/queuegate/examples/shop/stock"
	"github.com/queuegate/queuegate/examples/shop/store"
)

// ErrPoison is returned for a message that is no event and never will be.
var ErrPoison = errors.New("order: not an event")

// Event is what is sent about an order, in JSON.
type Event struct {
	EventID     string    `json:"event_id"`
	ProductID   string    `json:"product_id"`
	Visitor     string    `json:"visitor"`
	Quantity    int       `json:"quantity"`
	RequestedAt time.Time `json:"requested_at"`
}

// EventOf is the event of a request.
func EventOf(r store.Request) Event {
	return Event{EventID: r.EventID, ProductID: r.Product, Visitor: r.Visitor, Quantity: r.Quantity, RequestedAt: r.At}
}

// Encode returns the event as it is sent.
func (e Event) Encode() ([]byte, error) { return json.Marshal(e) }

// Decode reads an event, or returns an error matching [ErrPoison].
func Decode(message []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(message, &e); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrPoison, err)
	}
	if e.EventID == "" || e.ProductID == "" || e.Visitor == "" || e.Quantity < 1 {
		return Event{}, fmt.Errorf("%w: a field is missing", ErrPoison)
	}
	return e, nil
}

// Delivery is a message as a broker delivers it, once or more often.
type Delivery struct {
	Source string // where it was read: the same for each delivery of the message where the broker can say
	Value  []byte
}

// Publisher sends events. It returns nil only when the broker has all of them.
type Publisher interface {
	Publish(ctx context.Context, events []Event) error
}

// Source delivers messages to handle until the context ends, at least once each. A
// message whose handling failed is delivered again. It returns an error when the
// broker or the handling failed for long, to be called again.
type Source interface {
	Consume(ctx context.Context, handle func(context.Context, Delivery) error) error
}

// Gate is the waiting room in front of the shop.
type Gate interface {
	// Release gives a pass back. It returns nil when the pass is over, whoever ended it.
	Release(ctx context.Context, room, pass string) error
	// Report lets the gate ask how much is left, by a request of the shop's own.
	Report(ctx context.Context) error
}

// Books is the database.
type Books interface {
	Accept(context.Context, store.Request) (store.Request, error)
	Buy(context.Context, store.Request) (store.Request, error)
	Request(ctx context.Context, eventID string) (store.Request, error)
	Confirm(ctx context.Context, eventID string) (store.Status, error)
	Fail(ctx context.Context, eventID string) (store.Status, error)
	Bury(ctx context.Context, source, payload, reason string) error
	Claim(ctx context.Context, limit int, again time.Duration) ([]store.Task, error)
	Done(context.Context, store.Task) error
	Later(ctx context.Context, t store.Task, wait time.Duration) error
	Products(context.Context) ([]store.Product, error)
	Books(ctx context.Context, product string) (store.Books, error)
}

// Shelf is the stock in Redis.
type Shelf interface {
	Take(context.Context, stock.Order) (stock.Taken, error)
	Settle(ctx context.Context, product string, h stock.Hold) error
	GiveBack(ctx context.Context, product string, h stock.Hold) error
	Overdue(ctx context.Context, product string, limit int) ([]stock.Hold, error)
	Look(ctx context.Context, product string) (stock.Count, error)
	Fill(ctx context.Context, product string, seen stock.Count, left int, orders []stock.Order) (bool, error)
}

var (
	_ Books = (*store.Store)(nil)
	_ Shelf = (*stock.Stock)(nil)
)

// Step is a moment at which a process may die. Tests kill it there.
type Step string

// The steps, in the order of an order's life.
const (
	StepTaken     Step = "taken"      // off the stock, not in the database
	StepAccepted  Step = "accepted"   // in the database, not answered
	StepClaimed   Step = "claimed"    // the outbox was read, nothing sent
	StepPublished Step = "published"  // at the broker, nobody knows it
	StepRead      Step = "read"       // read from the broker, not in the database
	StepConfirmed Step = "confirmed"  // sold, the broker does not know it
	StepReleasing Step = "releasing"  // before the gate is told
	StepReleased  Step = "released"   // the gate was told, nobody knows it
	StepGivingUp  Step = "giving_up"  // before the stock gets it back
	StepGivenBack Step = "given_back" // the stock has it, nobody knows it
)

// Reach is told of each step; nil does nothing.
type Reach func(Step)

func (r Reach) at(s Step) {
	if r != nil {
		r(s)
	}
}
