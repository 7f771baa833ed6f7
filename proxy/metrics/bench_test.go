package metrics_test

import (
	"context"
	"testing"
	"time"

	"github.com/queuegate/queuegate/proxy"
)

// passed is what most requests of admitted visitors are.
func passed() proxy.Observation {
	return proxy.Observation{
		Decision: proxy.Decision{Room: "sale", Outcome: proxy.Proxied, Reason: proxy.ReasonPass},
		Context:  context.Background(), Status: 200, Took: 3 * time.Millisecond,
		Shop: proxy.ShopObservation{Asked: true, Status: 200, Took: 2 * time.Millisecond},
	}
}

// BenchmarkObserve is what counting adds to each request.
func BenchmarkObserve(b *testing.B) {
	m := newMetrics(b)
	seen := passed()
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(seen)
	}
}
