package kafka

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Embedded is a Kafka in this process, for a look: nothing it has outlives it.
type Embedded struct {
	cluster *kfake.Cluster
	brokers []string
}

// StartEmbedded starts one broker on a free port of this machine.
func StartEmbedded() (*Embedded, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(Partitions, Topic),
		kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("kafka: embedded: %w", err)
	}
	return &Embedded{cluster: cluster, brokers: cluster.ListenAddrs()}, nil
}

// Brokers are the addresses for Options.Brokers.
func (e *Embedded) Brokers() []string { return e.brokers }

// Close ends it.
func (e *Embedded) Close() { e.cluster.Close() }
