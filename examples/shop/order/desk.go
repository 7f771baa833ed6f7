package order

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/queuegate/queuegate/examples/shop/stock"
	"github.com/queuegate/queuegate/examples/shop/store"
)

// MaxQuantity is the most of a product in one order.
const MaxQuantity = 4

var (
	// ErrInvalid is returned for an order that cannot be meant; the text says why.
	ErrInvalid = errors.New("order: invalid")
	// ErrUnknownProduct is returned for a product that is not for sale.
	ErrUnknownProduct = errors.New("order: no such product")
	// ErrSoldOut is returned when fewer are left than were ordered.
	ErrSoldOut = errors.New("order: sold out")
	// ErrOther is returned when the visitor has another order of the product; the
	// receipt is that one's.
	ErrOther = errors.New("order: the visitor has another order of this product")
	// ErrDeclined is returned when the payment was declined.
	ErrDeclined = errors.New("order: payment declined")
	// ErrUnavailable is returned when the shop cannot say; the same order with the
	// same key may be sent again and is taken once.
	ErrUnavailable = errors.New("order: the shop cannot take orders at the moment")
)

// Ask is what a buyer wants.
type Ask struct {
	Product  string
	Visitor  string // as the gate names them
	Key      string // idempotency key: the same again gets the same answer
	Quantity int    // 1 to MaxQuantity
	Room     string // of the gate
	Pass     string // what the gate handed out; given back once the order is confirmed
}

func (a Ask) validate() error {
	switch {
	case a.Visitor == "":
		return fmt.Errorf("%w: nobody is named as the buyer: come through the gate", ErrInvalid)
	case a.Key == "":
		return fmt.Errorf("%w: an Idempotency-Key is missing", ErrInvalid)
	case a.Quantity < 1 || a.Quantity > MaxQuantity:
		return fmt.Errorf("%w: quantity must be from 1 to %d", ErrInvalid, MaxQuantity)
	}
	return nil
}

// Receipt is the answer to an order: the same each time it is sent.
type Receipt struct {
	EventID, Product string
	Quantity         int
}

// Charge takes the money for an order. It returns an error matching [ErrDeclined]
// when there is none, and any other when it cannot say. It is called again for the
// same event after a crash: the event's id is the payment's idempotency key.
type Charge func(context.Context, Event) error

// DeskOptions say how orders are taken. Fields without a default are required.
type DeskOptions struct {
	Books  Books
	Shelf  Shelf
	Keeper *Keeper // fills a stock that is not there
	Charge Charge  // for orders that are decided at once; nobody is declined
	Reach  Reach
	Log    *slog.Logger     // discarded
	Now    func() time.Time // time.Now
	Wake   func()           // told when there is something for the relay; nobody
}

// Desk takes orders.
type Desk struct{ opts DeskOptions }

