package queue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Advance moves the room's time forward, on any server.
func (l *Line) Advance(ctx context.Context, rdb redis.Cmdable, d time.Duration) error {
	return rdb.HIncrBy(ctx, l.keys[0], "now", d.Milliseconds()).Err()
}

// Keys are the keys of this line's room.
func (l *Line) Keys() []string { return l.keys }

// PollFor and SignFor are the intervals as the gate computes them.
func (l *Line) PollFor(ahead int64) time.Duration { return l.pollFor(ahead) }
func (l *Line) SignFor(ahead int64, flow float64) time.Duration {
	return l.signFor(ahead, flow)
}
