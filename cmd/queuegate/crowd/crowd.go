package crowd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrOptions is returned when the crowd cannot be made as asked; the text after it
// says why.
var ErrOptions = errors.New("crowd")

// Bounds of what one process makes.
const (
	MostVisitors    = 100_000
	MostConnections = 4096
)

// Options say who comes and where to. Fields without a default are required.
type Options struct {
	Gates    []string // addresses, e.g. http://127.0.0.1:8080; each request goes to any of them, as behind a balancer
	Visitors int      // people; 1 to MostVisitors
	Seed     uint64   // the same seed makes the same people; what they meet depends on the gate

	Room   string // whose line they stand in; "checkout"
	Prefix string // the gates' reserved path; "/_queue"
	Path   string // a protected path that answers a GET; "/checkout"
	Order  string // where an order is posted to; "" orders nothing
	Form   string // what an order says; "quantity=1"

	People    Shares        // nil: DefaultShares
	Curve     Curve         // how they arrive; Steady
	Arrive    time.Duration // within what time; 10 s
	Again     bool          // somebody else comes when one has gone
	StayLeast time.Duration // how long they are inside; 5 to 30 s when both are 0
	StayMost  time.Duration
	Looks     int  // requests of somebody inside before the order
	Record    bool // keep what everybody heard
	Farewell  bool // give passes and places back when the run ends

	Agent       string            // User-Agent; "queuegate-crowd"
	Connections int               // requests under way at once, 1 to MostConnections; 128
	Loopback    bool              // refuse to connect to anything but this host
	Transport   http.RoundTripper // nil: one of its own
	Counts      *Counts           // nil: nobody looks
	Meters      *Meters           // nil: nobody looks
}

func (o Options) withDefaults() Options {
	for value, usual := range map[*string]string{
		&o.Room: "checkout", &o.Prefix: "/_queue", &o.Path: "/checkout", &o.Form: "quantity=1", &o.Agent: "queuegate-crowd",
	} {
		if *value == "" {
			*value = usual
		}
	}
	if o.People == nil {
		o.People = DefaultShares()
	}
	if o.Curve == "" {
		o.Curve = Steady
	}
	if o.Arrive == 0 {
		o.Arrive = 10 * time.Second
	}
	if o.StayLeast == 0 && o.StayMost == 0 {
		o.StayLeast, o.StayMost = 5*time.Second, 30*time.Second
	}
	if o.Connections == 0 {
		o.Connections = 128
	}
	if o.Counts == nil {
		o.Counts = &Counts{}
	}
	if o.Meters == nil {
		o.Meters = &Meters{}
	}
	o.Gates = slices.Clone(o.Gates)
	for i, gate := range o.Gates {
		o.Gates[i] = strings.TrimSuffix(gate, "/")
	}
	return o
}

func (o Options) validate() error {
	if len(o.Gates) == 0 {
		return fmt.Errorf("%w: address of the gate: want http://host:port, got none", ErrOptions)
	}
	for _, gate := range o.Gates {
		base, err := url.Parse(gate)
		switch {
		case err != nil:
			return fmt.Errorf("%w: address of the gate: %w", ErrOptions, err)
		case (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.Path != "" || base.RawQuery != "" || base.User != nil:
			return fmt.Errorf("%w: address of the gate: want http://host:port, got %q", ErrOptions, gate)
		}
	}
	if strings.Trim(o.Room, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("%w: %q is not the name of a room", ErrOptions, o.Room)
	}
	for _, path := range []string{o.Prefix, o.Path, o.Order} {
		if path != "" && !strings.HasPrefix(path, "/") {
			return fmt.Errorf("%w: a path must begin with a slash, got %q", ErrOptions, path)
		}
	}
	switch {
	case o.Visitors < 1 || o.Visitors > MostVisitors:
		return fmt.Errorf("%w: number of visitors must be from 1 to %d, got %d", ErrOptions, MostVisitors, o.Visitors)
	case o.Connections < 1 || o.Connections > MostConnections:
		return fmt.Errorf("%w: number of connections must be from 1 to %d, got %d", ErrOptions, MostConnections, o.Connections)
	case !slices.Contains(Curves(), o.Curve):
		return fmt.Errorf("%w: people arrive by flash, ramp or steady, got %q", ErrOptions, o.Curve)
	case o.Arrive < 0 || o.StayLeast < 0 || o.StayMost < o.StayLeast || o.Looks < 0:
		return fmt.Errorf("%w: a time or a number is below zero", ErrOptions)
	}
	return o.People.Validate()
}

// reserved is a path below the room's reserved one.
func (o Options) reserved(below string) string { return o.Prefix + "/" + o.Room + below }

// Run sends simulated visitors to the gates until the context ends or, unless others
// come for those who have gone, until all have. It returns after the last of them has
// gone, with what each did and heard where that was to be recorded. The error matches
// ErrOptions, for options it cannot work with, and is never about what the gates
// answer.
func Run(ctx context.Context, opts Options) ([]*History, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if opts.Transport == nil {
		own := opts.transport()
		defer own.CloseIdleConnections()
		opts.Transport = own
	}
	w := newWorld(opts)
	var everybody sync.WaitGroup
	var mu sync.Mutex
	var histories []*History
	for n := range opts.Visitors {
		everybody.Go(func() {
			rng := rand.New(rand.NewPCG(opts.Seed, uint64(n))) //nolint:gosec // habits, not secrets
			if !w.sleep(ctx, opts.Curve.arrival(rng, opts.Arrive)) {
				return
			}
			for again := true; again && ctx.Err() == nil; again = opts.Again {
				p := newPerson(w, n+1, rng)
				if opts.Record {
					mu.Lock()
					histories = append(histories, &p.History)
					mu.Unlock()
				}
				p.visit(ctx)
				if opts.Again {
					w.sleep(ctx, between(rng, time.Second, 5*time.Second))
				}
			}
		})
	}
	everybody.Wait()
	return histories, nil
}

// transport shares a bounded number of connections among the whole crowd.
func (o Options) transport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if o.Loopback {
		dialer.ControlContext = onlyLoopback
	}
	return &http.Transport{
		DialContext:           dialer.DialContext,
		MaxIdleConns:          o.Connections,
		MaxIdleConnsPerHost:   o.Connections,
		IdleConnTimeout:       30 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		DisableCompression:    true,
	}
}
