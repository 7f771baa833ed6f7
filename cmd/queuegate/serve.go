package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/queuegate/queuegate/config"
	"github.com/queuegate/queuegate/proxy"
	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/queue"
)

func serveCommand(p process) *cobra.Command {
	cmd := &cobra.Command{Use: "serve", Short: "Run the gate; SIGHUP, or a change of its files, has it read them again", Args: cobra.NoArgs}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		files := source{path: *path, environ: p.environ}
		if p.hangups != nil {
			files.hangups = p.hangups() // from now on none ends the process
		}
		files.seen = files.print()
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
		return serve(cmd.Context(), c, log, serving{files: &files})
	}
	return cmd
}

// serving is what can be asked of serve.
type serving struct {
	// files are what the configuration was read from, and is read again from when
	// they change; nil: it stays.
	files *source
	// listening, when not nil, is called once both listeners are bound.
	listening func(*proxy.Server)
}

// serve runs a gate until ctx ends and everybody in flight is served.
func serve(ctx context.Context, c *config.Config, log *slog.Logger, o serving) error {
	redis.SetLogger(redisLog{log}) // the client has one for the whole process
	first, err := build(c, log)
	if err != nil {
		return usageError{err}
	}
	defer first.close()
	run := &running{lasting: first.lasting, log: log, now: first, served: make(chan struct{})}
	operators, err := run.operators(first)
	if err != nil {
		return usageError{err}
	}
	run.server, err = proxy.NewServer(proxy.ServerOptions{
		Listen: c.Listen, AdminListen: c.Admin.Listen, Public: first.public, Admin: operators,
		Certificate: first.cert, H2C: c.H2C,
		Stopping: run.stopping, DrainDelay: c.Shutdown.DrainDelay, Grace: c.Shutdown.Grace, Log: log,
	})
	if err != nil {
		return err
	}
	if err := run.server.Listen(); err != nil {
		return err
	}
	log.InfoContext(ctx, "listening", "url", run.server.URL(), "admin", run.server.AdminURL(), "version", version)
	if o.listening != nil {
		o.listening(run.server)
	}

	first.live.take(first.lines)
	// What goes on beside the requests ends after the last of them, not at the signal.
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group errgroup.Group
	group.Go(func() error { leaveGarbage(beside, liveHeap); return nil })
	if !c.EmbeddedRedis() && len(first.lines) > 0 {
		inspector := queue.Inspector{Redis: first.redis, Sentinel: c.Redis.MasterName != "", Log: log}
		group.Go(func() error { return untilCanceled(inspector.Run(beside)) })
	}
	if o.files != nil {
		group.Go(func() error { run.follow(ctx, *o.files); return nil })
	}
	err = run.server.Serve(ctx)
	stop()
	close(run.served)
	run.retiring.Wait()
	run.now.gate.Close()
	first.live.end()
	err = errors.Join(err, group.Wait())
	if err == nil {
		log.InfoContext(ctx, "stopped")
	}
	return err
}

// operators is the handler of the admin listener for one configuration.
func (r *running) operators(b *built) (http.Handler, error) {
	o, err := adminOptions(b.config, b, r.log)
	if err != nil {
		return nil, err
	}
	o.Ready = func() admin.Readiness { return readiness(b, r.server.Draining()) }
	return admin.New(o), nil
}

// untilCanceled takes the end that was asked for as no error.
func untilCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// readiness is what /readyz says.
func readiness(b *built, draining bool) admin.Readiness {
	r := admin.Readiness{Draining: draining, RequireRedis: b.config.Readiness.RequireRedis}
	for _, l := range b.lines {
		health := admin.RoomHealth{Name: l.room, RedisUp: l.line.Up()}
		if !health.RedisUp {
			fault := l.line.Problem()
			health.Problem, health.Lasting = fault.Name, fault.Lasting
		}
		r.Rooms = append(r.Rooms, health)
	}
	return r
}
