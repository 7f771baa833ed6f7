package order

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/queuegate/queuegate/examples/shop/stock"
	"github.com/queuegate/queuegate/examples/shop/store"
)

// KeeperOptions say how the stock is looked after. Fields without a default are required.
type KeeperOptions struct {
	Books  Books
	Shelf  Shelf
	Gate   Gate          // nil: there is none
	Log    *slog.Logger  // discarded
	Every  time.Duration // between two looks; 1 s
	Report time.Duration // the gate is told what is left when it changed, and after this long anyway; 30 s
}

// Keeper makes the stock agree with the database.
type Keeper struct {
	opts KeeperOptions

	filling  sync.Mutex
	told     map[string]int // what the gate was last told of each product
	toldLast time.Time
}

// NewKeeper returns a keeper.
func NewKeeper(opts KeeperOptions) (*Keeper, error) {
	if opts.Books == nil || opts.Shelf == nil {
		return nil, errors.New("order: a keeper needs Books and Shelf")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Every == 0 {
		opts.Every = time.Second
	}
	if opts.Report == 0 {
		opts.Report = 30 * time.Second
	}
	return &Keeper{opts: opts, told: map[string]int{}}, nil
}

// Run looks after the stock until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	for {
		if err := k.Round(ctx); err != nil && ctx.Err() == nil {
			k.opts.Log.WarnContext(ctx, "the stock was not looked after", "error", err)
		}
		if !pause(ctx, k.opts.Every) {
			return
		}
	}
}

// Round looks once at every product: at holds that nobody settled, and whether the
// stock is what the database says. Then it tells the gate what is left.
func (k *Keeper) Round(ctx context.Context) error {
	products, err := k.opts.Books.Products(ctx)
	if err != nil {
		return err
	}
	left := map[string]int{}
	for _, p := range products {
		if err := k.settle(ctx, p.ID); err != nil {
			return err
		}
		count, err := k.audit(ctx, p.ID)
		if err != nil {
			return err
		}
		left[p.ID] = count
	}
	return k.report(ctx, left)
}

// settle asks the database what became of the holds that are over.
func (k *Keeper) settle(ctx context.Context, product string) error {
	holds, err := k.opts.Shelf.Overdue(ctx, product, 100)
	if err != nil {
		return err
	}
	for _, h := range holds {
		request, err := k.opts.Books.Request(ctx, h.EventID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			// The process died before it wrote the order down, or writes still: then the
			// database refuses to sell more than there is.
			k.opts.Log.InfoContext(ctx, "a hold came to nothing", "product", product, "event_id", h.EventID)
			err = k.opts.Shelf.GiveBack(ctx, product, h)
		case err == nil && (request.Status == store.StatusAccepted || request.Status == store.StatusConfirmed):
			err = k.opts.Shelf.Settle(ctx, product, h)
		case err == nil:
			err = k.opts.Shelf.GiveBack(ctx, product, h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// audit fills the stock when it is not there, or is not what the database says
// while nothing is under way that explains it. It returns how many are left.
func (k *Keeper) audit(ctx context.Context, product string) (int, error) {
	k.filling.Lock()
	defer k.filling.Unlock()
	seen, err := k.opts.Shelf.Look(ctx, product)
	if err != nil || seen.Holds > 0 {
		return seen.Left, err
	}
	books, err := k.opts.Books.Books(ctx, product)
	switch {
	case err != nil:
		return 0, err
	case seen.Known && (books.GiveBack > 0 || seen.Left == books.Left):
		return seen.Left, nil
	}
	return books.Left, k.fill(ctx, product, seen, books)
}

// Fill fills the stock of a product that Redis does not know; of one that it knows
// it changes nothing. The error matches [ErrUnknownProduct] when the database does
// not know it either.
func (k *Keeper) Fill(ctx context.Context, product string) error {
	k.filling.Lock()
	defer k.filling.Unlock()
	seen, err := k.opts.Shelf.Look(ctx, product)
	if err != nil || seen.Known {
		return err
	}
	books, err := k.opts.Books.Books(ctx, product)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ErrUnknownProduct
	case err != nil:
		return err
	}
	return k.fill(ctx, product, seen, books)
}

func (k *Keeper) fill(ctx context.Context, product string, seen stock.Count, books store.Books) error {
	orders := make([]stock.Order, 0, len(books.Live))
	for _, r := range books.Live {
		orders = append(orders, stock.Order{
			Product: product, Visitor: r.Visitor, EventID: r.EventID, Key: r.Key, Quantity: r.Quantity,
		})
	}
	filled, err := k.opts.Shelf.Fill(ctx, product, seen, max(0, books.Left), orders)
	if filled {
		k.opts.Log.InfoContext(ctx, "the stock was filled from the database", "product", product,
			"left", books.Left, "orders", len(orders), "before", seen.Left, "known", seen.Known)
	}
	return err
}

// report lets the gate ask what is left, when that has changed and now and then. A
// gate that is away is told later.
func (k *Keeper) report(ctx context.Context, left map[string]int) error {
	changed := time.Since(k.toldLast) >= k.opts.Report
	for product, n := range left {
		told, ever := k.told[product]
		changed = changed || !ever || told != n
	}
	if k.opts.Gate == nil || !changed {
		return nil
	}
	if err := k.opts.Gate.Report(ctx); err != nil {
		return err
	}
	k.told, k.toldLast = left, time.Now()
	return nil
}
