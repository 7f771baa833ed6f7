package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/queuegate/queuegate/examples/shop/gate"
	"github.com/queuegate/queuegate/examples/shop/kafka"
	"github.com/queuegate/queuegate/examples/shop/order"
	"github.com/queuegate/queuegate/examples/shop/rabbit"
	"github.com/queuegate/queuegate/examples/shop/stock"
	"github.com/queuegate/queuegate/examples/shop/store"
)

// parts are what the shop is made of, embedded or real.
type parts struct {
	books     *store.Store
	shelf     *stock.Stock
	publisher order.Publisher
	source    order.Source
	gate      order.Gate // nil: there is none

	databaseKind, brokerKind, redisKind string
	closers                             []func() // the last one first
}

func (p *parts) close() {
	for i := len(p.closers) - 1; i >= 0; i-- {
		p.closers[i]()
	}
}

func (p *parts) onClose(f func()) { p.closers = append(p.closers, f) }

// openParts opens what the settings name. What cannot be reached yet may come
// later, but for the database: without it the shop knows nothing.
func openParts(ctx context.Context, set settings, log *slog.Logger) (*parts, error) {
	p := &parts{}
	for _, open := range []func() error{
		func() error { return p.openDatabase(ctx, set, log) },
		func() error { return p.openStock(set) },
		func() error { return p.openBroker(set) },
		func() error { return p.openGate(set) },
	} {
		if err := open(); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *parts) openDatabase(ctx context.Context, set settings, log *slog.Logger) error {
	books, err := store.Open(ctx, set.database, store.Options{
		Busy: set.busy, Wrote: func() { log.InfoContext(ctx, "write") },
	})
	if err != nil {
		return err
	}
	p.books, p.databaseKind = books, "sqlite"
	if strings.HasPrefix(set.database, "postgres") {
		p.databaseKind = "postgresql"
	}
	p.onClose(func() { _ = books.Close() })
	for _, product := range set.products {
		if err := books.AddProduct(ctx, product); err != nil {
			return err
		}
	}
	return nil
}

func (p *parts) openStock(set settings) error {
	url := set.redis
	p.redisKind = "redis"
	if url == "" {
		server := miniredis.NewMiniRedis()
		if err := server.Start(); err != nil {
			return err
		}
		p.onClose(server.Close)
		url, p.redisKind = "redis://"+server.Addr(), "embedded"
	}
	opts, err := redis.ParseURL(url)
	if err != nil {
		return fmt.Errorf("%w: SHOP_REDIS_URL: %w", errSettings, err)
	}
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(opts)
	p.onClose(func() { _ = client.Close() })
	p.shelf, err = stock.New(client, stock.Options{Hold: set.hold})
	return err
}

func (p *parts) openBroker(set settings) error {
	if set.rabbit != "" {
		broker, err := rabbit.New(rabbit.Options{URL: set.rabbit})
		if err != nil {
			return fmt.Errorf("%w: SHOP_RABBITMQ_URL: %w", errSettings, err)
		}
		p.onClose(broker.Close)
		p.publisher, p.source, p.brokerKind = broker, broker, "rabbitmq"
		return nil
	}
	brokers := set.kafka
	p.brokerKind = "kafka"
	if len(brokers) == 0 {
		embedded, err := kafka.StartEmbedded()
		if err != nil {
			return err
		}
		p.onClose(embedded.Close)
		brokers, p.brokerKind = embedded.Brokers(), "embedded"
	}
	broker, err := kafka.New(kafka.Options{Brokers: brokers, Session: set.session})
	if err != nil {
		return fmt.Errorf("%w: SHOP_KAFKA_BROKERS: %w", errSettings, err)
	}
	p.onClose(broker.Close)
	p.publisher, p.source = broker, broker
	return nil
}

func (p *parts) openGate(set settings) error {
	if set.gate == "" {
		return nil
	}
	client, err := gate.New(gate.Options{URL: set.gate, Prefix: set.prefix})
	if err != nil {
		return fmt.Errorf("%w: SHOP_GATE_URL: %w", errSettings, err)
	}
	p.gate = client
	return nil
}

// errCard is why a payment was declined.
var errCard = errors.New("the card has no money")

// paying stands for a payment provider that takes its time and declines some
// payments, the same ones each time it is asked.
func paying(takes time.Duration, percent int) order.Charge {
	return func(ctx context.Context, e order.Event) error {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(e.EventID)) // never fails
		if int(hash.Sum32()%100) < percent {
			return fmt.Errorf("%w: %w", order.ErrDeclined, errCard)
		}
		return nil
	}
}
