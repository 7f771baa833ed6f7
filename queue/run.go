package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// slowTick is how often a gate moves the room: for promptness only, every poll
	// moves it as well.
	slowTick = 500 * time.Millisecond
	// fastTick is how often while people wait to be admitted at a high rate: a
	// crowd that came in one second polls in waves, and between two of them only
	// the ticks keep fifty a second from becoming twenty-five at once.
	fastTick = 100 * time.Millisecond
	// endsPage is how many ends one tick fetches.
	endsPage = 200
	// tickTimeout bounds one tick; it serves nobody's request, so it may take
	// longer than those.
	tickTimeout = 2 * time.Second
)

// Run keeps the room moving until ctx ends: it writes the limits, ticks twice a
// second, and follows the ends of stays. Any number of gates run it side by side
// and none is needed: a killed one costs nothing. Errors are logged when they
// begin and when they are over, not each time.
func (l *Line) Run(ctx context.Context) error {
	wait := time.Duration(0)
	var seen events
	for {
		l.pause(ctx, wait)
		if ctx.Err() != nil {
			l.lastWord(ctx)
			return ctx.Err()
		}
		again, err := l.step(ctx)
		if err != nil && ctx.Err() != nil {
			continue
		}
		seen.tell(ctx, l, err)
		every := l.tickEvery()
		wait = every - every/10 + rand.N(every/5)
		if again {
			wait = 0
		}
	}
}

// pause waits until the next tick is due. Who says that values of the room have
// changed brings it forward, but not beyond the pace of a high rate: a shop may
// change its stock with every order.
func (l *Line) pause(ctx context.Context, wait time.Duration) {
	soonest := min(wait, fastTick)
	select {
	case <-ctx.Done():
		return
	case <-time.After(soonest):
	}
	select {
	case <-ctx.Done():
	case <-l.hurry:
	case <-time.After(wait - soonest):
	}
}

// lastWord tells Redis, before this gate ends, what it has still to be told.
func (l *Line) lastWord(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tickTimeout)
	defer cancel()
	if err := errors.Join(l.settleRest(ctx), l.obeyRest(ctx)); err != nil {
		l.opts().Log.ErrorContext(ctx, "Redis was not told of orders and passes given back: the passes stay good until their ends",
			"room", l.opts().Room, "error", err.Error())
	}
	l.signOff(ctx)
}

// events are what Run has logged to have begun and not to be over.
type events struct {
	answered, away, healing bool
	lasting                 string    // the fault that needs somebody
	since                   time.Time // of the first answer after an outage
	notices                 notices
}

// tell logs what has begun or is over since the last tick.
func (e *events) tell(ctx context.Context, l *Line, err error) {
	log := l.opts().Log.With("room", l.opts().Room)
	if err != nil {
		if !e.away {
			message := "redis lost: who is admitted goes on, who waits keeps the place, newcomers get none (on_redis_error)"
			if !e.answered {
				message = "redis not available yet: newcomers get no place until it is (on_redis_error)"
			}
			log.WarnContext(ctx, message, "error", err.Error())
		}
		e.away, e.since = true, time.Time{}
		if fault := FaultOf(err); fault.Lasting && fault.Name != e.lasting {
			e.lasting = fault.Name
			log.ErrorContext(ctx, "redis will not work like this until a setting is changed; the gate keeps trying",
				"fault", fault.Name, "remedy", fault.Remedy, "error", err.Error())
		}
		return
	}
	now := time.Now()
	if e.away {
		if e.since.IsZero() {
			e.since = now
		}
		if now.Sub(e.since) >= backAfter {
			e.away, e.lasting = false, ""
			log.InfoContext(ctx, "redis back")
		}
	}
	e.answered = true
	room, known := l.Room()
	if healing := room.Healing > 0; healing != e.healing {
		e.healing = healing
		if healing {
			log.WarnContext(ctx, "redis lost its history: nobody is admitted while gates and visitors bring it back",
				"for", room.Healing.String())
		} else {
			log.InfoContext(ctx, "admissions resume: the line is back")
		}
	}
	if known {
		e.notices.look(ctx, log, now, room, l.opts().MaxWaiting)
	}
}

