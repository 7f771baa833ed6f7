package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
	"github.com/queuegate/queuegate/config"
	"github.com/queuegate/queuegate/proxy"
)

// demoOptions are what can be set about the demonstration.
type demoOptions struct {
	listen, admin string
	crowd         int
	slots, rate   int
}

// demoCommand runs everything in one process, with nothing to install.
func demoCommand(p process) *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Short: "Run the gate in front of a small shop, with Redis inside, and print what to open", Args: cobra.NoArgs,
	}
	var o demoOptions
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8080", "the `address` of the shop behind the gate")
	flags.StringVar(&o.admin, "admin", "127.0.0.1:9090", "the `address` of the admin listener")
	flags.IntVar(&o.crowd, "crowd", 0, "simulated visitors who want to buy as well, up to 2000")
	flags.IntVar(&o.slots, "slots", 4, "how many people may be in the checkout at once")
	flags.IntVar(&o.rate, "rate", 120, "how many people are let in a minute at most")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.crowd < 0 || o.crowd > 2000:
			return usageError{fmt.Errorf("queuegate demo: --crowd %d: want 0 to 2000", o.crowd)}
		case o.slots < 1 || o.rate < 1:
			return usageError{fmt.Errorf("queuegate demo: --slots and --rate must be at least 1")}
		}
		return demo(cmd.Context(), o, p)
	}
	return cmd
}

// demo runs until stopped ends; an interrupt is how it is meant to end.
func demo(stopped context.Context, o demoOptions, p process) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	shop := &http.Server{Handler: newShop(shopOptions{}), ReadHeaderTimeout: 5 * time.Second}
	shopURL := "http://" + listener.Addr().String()
	log, err := newLog(p.stderr, "warn", "text")
	if err != nil {
		return err
	}

	group, ctx := errgroup.WithContext(stopped)
	group.Go(func() error {
		if err := shop.Serve(listener); err != http.ErrServerClosed {
			return err
		}
		return nil
	})
	group.Go(func() error {
		// Whatever ends the gate ends the shop, and the other way round.
		defer func() { _ = shop.Close() }()
		return serve(ctx, demoConfig(o, shopURL), log, serving{listening: func(s *proxy.Server) {
			welcome(p.stdout, s.URL(), s.AdminURL(), shopURL, o)
			if o.crowd > 0 {
				group.Go(func() error { return demoCrowd(ctx, s.URL(), o.crowd, log) })
			}
		}})
	})
	err = group.Wait()
	if stopped.Err() != nil && err == nil {
		fmt.Fprintln(p.stdout, "\nEverything has ended.")
	}
	return err
}

// demoCrowd sends visitors until the context ends, and says now and then how they do.
func demoCrowd(ctx context.Context, url string, visitors int, log *slog.Logger) error {
	var counts crowd.Counts
	var watch errgroup.Group
	watch.Go(func() error {
		every := time.NewTicker(15 * time.Second)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-every.C:
				log.Info("crowd", "waiting", counts.Waiting.Load(), "inside", counts.Inside.Load(), "came", counts.Arrived.Load(),
					"ordered", counts.Ordered.Load(), "refused", counts.Refused.Load(), "gave_up", counts.GaveUp.Load(), "failed", counts.Failed.Load())
			}
		}
	})
	_, err := crowd.Run(ctx, crowd.Options{
		Gates: []string{url}, Visitors: visitors, Seed: uint64(time.Now().UnixNano()), Order: "/orders", Again: true, Counts: &counts,
		People: crowd.Shares{crowd.Vanisher: 10, crowd.Reloader: 20}, Loopback: true, Agent: "queuegate-demo-crowd",
		// Not all in the same instant, and soon enough for whoever watches.
		Arrive: min(max(2*time.Second, time.Duration(visitors)*20*time.Millisecond), 10*time.Second),
	})
	if err == nil {
		err = watch.Wait()
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// demoConfig is the configuration of the demonstration: short times, so that
// something happens while one looks.
func demoConfig(o demoOptions, shopURL string) *config.Config {
	c := config.Default()
	c.Listen, c.Admin.Listen = o.listen, o.admin
	c.Upstream.URL = shopURL
	c.Shutdown.DrainDelay, c.Shutdown.Grace = 0, 3*time.Second
	// The embedded Redis shares two cores with a crowd and a shop.
	c.Redis.Timeout = time.Second
	room := config.DefaultRoom()
	room.Name = "checkout"
	room.Protect = []config.Rule{{Paths: []string{"/checkout", "/orders"}}}
	room.TotalActiveUsers, room.NewUsersPerMinute = o.slots, o.rate
	room.SessionDuration, room.ClaimWindow = 2*time.Minute, 30*time.Second
	room.Page.Title = "the Lantern Shop"
	c.Rooms = []config.Room{room}
	return &c
}

func welcome(w io.Writer, url, admin, shop string, o demoOptions) {
	fmt.Fprintf(w, `queuegate %s: a small shop behind the gate, with Redis inside this process.

  open      %[2]s/            the shop; its checkout is behind the gate
            %[2]s/checkout    %[5]d people at once, %[6]d new ones a minute at most
  admin     %[3]s/readyz      (probes; /preview shows every page)
            queuegate rooms show checkout --admin %[3]s    (the operator: pause, admit, change the limits, ...)
  the shop  %[4]s            itself, to compare

  try       curl -si -H 'Accept: text/html' %[2]s/checkout
            curl -si -H 'Accept: application/json' -X POST %[2]s/orders

`, version, url, admin, shop, o.slots, o.rate)
	if o.crowd > 0 {
		fmt.Fprintf(w, "  %d simulated visitors are on their way: open the checkout and stand in line with them.\n", o.crowd)
	} else {
		fmt.Fprintf(w, "  Add a crowd to stand in line with:  make run ARGS='--crowd 50'\n")
	}
	fmt.Fprintf(w, "  Ctrl-C ends everything.\n\n")
}
