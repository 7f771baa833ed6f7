// Package rabbit sends and reads the shop's events through RabbitMQ: one durable
// queue, publisher confirms, and an acknowledgement once a message was handled.
package rabbit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/queuegate/queuegate/examples/shop/order"
)

// Queue is where the events are.
const Queue = "booking.completed"

// ahead is how many messages a consumer is handed before it has acknowledged any.
const ahead = 20

// Options say how to use a server. Fields without a default are required.
type Options struct {
	URL string // amqp://user:password@host:5672/
}

// Broker is a RabbitMQ server.
type Broker struct {
	opts Options

	mu      sync.Mutex // one publication at a time
	conn    *amqp.Connection
	channel *amqp.Channel
}

var (
	_ order.Publisher = (*Broker)(nil)
	_ order.Source    = (*Broker)(nil)
)

// New returns a broker. It does not connect.
func New(opts Options) (*Broker, error) {
	if _, err := amqp.ParseURI(opts.URL); err != nil {
		return nil, fmt.Errorf("rabbit: address: %w", err)
	}
	return &Broker{opts: opts}, nil
}

// Close ends the connection that publishes.
func (b *Broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hangUp()
}

// Publish sends events and waits until the server has them on disk. After a failure
// the next call connects anew.
func (b *Broker) Publish(ctx context.Context, events []order.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.publish(ctx, events); err != nil {
		b.hangUp()
		return fmt.Errorf("rabbit: publish: %w", err)
	}
	return nil
}

func (b *Broker) publish(ctx context.Context, events []order.Event) error {
	if b.channel == nil {
		var err error
		if b.conn, b.channel, err = b.connect(); err != nil {
			return err
		}
		if err := b.channel.Confirm(false); err != nil {
			return err
		}
	}
	var confirmations []*amqp.DeferredConfirmation
	for _, e := range events {
		value, err := e.Encode()
		if err != nil {
			return err
		}
		confirmation, err := b.channel.PublishWithDeferredConfirmWithContext(ctx, "", Queue, true, false, amqp.Publishing{
			ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: e.EventID, Body: value,
		})
		if err != nil {
			return err
		}
		confirmations = append(confirmations, confirmation)
	}
	for _, confirmation := range confirmations {
		taken, err := confirmation.WaitContext(ctx)
		if err == nil && !taken {
			err = errors.New("the server refused an event")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// connect opens a connection with a channel on which the queue exists.
func (b *Broker) connect() (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.Dial(b.opts.URL)
	if err != nil {
		return nil, nil, err
	}
	channel, err := conn.Channel()
	if err == nil {
		_, err = channel.QueueDeclare(Queue, true, false, false, false, nil)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return conn, channel, nil
}

// hangUp forgets a connection that is no good. The caller holds the lock.
func (b *Broker) hangUp() {
	if b.conn != nil {
		_ = b.conn.Close() // it may be gone already
	}
	b.conn, b.channel = nil, nil
}

// Consume reads on a connection of its own until the context ends. A message that
// cannot be handled ends it with that error and goes back to the queue.
func (b *Broker) Consume(ctx context.Context, handle func(context.Context, order.Delivery) error) error {
	conn, channel, err := b.connect()
	if err != nil {
		return fmt.Errorf("rabbit: consume: %w", err)
	}
	defer func() { _ = conn.Close() }() // what was not acknowledged goes back to the queue
	if err := channel.Qos(ahead, 0, false); err != nil {
		return fmt.Errorf("rabbit: consume: %w", err)
	}
	deliveries, err := channel.ConsumeWithContext(ctx, Queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("rabbit: consume: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, open := <-deliveries:
			if !open {
				return errors.New("rabbit: the connection has ended")
			}
			if err := handle(ctx, order.Delivery{Source: source(d), Value: d.Body}); err != nil {
				return err
			}
			if err := d.Ack(false); err != nil {
				return fmt.Errorf("rabbit: acknowledge: %w", err)
			}
		}
	}
}

// source tells one message from another; of those that others sent without a name
// the text does.
func source(d amqp.Delivery) string {
	if d.MessageId != "" {
		return Queue + "/" + d.MessageId
	}
	return fmt.Sprintf("%s/sha256:%x", Queue, sha256.Sum256(d.Body))
}
