package queue

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// batch gathers calls of one kind: while one is in flight the next ones wait
// together and leave as one; a second one leaves beside it only when it is full, or
// when the first one is late: its answer may never come. A quiet room adds no wait at
// all, a crowd pays for one round trip with hundreds of others. What a call costs Redis
// is the same for one question as for ten: fuller calls are what makes a join cheap.
type batch[Q, A any] struct {
	send    func(ctx context.Context, asked []Q) ([]A, error) // one answer for each question, in order
	allow   func() bool                                       // whether a question may be asked now
	timeout time.Duration                                     // of one question, waiting included
	most    int                                               // questions in one call
	flights int                                               // calls in flight at once

	mu      sync.Mutex
	waiting []*question[Q, A]
	flying  int
	left    int       // calls so far
	leaving time.Time // when the last one left
}

// settleMost bounds how long a call waits for more questions, however many come.
const settleMost = 2 * time.Millisecond

// lateAfter: a call that takes longer than this part of the timeout is late.
const lateAfter = 8

type question[Q, A any] struct {
	asked    Q
	deadline time.Time
	done     chan struct{}
	answer   A
	err      error
}

// ask answers one question, within the batch's timeout after it was asked,
// whatever Redis does. The question may still be carried out later when ask
// returned an error.
func (b *batch[Q, A]) ask(ctx context.Context, asked Q) (A, error) {
	var none A
	if !b.allow() {
		return none, unavailable(errSilent)
	}
	q := &question[Q, A]{asked: asked, deadline: time.Now().Add(b.timeout), done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, q)
	late := q.deadline.Sub(b.leaving) > b.timeout+b.timeout/lateAfter
	if b.flying == 0 || b.flying < b.flights && (late || len(b.waiting) >= b.most) {
		b.flying++
		go b.fly()
	}
	b.mu.Unlock()

	timer := time.NewTimer(b.timeout)
	defer timer.Stop()
	select {
	case <-q.done:
		return q.answer, q.err
	case <-timer.C:
		return none, unavailable(context.DeadlineExceeded)
	case <-ctx.Done():
		return none, unavailable(ctx.Err())
	}
}

// fly sends what waits until nothing does.
func (b *batch[Q, A]) fly() {
	for mine := 0; ; {
		b.settle()
		var load []*question[Q, A]
		if load, mine = b.load(mine); len(load) == 0 {
			return
		}
		b.deliver(load)
	}
}

// settle lets everybody run who can, and again while that brings more questions:
// whoever was about to ask, too, leaves with this call. Where nobody is that takes no
// time.
func (b *batch[Q, A]) settle() {
	for until, before := time.Now().Add(settleMost), -1; ; {
		runtime.Gosched()
		b.mu.Lock()
		n := len(b.waiting)
		b.mu.Unlock()
		if n <= before || n >= b.most || time.Now().After(until) {
			return
		}
		before = n
	}
}

// load takes the next questions, dropping those whose asker has given up: they
// got their answer, and a Redis that comes back need not do their work. It numbers
// the call; last is the one that has just come back, 0 for none. What does not fill a
// second call is left to the one in flight, unless that left before: then it is late.
func (b *batch[Q, A]) load(last int) (load []*question[Q, A], number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flying > 1 && last > 0 && last < b.left && len(b.waiting) < b.most {
		b.flying--
		return nil, 0
	}
	now := time.Now()
	load = make([]*question[Q, A], 0, min(len(b.waiting), b.most))
	rest := 0
	for rest < len(b.waiting) && len(load) < b.most {
		if q := b.waiting[rest]; q.deadline.After(now) {
			load = append(load, q)
		}
		rest++
	}
	b.waiting = append(b.waiting[:0:0], b.waiting[rest:]...)
	if len(load) == 0 {
		b.flying--
		return nil, 0
	}
	b.left, b.leaving = b.left+1, now
	return load, b.left
}

func (b *batch[Q, A]) deliver(load []*question[Q, A]) {
	asked := make([]Q, len(load))
	for i, q := range load {
		asked[i] = q.asked
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	answers, err := b.send(ctx, asked)
	for i, q := range load {
		if err != nil {
			q.err = err
		} else {
			q.answer = answers[i]
		}
		close(q.done)
	}
}