// NewDesk returns a desk.
func NewDesk(opts DeskOptions) (*Desk, error) {
	if opts.Books == nil || opts.Shelf == nil || opts.Keeper == nil {
		return nil, errors.New("order: a desk needs Books, Shelf and Keeper")
	}
	if opts.Charge == nil {
		opts.Charge = func(context.Context, Event) error { return nil }
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Wake == nil {
		opts.Wake = func() {}
	}
	return &Desk{opts: opts}, nil
}

// Place takes an order that is decided later. A nil error means that the order is
// written down and will be decided, whatever dies from now on. The other errors
// match those of this package; after [ErrUnavailable] the outcome is open, and
// sending the order again settles it.
func (d *Desk) Place(ctx context.Context, ask Ask) (Receipt, error) {
	receipt, err := d.take(ctx, ask, func(r store.Request) (store.Request, error) {
		return d.opts.Books.Accept(ctx, r)
	})
	if err == nil {
		d.opts.Wake()
	}
	return receipt, err
}

// Buy takes an order and decides it at once: a nil error means that it is sold and
// paid for. A gate may take that for the end of the visit.
func (d *Desk) Buy(ctx context.Context, ask Ask) (Receipt, error) {
	return d.take(ctx, ask, func(r store.Request) (store.Request, error) {
		switch err := d.opts.Charge(ctx, EventOf(r)); {
		case errors.Is(err, ErrDeclined):
			return store.Request{}, ErrDeclined
		case err != nil:
			return store.Request{}, fmt.Errorf("charge: %w", err)
		}
		had, err := d.opts.Books.Buy(ctx, r)
		if err == nil && had.Status != store.StatusConfirmed {
			return had, store.ErrOther // placed before, and not decided yet
		}
		return had, err
	})
}

// take takes the quantity from the stock and has the order written down.
func (d *Desk) take(ctx context.Context, ask Ask, write func(store.Request) (store.Request, error)) (Receipt, error) {
	if err := ask.validate(); err != nil {
		return Receipt{}, err
	}
	o := stock.Order{
		Product: ask.Product, Visitor: ask.Visitor, EventID: rand.Text(), Key: hashed(ask.Key), Quantity: ask.Quantity,
	}
	taken, err := d.fromShelf(ctx, o)
	receipt := Receipt{EventID: taken.EventID, Product: ask.Product, Quantity: ask.Quantity}
	if err != nil {
		return receipt, err
	}
	d.opts.Reach.at(StepTaken)
	o.EventID = taken.EventID
	return d.written(ctx, ask, o, write)
}

// fromShelf takes from the stock, which is filled first when it is not there.
func (d *Desk) fromShelf(ctx context.Context, o stock.Order) (stock.Taken, error) {
	taken, err := d.opts.Shelf.Take(ctx, o)
	if errors.Is(err, stock.ErrUnknown) {
		if err = d.opts.Keeper.Fill(ctx, o.Product); err == nil {
			taken, err = d.opts.Shelf.Take(ctx, o)
		}
	}
	switch {
	case err == nil:
		return taken, nil
	case errors.Is(err, ErrUnknownProduct):
		return taken, ErrUnknownProduct
	case errors.Is(err, stock.ErrSoldOut):
		return taken, ErrSoldOut
	case errors.Is(err, stock.ErrOther):
		return taken, ErrOther
	}
	return taken, d.unavailable(ctx, "the stock does not answer", err)
}

// written has the order written down. When it is not known whether that worked the
// hold stays: the database is asked what became of it once the hold is over, or the
// buyer comes again first and finds it.
func (d *Desk) written(ctx context.Context, ask Ask, o stock.Order, write func(store.Request) (store.Request, error)) (Receipt, error) {
	hold := stock.Hold{Visitor: o.Visitor, EventID: o.EventID}
	had, err := write(store.Request{
		EventID: o.EventID, Product: ask.Product, Visitor: ask.Visitor, Quantity: ask.Quantity, Key: o.Key,
		At: d.opts.Now().UTC().Truncate(time.Millisecond), Room: ask.Room, Pass: ask.Pass,
	})
	receipt := Receipt{EventID: o.EventID, Product: ask.Product, Quantity: ask.Quantity}
	switch {
	case err == nil:
		d.opts.Reach.at(StepAccepted)
		// Without this word the keeper asks the database later.
		if err := d.opts.Shelf.Settle(ctx, ask.Product, hold); err != nil {
			d.opts.Log.WarnContext(ctx, "a hold was not settled", "error", err)
		}
		return receipt, nil
	case errors.Is(err, store.ErrOther):
		return d.known(ctx, had, o)
	case errors.Is(err, store.ErrSoldOut):
		d.giveBack(ctx, ask.Product, hold)
		return receipt, ErrSoldOut
	case errors.Is(err, ErrDeclined):
		d.giveBack(ctx, ask.Product, hold)
		return receipt, ErrDeclined
	}
	return receipt, d.unavailable(ctx, "an order could not be written down", err)
}

// known answers an order that the database has and Redis had forgotten, or that was
// placed in the other way.
func (d *Desk) known(ctx context.Context, had store.Request, o stock.Order) (Receipt, error) {
	receipt := Receipt{EventID: had.EventID, Product: had.Product, Quantity: had.Quantity}
	if had.EventID == o.EventID {
		return receipt, ErrOther
	}
	d.giveBack(ctx, o.Product, stock.Hold{Visitor: o.Visitor, EventID: o.EventID})
	if had.Key == o.Key && had.Quantity == o.Quantity {
		return receipt, nil
	}
	return receipt, ErrOther
}

// giveBack returns what was taken; the keeper does so later when this fails.
func (d *Desk) giveBack(ctx context.Context, product string, hold stock.Hold) {
	if err := d.opts.Shelf.GiveBack(ctx, product, hold); err != nil {
		d.opts.Log.WarnContext(ctx, "a hold was not given back", "error", err)
	}
}

func (d *Desk) unavailable(ctx context.Context, what string, err error) error {
	d.opts.Log.WarnContext(ctx, "an order was refused", "why", what, "error", err)
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// hashed keeps idempotency keys out of Redis and the database: whoever knows one
// knows the order. The hash has no spaces, whatever the key has.
func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}
