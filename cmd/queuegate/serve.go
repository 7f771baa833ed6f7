package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/queuegate/queuegate/config"
	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/queue"
)

func serveCommand(p process) *cobra.Command {
	cmd := &cobra.Command{Use: "serve", Short: "Run the gate", Args: cobra.NoArgs}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, warnings, err := load(*path, p)
		if err != nil {
			return err
		}
		log, err := newLog(p.stderr, c.Log.Level, c.Log.Format)
		if err != nil {
			return usageError{err}
		}
		for _, w := range warnings {
			log.WarnContext(cmd.Context(), "configuration", "problem", w.String())
		}
		return serve(cmd.Context(), c, log, nil)
	}
	return cmd
}

// serve runs a gate until ctx ends and everybody in flight is served. listening,
// when not nil, is called once both listeners are bound.
func serve(ctx context.Context, c *config.Config, log *slog.Logger, listening func(*proxy.Server)) error {
	redis.SetLogger(redisLog{log}) // the client has one for the whole process
	parts, err := build(c, log)
	if err != nil {
		return usageError{err}
	}
	defer parts.close()

	var server *proxy.Server
	operators, err := adminOptions(c, parts, log)
	if err != nil {
		return usageError{err}
	}
	operators.Ready = func() admin.Readiness { return readiness(c, parts, server.Draining()) }
	server, err = proxy.NewServer(proxy.ServerOptions{
		Listen: c.Listen, AdminListen: c.Admin.Listen, Public: parts.gate, Admin: admin.New(operators),
		Certificate: parts.cert, H2C: c.H2C,
		Stopping: parts.gate.CloseStreams, DrainDelay: c.Shutdown.DrainDelay, Grace: c.Shutdown.Grace, Log: log,
	})
	if err != nil {
		return err
	}
	if err := server.Listen(); err != nil {
		return err
	}
	log.InfoContext(ctx, "listening", "url", server.URL(), "admin", server.AdminURL(), "version", version)
	if listening != nil {
		listening(server)
	}

	// The lines go on until the last request is served, not only until the signal.
	lines, stopLines := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	for _, l := range parts.lines {
		group.Go(func() error { return untilCanceled(l.line.Run(lines)) })
	}
	if !c.EmbeddedRedis() && len(parts.lines) > 0 {
		inspector := queue.Inspector{Redis: parts.redis, Sentinel: c.Redis.MasterName != "", Log: log}
		group.Go(func() error { return untilCanceled(inspector.Run(lines)) })
	}
	err = server.Serve(ctx)
	stopLines()
	err = errors.Join(err, group.Wait())
	if err == nil {
		log.InfoContext(ctx, "stopped")
	}
	return err
}

// untilCanceled takes the end that was asked for as no error.
func untilCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// readiness is what /readyz says.
func readiness(c *config.Config, parts *built, draining bool) admin.Readiness {
	r := admin.Readiness{Draining: draining, RequireRedis: c.Readiness.RequireRedis}
	for _, l := range parts.lines {
		health := admin.RoomHealth{Name: l.room, RedisUp: l.line.Up()}
		if !health.RedisUp {
			fault := l.line.Problem()
			health.Problem, health.Lasting = fault.Name, fault.Lasting
		}
		r.Rooms = append(r.Rooms, health)
	}
	return r
}
