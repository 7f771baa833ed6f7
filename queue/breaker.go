package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// probeEvery is how long after a question that tried in vain the next one may try
// while Redis is silent. Together with the ticks, which always try, it bounds how
// late a gate notices that Redis is back.
const probeEvery = 250 * time.Millisecond

// errSilent is why a question was not sent.
var errSilent = errors.New("no word from it for a while, the next try is due in a moment")

// breaker answers questions at once while Redis is silent: refused, frozen, slow
// or out of reach. Without it every request of an outage would wait for the
// timeout. An error that Redis itself tells is a word of it, and costs nothing.
type breaker struct {
	patience time.Duration // how long it may be silent
	mu       sync.Mutex
	since    time.Time // of the first failure without a word after it, zero while there is none
	probe    time.Time // when the next question may try
}

// allow reports whether a question may be sent.
func (b *breaker) allow() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	switch {
	case b.since.IsZero() || now.Sub(b.since) < b.patience:
		return true
	case now.Before(b.probe):
		return false
	default:
		b.probe = now.Add(b.patience + probeEvery)
		return true
	}
}

// heard notes how a call ended.
func (b *breaker) heard(err error) {
	var told redis.Error
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled): // the gate is stopping
	case err == nil || errors.As(err, &told):
		b.since = time.Time{}
	case b.since.IsZero():
		b.since = time.Now()
	}
}
