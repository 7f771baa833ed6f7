package main

import (
	"context"
	"sync"

	"github.com/queuegate/queuegate/queue"
)

// lines are the lines of the rooms that requests can still be about. A line outlives
// the configuration it was made for: a reload gives it other options, and it ends
// when no request is left that began while there was such a room.
type lines struct {
	ctx    context.Context
	cancel context.CancelFunc // of ctx
	mu     sync.Mutex
	named  map[string]*runningLine // by their keys in Redis
	all    sync.WaitGroup
}

// runningLine is a line and how many configurations use it.
type runningLine struct {
	line *queue.Line
	uses int
	stop context.CancelFunc
}

func newLines() *lines {
	ctx, cancel := context.WithCancel(context.Background())
	return &lines{ctx: ctx, cancel: cancel, named: map[string]*runningLine{}}
}

// end ends all lines and returns when they have said their last word to Redis.
func (l *lines) end() {
	l.cancel()
	l.all.Wait()
}

// of returns the line of these keys, nil when it does not run.
func (l *lines) of(key string) *queue.Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.named[key]; r != nil {
		return r.line
	}
	return nil
}

// take counts one more use of each line, and has those run that do not yet.
func (l *lines) take(list []namedLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, named := range list {
		r := l.named[named.key()]
		if r == nil {
			ctx, stop := context.WithCancel(l.ctx)
			r = &runningLine{line: named.line, stop: stop}
			l.named[named.key()] = r
			l.all.Go(func() { _ = named.line.Run(ctx) }) // it ends with its context and by nothing else
		}
		r.uses++
	}
}

// release takes back one use of each, and ends those that nobody uses any more.
func (l *lines) release(list []namedLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, named := range list {
		r := l.named[named.key()]
		if r.uses--; r.uses == 0 {
			r.stop()
			delete(l.named, named.key())
		}
	}
}
