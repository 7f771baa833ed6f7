package queue

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Subscriber is the part of a Redis client that hears what is published.
type Subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// everybody is what Redis publishes in place of a visitor when the room's values have
// changed.
const everybody = "*"

// Hints calls tell with the visitors whose stay has taken a turn (admitted, or
// ended), as Redis publishes it, until ctx ends; with none when this gate has heard
// of changed values of the room, which concern everybody. Run, told of a change, asks
// for it at once. Hints keeps a connection of its own
// and opens it again when it breaks; what was published meanwhile is not heard of.
// Nothing may depend on a hint: who was named looks, and who was not looks a little
// later. Without Options.Hints nobody is
// named, and changes are heard of a little later.
func (l *Line) Hints(ctx context.Context, tell func(visitors []string)) error {
	if l.opts().Hints == nil {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-l.changed:
				tell(nil)
			}
		}
	}
	heard := l.opts().Hints.Subscribe(ctx, l.keys[0])
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
			named := strings.Fields(m.Payload)
			visitors := slices.DeleteFunc(named, func(v string) bool { return v == everybody })
			if len(visitors) < len(named) {
				ring(l.hurry)
			}
			if len(visitors) > 0 {
				tell(visitors)
			}
		case <-l.changed:
			tell(nil)
		}
	}
}

// ring sends a signal that need not be sent twice.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
