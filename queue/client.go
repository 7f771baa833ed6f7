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

// ClientOptions say how to reach Redis: one server by URL, a Cluster by Addrs, or
// the master that Sentinels name by Addrs and MasterName.
type ClientOptions struct {
	URL   string   // redis://, rediss:// or unix://; instead of Addrs
	Addrs []string // host:port of some nodes of a Cluster, or of Sentinels when MasterName is set

	MasterName       string // what the Sentinels call the master
	SentinelUsername string
	SentinelPassword string

	Username string      // over the URL's when set
	Password string      // over the URL's when set
	TLS      *tls.Config // over the URL's when set; for Sentinels as well

	Lines   int           // how many lines share the client; 1 when 0
	Timeout time.Duration // of one request's work; 100 ms when 0
	// Dial, when set, opens the connections (the embedded Redis has no address).
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

const (
	// lineConnections is how many calls of one line can be in flight: two for each
	// of its batches, a tick, and what an operator asks.
	lineConnections = 16
	// leastPatience is what connecting and one answer may take apart from any
	// request. Requests end at their own deadline, but a connection that was begun
	// for one of them is finished for the next: a TLS handshake at the height of a
	// rush takes longer than a request may.
	leastPatience = time.Second
	// sentinelSteps is how many answers opening a connection may wait for with
	// Sentinels: the Sentinel known so far on an open and on a new connection, all
	// the others, the master.
	sentinelSteps = 5
	// topologyAge is how old a client's picture of a Cluster may be. Calls to a
	// node that died tell it nothing, and by itself it would look once a minute.
	topologyAge = time.Second
	// redirects is how often one call may be sent on in a Cluster whose slots move.
	redirects = 3
)

// NewClient returns a client that suits a gate: a context's deadline is obeyed,
// nothing waits longer than Timeout for a connection, nothing is sent that old or
// small servers do not know, and nothing is asked of replicas.
//
// With one server or Sentinels no command is tried twice behind the caller's back.
// In a Cluster it may be, within the same deadline, because redirects and broken
// connections are one and the same to the client; the line's scripts can be
// repeated. With Sentinels connections to a master that was replaced are closed,
// frozen or not.
func NewClient(o ClientOptions) (redis.UniversalClient, error) {
	opts, err := o.universal()
	switch {
	case err != nil:
		return nil, err
	case o.MasterName != "":
		failover := opts.Failover()
		failover.DialTimeout *= sentinelSteps
		return redis.NewFailoverClient(failover), nil
	case len(o.Addrs) > 0:
		cluster := opts.Cluster()
		cluster.ClusterStateReloadInterval = topologyAge
		cluster.DisableRoutingPolicies = true // every call has keys: no need for COMMAND
		return redis.NewClusterClient(cluster), nil
	default:
		return redis.NewClient(opts.Simple()), nil
	}
}

// universal is what the clients of all kinds of Redis have in common.
func (o ClientOptions) universal() (*redis.UniversalOptions, error) {
	if o.Timeout == 0 {
		o.Timeout = 100 * time.Millisecond
	}
	patience := max(leastPatience, o.Timeout)
	opts := &redis.UniversalOptions{
		Addrs: o.Addrs, MasterName: o.MasterName, Username: o.Username, Password: o.Password, TLSConfig: o.TLS,
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword, Dialer: o.Dial,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, ContextTimeoutEnabled: true,
		PoolTimeout: o.Timeout, PoolSize: lineConnections * max(1, o.Lines),
		MaxRetries: -1, DialerRetries: 1, MaxRedirects: redirects, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if o.URL == "" {
		return opts, nil
	}
	parsed, err := redis.ParseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("queue: redis url: %w", err)
	}
	opts.Addrs, opts.DB = []string{parsed.Addr}, parsed.DB
	if opts.Username == "" {
		opts.Username = parsed.Username
	}
	if opts.Password == "" {
		opts.Password = parsed.Password
	}
	if opts.TLSConfig == nil {
		opts.TLSConfig = parsed.TLSConfig
	}
	return opts, nil
}
