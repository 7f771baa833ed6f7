package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Where the crowd goes.
const (
	crowdRoom     = "checkout"
	crowdCheckout = "/checkout"
	crowdOrders   = "/orders"
	crowdPrefix   = "/_queue/" + crowdRoom
)

const (
	// crowdMax is what the embedded Redis is meant for, and about what one machine simulates without slowing the
	// gate down.
	crowdMax = 5000
	// crowdConnections bounds the sockets that the whole crowd has open at once.
	crowdConnections = 128
	// crowdReport is how often the crowd says how it is doing.
	crowdReport = 15 * time.Second
)

// errCrowdOptions is returned when the crowd cannot be made as asked; the text after it says why.
var errCrowdOptions = errors.New("crowd")

// crowdOptions say who comes and where to. Fields without a default are required.
type crowdOptions struct {
	BaseURL  string // the gate, e.g. http://127.0.0.1:8080
	Visitors int    // people at once, 1 to 5000
	Seed     uint64 // the same seed makes the same people; what they meet depends on the gate

	Logf      func(format string, args ...any) // how the crowd is doing; nil says nothing
	Transport http.RoundTripper                // nil: one of its own with a bounded number of connections
}

func (o crowdOptions) withDefaults() crowdOptions {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return o
}

func (o crowdOptions) validate() error {
	base, err := url.Parse(o.BaseURL)
	switch {
	case err != nil:
		return fmt.Errorf("%w: address of the gate: %w", errCrowdOptions, err)
	case (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || (base.Path != "" && base.Path != "/"):
		return fmt.Errorf("%w: address of the gate: want http://host:port, got %q", errCrowdOptions, o.BaseURL)
	case o.Visitors < 1 || o.Visitors > crowdMax:
		return fmt.Errorf("%w: number of visitors must be from 1 to %d, got %d", errCrowdOptions, crowdMax, o.Visitors)
	}
	return nil
}

// crowdCounts are the numbers that the crowd reports. Waiting and inside rise and fall, the others only rise.
type crowdCounts struct {
	waiting, inside                           atomic.Int64
	arrived, ordered, refused, gaveUp, failed atomic.Int64
}

// runCrowd sends simulated visitors to the gate until the context ends, and returns nil then, after the last of
// them has gone. Each behaves over HTTP as a person with a browser does: opens the checkout, waits in line and asks
// as often as told, thinks, orders, leaves; then somebody else comes. It returns an error matching errCrowdOptions
// for options it cannot work with, and never because of what the gate answers.
func runCrowd(ctx context.Context, opts crowdOptions) error {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return err
	}
	transport := opts.Transport
	if transport == nil {
		own := crowdTransport()
		defer own.CloseIdleConnections()
		transport = own
	}

	var counts crowdCounts
	var everybody sync.WaitGroup
	// Not all in the same instant, in no order, and soon enough for whoever watches.
	spread := min(max(2*time.Second, time.Duration(opts.Visitors)*20*time.Millisecond), 10*time.Second)
	for n := range opts.Visitors {
		everybody.Go(func() {
			rng := rand.New(rand.NewPCG(opts.Seed, uint64(n))) //nolint:gosec // habits, not secrets
			if !crowdSleep(ctx, crowdBetween(rng, 0, spread)) {
				return
			}
			for ctx.Err() == nil {
				p := newCrowdPerson(opts.BaseURL, transport, rng, &counts)
				p.visit(ctx)
				crowdSleep(ctx, crowdBetween(rng, time.Second, 5*time.Second))
			}
		})
	}
	everybody.Go(func() {
		for crowdSleep(ctx, crowdReport) {
			opts.Logf("crowd: %d waiting, %d inside; so far %d came, %d ordered, %d were refused an order, %d gave up, %d requests failed",
				counts.waiting.Load(), counts.inside.Load(), counts.arrived.Load(), counts.ordered.Load(),
				counts.refused.Load(), counts.gaveUp.Load(), counts.failed.Load())
		}
	})
	everybody.Wait()
	return nil
}

// crowdTransport shares a bounded number of connections among the whole crowd; whoever finds none free waits.
func crowdTransport() *http.Transport {
	return &http.Transport{
		MaxConnsPerHost:       crowdConnections,
		MaxIdleConns:          crowdConnections,
		MaxIdleConnsPerHost:   crowdConnections,
		IdleConnTimeout:       30 * time.Second,
		ResponseHeaderTimeout: time.Minute,
	}
}

// crowdSleep waits and reports whether the context is still alive.
func crowdSleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// crowdBetween draws a duration from low up to high.
func crowdBetween(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}
