// Package stock counts in Redis what is left of each product, so that the crowd
// that comes too late never reaches the database.
//
// One script takes N of a product, all or nothing, for one visitor. What it took
// is held for the order until the database has it ([Stock.Settle]) or the order
// came to nothing ([Stock.GiveBack]); a hold whose process died is found by
// [Stock.Overdue]. The database has the last word: what Redis lost is filled in
// from it ([Stock.Fill]), and a count that came out too high is refused there.
package stock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	// ErrUnknown is returned for a product of which there is no stock in Redis: it
	// is new or has lost its data, and has to be filled from the database.
	ErrUnknown = errors.New("stock: the product is not in Redis")
	// ErrSoldOut is returned when fewer are left than were asked for.
	ErrSoldOut = errors.New("stock: sold out")
	// ErrOther is returned when the visitor already has another order of the
	// product; the answer names it.
	ErrOther = errors.New("stock: the visitor has another order of this product")
)

//go:embed lua/take.lua
var takeLua string

//go:embed lua/settle.lua
var settleLua string

//go:embed lua/giveback.lua
var giveBackLua string

//go:embed lua/overdue.lua
var overdueLua string

//go:embed lua/look.lua
var lookLua string

//go:embed lua/fill.lua
var fillLua string

// fillChunk is how many orders one call of fill.lua takes over.
const fillChunk = 500

// Order is who takes how many of what.
type Order struct {
	Product  string // without braces
	Visitor  string
	EventID  string // without spaces
	Key      string // idempotency key, without spaces
	Quantity int    // at least 1
}

// entry is how an order is written down beside its visitor.
func (o Order) entry() string { return fmt.Sprintf("%s %d %s", o.EventID, o.Quantity, o.Key) }

// Taken is the answer to a take.
type Taken struct {
	EventID  string // of the order that the visitor has now
	Repeated bool   // they had it before, with the same key and quantity
	Left     int    // of the product, afterwards
}

// Hold is a quantity taken for an order that is not known to be in the database.
type Hold struct {
	Visitor, EventID string
}

// Count is what Redis knows of a product.
type Count struct {
	Known bool   // false: nothing, and the rest is zero
	Left  int    // for sale
	Holds int    // orders that are not known to be in the database
	Seq   string // of the last change
}

// Options say how to keep stock. A zero value means the default beside it.
type Options struct {
	Prefix string        // begins every key; "shop"
	Hold   time.Duration // from a take to the question what became of it, at least 1 ms; 30 s
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = "shop"
	}
	if o.Hold == 0 {
		o.Hold = 30 * time.Second
	}
	return o
}

// Stock is what is left of all products. It may be used by several goroutines
// and beside others like it in other processes.
type Stock struct {
	rdb  redis.Scripter
	opts Options

	take, settle, giveBack, overdue, look, fill *redis.Script
}

// New returns the stock that is kept in a Redis. It does not call it.
func New(rdb redis.Scripter, opts Options) (*Stock, error) {
	opts = opts.withDefaults()
	if opts.Hold < time.Millisecond {
		return nil, fmt.Errorf("stock: a hold of %s is too short: want at least 1ms", opts.Hold)
	}
	return &Stock{
		rdb: rdb, opts: opts,
		take: redis.NewScript(takeLua), settle: redis.NewScript(settleLua), giveBack: redis.NewScript(giveBackLua),
		overdue: redis.NewScript(overdueLua), look: redis.NewScript(lookLua), fill: redis.NewScript(fillLua),
	}, nil
}

// keys are the keys of one product. They share a hash tag, so that they live in
// one slot of a Cluster. Nothing else spells a key.
func (s *Stock) keys(product string) []string {
	tag := s.opts.Prefix + ":{" + product + "}:"
	return []string{
		tag + "count",  // HASH left, seq
		tag + "holds",  // ZSET visitor -> end of the hold
		tag + "buyers", // HASH visitor -> order
	}
}

