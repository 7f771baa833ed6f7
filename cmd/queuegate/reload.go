package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/queuegate/queuegate/config"
	"github.com/queuegate/queuegate/proxy"
)

// firstAnswer bounds how long a reload waits for Redis to answer the line of a new
// room. Without an answer the room begins as it does when Redis is away.
const firstAnswer = 2 * time.Second

// running is a process that serves one configuration and can go over to another.
// All lines of rooms that stay go on: they get other options and forget nothing.
type running struct {
	*lasting
	server *proxy.Server
	log    *slog.Logger

	mu       sync.Mutex // held while one configuration takes the place of another
	now      *built
	ending   bool           // the streams are closed, nothing is taken over any more
	retiring sync.WaitGroup // configurations whose last requests are not over
	served   chan struct{}  // closed when the server has ended, whatever still runs
}

// errEnding is why nothing is read again by a process that ends.
var errEnding = errors.New("the gate is stopping")

// restartError names keys that cannot change while the process runs.
type restartError struct{ keys []string }

func (e restartError) Error() string {
	return fmt.Sprintf("%s: only a restart changes it; put back what was there, or restart the gate", strings.Join(e.keys, ", "))
}

// follow reads the files again whenever they change, until ctx ends.
func (r *running) follow(ctx context.Context, files source) {
	files.changes(ctx, func() { _ = r.reload(ctx, files) })
}

// reload takes over what the files say now, all of it or nothing, and logs and
// counts which it was. The error says why nothing has changed.
func (r *running) reload(ctx context.Context, files source) error {
	c, warnings, err := config.Load(files.path, files.environ)
	if err == nil {
		err = r.takeOver(ctx, c)
	}
	if errors.Is(err, errEnding) {
		r.log.InfoContext(ctx, "the configuration is not read again: the gate is stopping")
		return err
	}
	r.metrics.Reloaded(err, time.Now())
	for _, problem := range problemsOf(err) {
		r.log.ErrorContext(ctx, "the configuration was not taken over; the gate goes on with the one it has", "problem", problem)
	}
	if err != nil {
		return err
	}
	for _, w := range warnings {
		r.log.WarnContext(ctx, "configuration", "problem", w.String())
	}
	r.log.InfoContext(ctx, "the configuration was read again and taken over", "rooms", len(c.Rooms))
	return nil
}

// problemsOf lists what an error names, one by one.
func problemsOf(err error) []string {
	var problems *config.Problems
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &problems):
		return []string{err.Error()}
	}
	var list []string
	for _, p := range problems.List {
		list = append(list, p.String())
	}
	return list
}

// takeOver puts c in the place of the configuration in force. Everything that can
// fail comes before the first thing that changes.
func (r *running) takeOver(ctx context.Context, c *config.Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending {
		return errEnding
	}
	before := r.now
	if keys := needRestart(before.config, c); len(keys) > 0 {
		return restartError{keys}
	}
	next, err := r.build(c, r.log, before)
	if err != nil {
		return err
	}
	operators, err := r.operators(next)
	if err != nil {
		next.gate.Close()
		return err
	}
	r.live.take(next.lines)
	next.firstAnswers(ctx)
	for _, apply := range next.apply {
		apply()
	}
	next.watch()
	over := r.server.Swap(next.public, operators)
	r.now = next
	r.tellRooms(ctx, before.config, c)
	r.retiring.Go(func() { r.retire(before, over) })
	return nil
}

// retire lets go of a configuration when the last request is over that began under
// it. Streams of people in line are told to come again, and do with the new one.
func (r *running) retire(b *built, over <-chan struct{}) {
	b.gate.CloseStreams()
	select {
	case <-over:
	case <-r.served:
	}
	b.gate.Close()
	r.live.release(b.lines)
}

// stopping is called when the process ends and nothing new comes in.
func (r *running) stopping() {
	r.mu.Lock()
	r.ending = true
	gate := r.now.gate
	r.mu.Unlock()
	gate.CloseStreams()
}

// firstAnswers waits until Redis has answered every line, for a while.
func (b *built) firstAnswers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	look := time.NewTicker(firstAnswer / 200)
	defer look.Stop()
	for slices.ContainsFunc(b.lines, func(l namedLine) bool { _, known := l.line.Room(); return !known }) {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// tellRooms logs which rooms have come and gone: the routes of one that is gone are
// open to everybody.
func (r *running) tellRooms(ctx context.Context, before, now *config.Config) {
	has := func(c *config.Config, name string) bool {
		return slices.ContainsFunc(c.Rooms, func(room config.Room) bool { return room.Name == name })
	}
	for _, room := range before.Rooms {
		if !has(now, room.Name) {
			r.log.WarnContext(ctx, "the room is gone from the configuration: nothing protects its routes any more", "room", room.Name)
		}
	}
	for _, room := range now.Rooms {
		if !has(before, room.Name) {
			r.log.InfoContext(ctx, "the configuration has a new room", "room", room.Name)
		}
	}
}
