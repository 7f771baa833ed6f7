package main

import (
	"context"
	"fmt"
	"log/slog"
)

// redisLog takes what the Redis client prints by itself. The line reports each
// outage once when it begins and once when it ends; the client would add a line
// for every connection it cannot open.
type redisLog struct{ log *slog.Logger }

// Printf is the client's logging interface.
func (r redisLog) Printf(ctx context.Context, format string, args ...any) {
	r.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}
