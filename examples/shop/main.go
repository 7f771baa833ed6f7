// Command shop is the example shop behind queuegate: an order service whose stock
// is never oversold, whose orders survive the death of any process at any moment,
// and which gives the visitor's pass back once the order is written. README.md says
// how to run it and what it shows.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/queuegate/queuegate/examples/shop/order"
	"github.com/queuegate/queuegate/examples/shop/web"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.LookupEnv, os.Stderr, nil)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, errSettings):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// run is the whole program. reach is told of the steps of every order; only tests
// have one.
func run(ctx context.Context, lookup func(string) (string, bool), out io.Writer, reach order.Reach) error {
	set, err := readSettings(lookup)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(out, nil))
	p, err := openParts(ctx, set, log)
	if err != nil {
		return err
	}
	defer p.close()
	s, err := assemble(set, p, log, reach)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", set.listen)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "the shop is open", "listen", listener.Addr().String(), "database", p.databaseKind,
		"broker", p.brokerKind, "stock", p.redisKind)
	return s.serve(ctx, listener)
}

// service is the shop put together.
type service struct {
	handler   http.Handler
	relay     *order.Relay
	processor *order.Processor
	keeper    *order.Keeper
}

// assemble puts the parts together.
func assemble(set settings, p *parts, log *slog.Logger, reach order.Reach) (*service, error) {
	keeper, err := order.NewKeeper(order.KeeperOptions{Books: p.books, Shelf: p.shelf, Gate: p.gate, Log: log, Every: min(time.Second, set.hold)})
	if err != nil {
		return nil, err
	}
	relay, err := order.NewRelay(order.RelayOptions{
		Books: p.books, Publisher: p.publisher, Gate: p.gate, Shelf: p.shelf, Reach: reach, Log: log,
		Again: set.again, Resend: 6 * set.again,
	})
	if err != nil {
		return nil, err
	}
	charge := paying(set.payment, set.decline)
	processor, err := order.NewProcessor(order.ProcessorOptions{
		Books: p.books, Source: p.source, Charge: charge, Reach: reach, Log: log, Wake: relay.Wake,
	})
	if err != nil {
		return nil, err
	}
	desk, err := order.NewDesk(order.DeskOptions{
		Books: p.books, Shelf: p.shelf, Keeper: keeper, Charge: charge, Reach: reach, Log: log, Wake: relay.Wake,
	})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, product := range set.products {
		ids = append(ids, product.ID)
	}
	handler, err := web.New(web.Options{Desk: desk, Books: p.books, Shelf: p.shelf, Products: ids, Log: log})
	if err != nil {
		return nil, err
	}
	return &service{handler: web.Logged(handler, log), relay: relay, processor: processor, keeper: keeper}, nil
}

// serve works until the context ends, then finishes what is under way.
func (s *service) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var background sync.WaitGroup
	working, stop := context.WithCancel(ctx)
	defer background.Wait()
	defer stop()
	background.Go(func() { s.relay.Run(working) })
	background.Go(func() { s.processor.Run(working) })
	background.Go(func() { s.keeper.Run(working) })

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}