// tickEvery is the time until the next tick: about one admission, within bounds.
func (l *Line) tickEvery() time.Duration {
	room, ok := l.Room()
	if !ok || room.Waiting == 0 || room.Limits.PerMinute == 0 {
		return slowTick
	}
	return min(slowTick, max(fastTick, time.Minute/time.Duration(room.Limits.PerMinute)))
}

// step is one tick, and at times a point of the history. Before it the limits are
// written when Redis holds none or those of an earlier file, and what this gate knows
// when Redis lost its history; again is also true when the
// tick itself found that out.
func (l *Line) step(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	refiled := l.refiled.Swap(false)
	if k := l.known.Load(); refiled || k == nil || k.room.State == Unconfigured || l.stored.Load() < l.Controls().Version {
		if err := l.Configure(ctx); err != nil {
			if refiled {
				l.refiled.Store(true)
			}
			return false, err
		}
	}
	if l.lost.Load() {
		if err := l.Heal(ctx); err != nil {
			return false, err
		}
	}
	if again, err = l.Tick(ctx); err != nil {
		return again, err
	}
	if err := l.settleRest(ctx); err != nil {
		return false, err
	}
	l.recordPoint(ctx)
	return again || l.lost.Load(), l.obeyRest(ctx)
}

// Tick moves the room once: overdue people step aside, the front is admitted,
// expired leases are given on, new ends are fetched. It returns true when it
// stopped at the bound of one call and should be called again at once.
func (l *Line) Tick(ctx context.Context) (again bool, err error) {
	epoch := int64(0)
	if k := l.known.Load(); k != nil {
		epoch = k.room.Epoch
	}
	cursor := l.log.last(epoch)
	made := int64(0)
	if held := l.snapshot.Load(); held != nil {
		made = held.made
	}
	r, err := l.run(ctx, l.scripts.tick, shown{}, cursor, endsPage, made, l.keepEnds().Milliseconds(), l.Controls().Version)
	if err != nil {
		return false, err
	}
	if r.room.Epoch != epoch && cursor > 0 {
		return true, nil // asked with a number of a lost epoch: once more, from the start
	}
	f := &fields{values: r.rest}
	again = f.number() == 1
	if text := f.text(); text != "" && f.err == nil {
		if f.err = l.keepSnapshot(text); f.err != nil {
			return false, f.err
		}
	}
	if version, record := f.number(), f.text(); f.err == nil {
		if f.err = l.heardControls(version, record); f.err != nil {
			return false, f.err
		}
	}
	n := 0
	for f.err == nil && f.at < len(f.values) {
		number, visitor, record := f.number(), f.text(), f.text()
		over, ok := parseEnd(visitor, record)
		if f.err == nil && !ok {
			f.err = fmt.Errorf("%w: end of a stay", ErrReply)
		}
		if f.err != nil {
			break
		}
		l.log.add(over, number/1000) // numbers of ends are room time in microseconds
		l.log.advance(r.room.Epoch, number)
		n++
	}
	if f.err != nil {
		return false, f.err
	}
	l.log.sweep(r.room.Now, r.room.Now-l.keepEnds().Milliseconds())
	return again || n == endsPage, nil
}

// keepEnds is how long an end can refute something: a ticket until waiting_timeout
// after the latest due there is, a token until its end, and a new place until its
// holder may queue again.
func (l *Line) keepEnds() time.Duration {
	longestDue := longestSign + farPoll*12/10 + l.opts().PresenceWindow
	return max(l.opts().WaitingTimeout+longestDue, l.opts().Session, l.Settings().Session, l.opts().ClaimWindow, l.opts().RejoinAfter)
}
