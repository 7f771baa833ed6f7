package queue

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Subscriber is the part of a Redis client that hears what is published.
type Subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Hints calls tell with the visitors whose stay has taken a turn (admitted, or
// ended), as Redis publishes it, until ctx ends. It keeps a connection of its own
// and opens it again when it breaks; what was published meanwhile is not heard of.
// Nothing may depend on a hint: who was named looks, and who was not looks a little
// later. Without Options.Hints nobody is named.
func (l *Line) Hints(ctx context.Context, tell func(visitors []string)) error {
	if l.opts.Hints == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	heard := l.opts.Hints.Subscribe(ctx, l.keys[0])
	defer func() { _ = heard.Close() }()
	messages := heard.Channel()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m, open := <-messages:
			if !open {
				return unavailable(redis.ErrClosed)
			}
			tell(strings.Fields(m.Payload))
		}
	}
}
