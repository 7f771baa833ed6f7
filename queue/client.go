package queue

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ClientOptions say how to reach Redis.
type ClientOptions struct {
	URL      string        // redis://, rediss:// or unix://
	Username string        // over the URL's when set
	Password string        // over the URL's when set
	TLS      *tls.Config   // over the URL's when set
	Timeout  time.Duration // of one command; connecting, reading, writing and waiting for a connection each
	// Dial, when set, opens the connections (the embedded Redis has no address).
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// NewClient returns a client that suits a gate: no command is tried twice behind
// its back (the line's scripts are repeated by those who know what for), a
// context's deadline is obeyed, nothing waits longer than Timeout, and nothing
// is sent that old or small servers do not know.
func NewClient(o ClientOptions) (*redis.Client, error) {
	opts := &redis.Options{Addr: "embedded"}
	if o.URL != "" {
		parsed, err := redis.ParseURL(o.URL)
		if err != nil {
			return nil, fmt.Errorf("queue: redis url: %w", err)
		}
		opts = parsed
	}
	if o.Username != "" {
		opts.Username = o.Username
	}
	if o.Password != "" {
		opts.Password = o.Password
	}
	if o.TLS != nil {
		opts.TLSConfig = o.TLS
	}
	if o.Dial != nil {
		opts.Dialer = o.Dial
	}
	if o.Timeout == 0 {
		o.Timeout = 100 * time.Millisecond
	}
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = o.Timeout, tickTimeout, tickTimeout, o.Timeout
	opts.DialerRetries = 1
	opts.MaxRetries = -1
	opts.ContextTimeoutEnabled = true
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(opts), nil
}