// Take takes o.Quantity for a visitor and holds it for o.EventID. A visitor has
// one order of a product: the same key and quantity again get the event they
// already have. The error matches [ErrOther] when they have another one, which
// the answer names, [ErrSoldOut], [ErrUnknown], or is that of Redis.
func (s *Stock) Take(ctx context.Context, o Order) (Taken, error) {
	reply, err := s.take.Run(ctx, s.rdb, s.keys(o.Product),
		o.Visitor, o.EventID, o.Quantity, o.Key, s.opts.Hold.Milliseconds()).Slice()
	if err != nil {
		return Taken{}, fmt.Errorf("stock: take: %w", err)
	}
	what, _ := reply[0].(string)
	event, _ := reply[1].(string)
	left, _ := reply[3].(int64)
	taken := Taken{EventID: event, Left: int(left)}
	switch what {
	case "taken":
		return taken, nil
	case "repeated":
		taken.Repeated = true
		return taken, nil
	case "other":
		return taken, ErrOther
	case "sold_out":
		return taken, ErrSoldOut
	case "unknown":
		return taken, ErrUnknown
	default:
		return Taken{}, fmt.Errorf("stock: take: unexpected answer %q", what)
	}
}

// Settle says that the database has the order. It may be said any number of times.
func (s *Stock) Settle(ctx context.Context, product string, h Hold) error {
	if err := s.settle.Run(ctx, s.rdb, s.keys(product), h.Visitor, h.EventID).Err(); err != nil {
		return fmt.Errorf("stock: settle: %w", err)
	}
	return nil
}

// GiveBack says that the order came to nothing: what was taken for it is for sale
// again, once, however often it is said.
func (s *Stock) GiveBack(ctx context.Context, product string, h Hold) error {
	if err := s.giveBack.Run(ctx, s.rdb, s.keys(product), h.Visitor, h.EventID).Err(); err != nil {
		return fmt.Errorf("stock: give back: %w", err)
	}
	return nil
}

// Overdue returns up to limit holds that are older than Options.Hold.
func (s *Stock) Overdue(ctx context.Context, product string, limit int) ([]Hold, error) {
	flat, err := s.overdue.Run(ctx, s.rdb, s.keys(product), limit).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("stock: overdue: %w", err)
	}
	var holds []Hold
	for i := 0; i+1 < len(flat); i += 2 {
		holds = append(holds, Hold{Visitor: flat[i], EventID: flat[i+1]})
	}
	return holds, nil
}

// Look returns what Redis knows of a product.
func (s *Stock) Look(ctx context.Context, product string) (Count, error) {
	reply, err := s.look.Run(ctx, s.rdb, s.keys(product)).Slice()
	if err != nil {
		return Count{}, fmt.Errorf("stock: look: %w", err)
	}
	left, _ := reply[0].(int64)
	seq, _ := reply[1].(string)
	holds, _ := reply[2].(int64)
	if left < 0 {
		return Count{}, nil
	}
	return Count{Known: true, Left: int(left), Seq: seq, Holds: int(holds)}, nil
}

// Fill takes over what the database says: how many are left and who has an order.
// It reports false, and leaves the stock alone, when that has changed since seen
// was looked at: somebody was faster, or sells.
func (s *Stock) Fill(ctx context.Context, product string, seen Count, left int, orders []Order) (bool, error) {
	for {
		chunk := orders[:min(fillChunk, len(orders))]
		orders = orders[len(chunk):]
		args := []any{seen.Seq, ""}
		if len(orders) == 0 {
			args[1] = left
		}
		for _, o := range chunk {
			args = append(args, o.Visitor, o.entry())
		}
		filled, err := s.fill.Run(ctx, s.rdb, s.keys(product), args...).Int()
		if err != nil {
			return false, fmt.Errorf("stock: fill: %w", err)
		}
		if filled == 0 || len(orders) == 0 {
			return filled == 1, nil
		}
	}
}
