package order

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/queuegate/queuegate/examples/shop/store"
)

// ProcessorOptions say how orders are decided. Fields without a default are required.
type ProcessorOptions struct {
	Books     Books
	Source    Source
	Consumers int    // at once; 2
	Charge    Charge // nobody is declined
	Reach     Reach
	Log       *slog.Logger  // discarded
	Retry     time.Duration // from a failure of the broker or the database to the next try; 200 ms
	Wake      func()        // told when there is something for the relay; nobody
}

// Processor decides orders that were accepted, each once, however often its event
// is delivered.
type Processor struct{ opts ProcessorOptions }

// NewProcessor returns a processor.
func NewProcessor(opts ProcessorOptions) (*Processor, error) {
	if opts.Books == nil || opts.Source == nil {
		return nil, errors.New("order: a processor needs Books and Source")
	}
	if opts.Consumers == 0 {
		opts.Consumers = 2
	}
	if opts.Charge == nil {
		opts.Charge = func(context.Context, Event) error { return nil }
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Retry == 0 {
		opts.Retry = 200 * time.Millisecond
	}
	if opts.Wake == nil {
		opts.Wake = func() {}
	}
	return &Processor{opts: opts}, nil
}

// Run decides orders until the context ends, through every failure of the broker
// and the database.
func (p *Processor) Run(ctx context.Context) {
	var consumers sync.WaitGroup
	for range p.opts.Consumers {
		consumers.Go(func() {
			for ctx.Err() == nil {
				if err := p.opts.Source.Consume(ctx, p.Handle); err != nil && ctx.Err() == nil {
					p.opts.Log.WarnContext(ctx, "the consumer starts again", "error", err)
				}
				pause(ctx, p.opts.Retry)
			}
		})
	}
	consumers.Wait()
}

// Handle decides the order of one message. It returns an error when the message has
// to be delivered again; what nobody can make an order of is put aside, with the
// reason, so that it holds up nobody.
func (p *Processor) Handle(ctx context.Context, d Delivery) error {
	event, err := Decode(d.Value)
	if err != nil {
		return p.bury(ctx, d, err)
	}
	p.opts.Reach.at(StepRead)
	request, err := p.opts.Books.Request(ctx, event.EventID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return p.bury(ctx, d, err)
	case err != nil:
		return err
	case request.Status.Final():
		return nil // delivered before
	case EventOf(request) != event:
		return p.bury(ctx, d, errors.New("order: the event is not that of the request it names"))
	}
	status, err := p.decide(ctx, event)
	if err != nil {
		return err
	}
	p.opts.Reach.at(StepConfirmed)
	p.opts.Log.InfoContext(ctx, "order decided", "event_id", event.EventID, "visitor", event.Visitor,
		"quantity", event.Quantity, "status", string(status))
	p.opts.Wake()
	return nil
}

func (p *Processor) decide(ctx context.Context, event Event) (store.Status, error) {
	switch err := p.opts.Charge(ctx, event); {
	case errors.Is(err, ErrDeclined):
		return p.opts.Books.Fail(ctx, event.EventID)
	case err != nil:
		return "", err
	}
	return p.opts.Books.Confirm(ctx, event.EventID)
}

func (p *Processor) bury(ctx context.Context, d Delivery, why error) error {
	p.opts.Log.WarnContext(ctx, "a message was put aside", "source", d.Source, "error", why)
	return p.opts.Books.Bury(ctx, d.Source, string(d.Value), why.Error())
}

// pause waits and reports whether the context is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
