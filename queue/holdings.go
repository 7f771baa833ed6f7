package queue

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// sendHoldings runs claim or renew for many passes.
func (l *Line) sendHoldings(ctx context.Context, script *redis.Script, asked []Holding) ([]Standing, error) {
	args := make([]any, 0, 3*len(asked))
	highest := int64(0)
	for _, h := range asked {
		args = append(args, h.Visitor, h.Admission, h.Place)
		highest = max(highest, h.Place)
	}
	r, err := l.run(ctx, script, highest, args...)
	if err != nil {
		return nil, err
	}
	return r.standings(len(asked))
}

func (l *Line) sendEndings(ctx context.Context, asked []ending) ([]Standing, error) {
	args := make([]any, 0, 4*len(asked))
	highest := int64(0)
	for _, e := range asked {
		args = append(args, e.Visitor, e.Admission, e.Place, string(e.why))
		highest = max(highest, e.Place)
	}
	r, err := l.run(ctx, l.scripts.finish, highest, args...)
	if err != nil {
		return nil, err
	}
	return r.standings(len(asked))
}
