// Package kafka sends and reads the shop's events through Kafka.
//
// Events are keyed by product, so that those of one product keep their order. Two
// or more consumers share the partitions as one group. A message counts as read
// when it was handled, so that each is handled at least once through crashes and
// rebalances; that nothing happens twice is for the handler to see to.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/queuegate/queuegate/examples/shop/order"
)

// Where the events are.
const (
	Topic      = "fcfs-orders"
	Partitions = 3
	Group      = "order-processor"
)

// Options say how to use a cluster. Fields without a default are required.
type Options struct {
	Brokers []string      // host:port of some
	Timeout time.Duration // until a broker has an event, and for one message to be handled; 10 s
	Session time.Duration // until the group takes a consumer for dead that says nothing; 10 s
}

// Broker is a Kafka cluster.
type Broker struct {
	opts     Options
	producer *kgo.Client
}

var (
	_ order.Publisher = (*Broker)(nil)
	_ order.Source    = (*Broker)(nil)
)

// New returns a broker. It does not connect.
func New(opts Options) (*Broker, error) {
	if len(opts.Brokers) == 0 {
		return nil, errors.New("kafka: no broker is named")
	}
	if opts.Timeout == 0 {
		opts.Timeout = 10 * time.Second
	}
	if opts.Session == 0 {
		opts.Session = 10 * time.Second
	}
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(opts.Brokers...),
		kgo.DefaultProduceTopic(Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordDeliveryTimeout(opts.Timeout),
		kgo.UnknownTopicRetries(-1),
	)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return &Broker{opts: opts, producer: producer}, nil
}

// Close ends the connections.
func (b *Broker) Close() { b.producer.Close() }

// Publish sends events and waits until all replicas have them.
func (b *Broker) Publish(ctx context.Context, events []order.Event) error {
	if err := b.createTopic(ctx); err != nil {
		return err
	}
	records := make([]*kgo.Record, 0, len(events))
	for _, e := range events {
		value, err := e.Encode()
		if err != nil {
			return fmt.Errorf("kafka: encode: %w", err)
		}
		records = append(records, &kgo.Record{Key: []byte(e.ProductID), Value: value})
	}
	if err := b.producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("kafka: publish: %w", err)
	}
	return nil
}

// createTopic makes the topic unless it is there: a cluster that makes topics by
// itself gives them another number of partitions.
func (b *Broker) createTopic(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = Topic, Partitions, -1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(ctx, b.producer)
	if err != nil {
		return fmt.Errorf("kafka: create topic: %w", err)
	}
	for _, t := range answer.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("kafka: create topic: %w", err)
		}
	}
	return nil
}

// Consume reads as one member of the group until the context ends. A message that
// cannot be handled ends it with that error; it has not been read then.
func (b *Broker) Consume(ctx context.Context, handle func(context.Context, order.Delivery) error) error {
	if err := b.createTopic(ctx); err != nil {
		return err
	}
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(b.opts.Brokers...),
		kgo.ConsumerGroup(Group),
		kgo.ConsumeTopics(Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(b.opts.Session),
		kgo.HeartbeatInterval(b.opts.Session/4),
		kgo.RebalanceTimeout(b.opts.Session),
		kgo.DisableAutoCommit(),
		// No partition is taken away in the middle of a batch.
		kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		return fmt.Errorf("kafka: consume: %w", err)
	}
	defer consumer.CloseAllowingRebalance()
	for {
		// A batch that is small enough to be done before a rebalance gives up waiting.
		fetches := consumer.PollRecords(ctx, 20)
		if ctx.Err() != nil {
			return nil
		}
		if err := b.handle(ctx, consumer, fetches, handle); err != nil {
			return err
		}
		consumer.AllowRebalance()
	}
}

// handle deals with one batch and commits what was handled, the messages before one
// that failed included.
func (b *Broker) handle(ctx context.Context, consumer *kgo.Client, fetches kgo.Fetches, handle func(context.Context, order.Delivery) error) error {
	if err := fetches.Err(); err != nil {
		return fmt.Errorf("kafka: read: %w", err)
	}
	var handled []*kgo.Record
	var failed error
	for record := range fetches.RecordsAll() {
		ctx, cancel := context.WithTimeout(ctx, b.opts.Timeout)
		failed = handle(ctx, order.Delivery{
			Source: fmt.Sprintf("%s/%d@%d", record.Topic, record.Partition, record.Offset), Value: record.Value,
		})
		cancel()
		if failed != nil {
			break
		}
		handled = append(handled, record)
	}
	if len(handled) > 0 {
		if err := consumer.CommitRecords(ctx, handled...); err != nil {
			return errors.Join(failed, fmt.Errorf("kafka: commit: %w", err))
		}
	}
	return failed
}
