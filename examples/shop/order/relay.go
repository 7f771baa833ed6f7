package order

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/queuegate/queuegate/examples/shop/stock"
	"github.com/queuegate/queuegate/examples/shop/store"
)

const (
	// claimed is how many lines of the outbox one round takes.
	claimed = 100
	// passLives is longer than any pass: the gate's session_max is two hours.
	passLives = 3 * time.Hour
)

// RelayOptions say how the outbox is drained. Fields without a default are required.
type RelayOptions struct {
	Books     Books
	Publisher Publisher
	Gate      Gate // nil: there is none, and no pass to give back
	Shelf     Shelf
	Reach     Reach
	Log       *slog.Logger  // discarded
	Every     time.Duration // between two rounds when nothing wakes the relay; 200 ms
	// Again is when a line is looked at again after its relay may have died, and a
	// line that failed for the first time; the latter doubles up to a minute. 10 s.
	Again time.Duration
	// Resend is when an event is sent again whose order is still not decided: the
	// broker may have lost it. 1 min.
	Resend time.Duration
}

// Relay does what the outbox asks for.
type Relay struct {
	opts RelayOptions
	wake chan struct{}
}

// NewRelay returns a relay.
func NewRelay(opts RelayOptions) (*Relay, error) {
	if opts.Books == nil || opts.Publisher == nil || opts.Shelf == nil {
		return nil, errors.New("order: a relay needs Books, Publisher and Shelf")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Every == 0 {
		opts.Every = 200 * time.Millisecond
	}
	if opts.Again == 0 {
		opts.Again = 10 * time.Second
	}
	if opts.Resend == 0 {
		opts.Resend = time.Minute
	}
	return &Relay{opts: opts, wake: make(chan struct{}, 1)}, nil
}

// Wake lets the relay look at once. It never blocks.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run drains the outbox until the context ends.
func (r *Relay) Run(ctx context.Context) {
	tick := time.NewTicker(r.opts.Every)
	defer tick.Stop()
	for {
		more, err := r.Round(ctx)
		if err != nil && ctx.Err() == nil {
			r.opts.Log.WarnContext(ctx, "the outbox waits", "error", err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-tick.C:
		}
	}
}

// Round does what is due and reports whether there may be more. It returns the
// error of the database or of the broker; a gate or a stock that does not answer
// holds up only its own lines.
func (r *Relay) Round(ctx context.Context) (bool, error) {
	tasks, err := r.opts.Books.Claim(ctx, claimed, r.opts.Again)
	if err != nil || len(tasks) == 0 {
		return false, err
	}
	r.opts.Reach.at(StepClaimed)
	var orders, others []store.Task
	for _, t := range tasks {
		if t.Kind == store.KindOrder {
			orders = append(orders, t)
		} else {
			others = append(others, t)
		}
	}
	err = r.publish(ctx, orders)
	for _, t := range others {
		err = errors.Join(err, r.finish(ctx, t))
	}
	return len(tasks) == claimed, err
}

// publish sends events. Their lines stay open until the orders are decided.
func (r *Relay) publish(ctx context.Context, tasks []store.Task) error {
	if len(tasks) == 0 {
		return nil
	}
	var events []Event
	for _, t := range tasks {
		events = append(events, EventOf(t.Request))
	}
	err := r.opts.Publisher.Publish(ctx, events)
	if err == nil {
		r.opts.Reach.at(StepPublished)
	}
	for _, t := range tasks {
		wait := r.opts.Resend
		if err != nil {
			wait = r.backoff(t)
		}
		err = errors.Join(err, r.opts.Books.Later(ctx, t, wait))
	}
	return err
}

// finish does what any other line asks for.
func (r *Relay) finish(ctx context.Context, t store.Task) error {
	var err error
	switch t.Kind {
	case store.KindRelease:
		err = r.release(ctx, t)
	case store.KindGiveBack:
		r.opts.Reach.at(StepGivingUp)
		err = r.opts.Shelf.GiveBack(ctx, t.Request.Product, stock.Hold{Visitor: t.Request.Visitor, EventID: t.Request.EventID})
		r.opts.Reach.at(StepGivenBack)
	default:
		err = errors.New("order: a kind of line that this version does not know")
	}
	if err != nil {
		r.opts.Log.WarnContext(ctx, "the outbox waits", "kind", string(t.Kind), "event_id", t.Request.EventID, "error", err)
		return r.opts.Books.Later(ctx, t, r.backoff(t))
	}
	return r.opts.Books.Done(ctx, t)
}

func (r *Relay) release(ctx context.Context, t store.Task) error {
	if r.opts.Gate == nil {
		return nil
	}
	r.opts.Reach.at(StepReleasing)
	err := r.opts.Gate.Release(ctx, t.Request.Room, t.Request.Pass)
	if err == nil {
		r.opts.Reach.at(StepReleased)
	} else if time.Since(t.Request.At) > passLives {
		r.opts.Log.WarnContext(ctx, "a pass was not given back and has ended by now", "event_id", t.Request.EventID, "error", err)
		return nil
	}
	return err
}

// backoff is how long a line waits that has failed.
func (r *Relay) backoff(t store.Task) time.Duration {
	const longest = time.Minute
	return min(longest, r.opts.Again<<min(t.Attempts, 6))
}
