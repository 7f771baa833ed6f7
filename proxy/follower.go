package proxy

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/queuegate/queuegate/proxy/stream"
	"github.com/queuegate/queuegate/queue"
)

const (
	// streamAsks is how many streams ask their lines at once.
	streamAsks = 300
	// downTicks is how many looks in a row find Redis away before anybody is told:
	// one call without an answer is nothing to tell a crowd.
	downTicks = 3
)

var _ stream.Follower = (*follower)(nil)

// follower is a visitor who waits with a stream open. Where they stand it sees
// without Redis as far as the line can tell. Redis is asked when the stay has taken
// a turn, and when a pong came, which is the sign of life of a WebSocket. Among the
// first the number is Redis's to tell: whoever answers pings by a call at this gate
// brings it along, and only for others is it asked for at each ping.
type follower struct {
	visit
	goTo   string // where to go when it is their turn
	pongs  bool   // a WebSocket: presence is proven by pongs
	stream *stream.Stream

	mu             sync.Mutex
	state, message string // as told last
	pingAt         time.Time
	known          bool // whether the last glance was enough
	downs          int
	stock          *int64
	fed            bool // a call of the visitor has told since the last ping
	looking        bool
	touching       bool
	news           *queue.Standing // what Redis has said, not told yet
	signed         bool            // news is the answer to a sign of life
}

// follower makes the follower of a visitor who was told d of st.
func (x *exchange) follower(st queue.Standing, d statusDoc, pongs bool) *follower {
	f := &follower{visit: x.visit, goTo: x.wayBack(), pongs: pongs, state: d.RoomState, message: d.Message, stock: d.RemainingStock}
	if x.ticket != nil { // the stream outlives the exchange
		f.ticket = new(*x.ticket)
	}
	f.shown, f.rawTkt, f.back = nil, "", ""
	if st.Place != 0 {
		t := x.ticketOf(st)
		f.ticket = &t
	}
	f.plan(time.Now(), max(st.Poll, time.Second))
	return f
}

// plan sets the time of the next ping: never later than the next poll would be.
func (f *follower) plan(now time.Time, poll time.Duration) {
	f.pingAt, f.fed = now.Add(poll-rand.N(poll/5+1)), false
}

// Next implements stream.Follower.
func (f *follower) Next(now time.Time, hinted bool, dst []stream.Message) []stream.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.news != nil {
		st, signed := *f.news, f.signed
		f.news = nil
		if dst = f.report(now, st, signed, dst); len(dst) > 0 && dst[len(dst)-1].Last {
			return dst
		}
	}
	sign, _ := f.signOfLife()
	st, known := f.room.Line.Glance(sign)
	if st.State == queue.Ended {
		return append(dst, f.last(st))
	}
	due := !now.Before(f.pingAt)
	if hinted || !known && (f.known || due && !f.pongs && !f.fed) {
		f.look(sign)
	}
	f.known = known
	dst = f.changes(now, st, dst)
	if due {
		f.plan(now, st.Poll)
		dst = append(dst, message(stream.Ping, f.document(now, st)))
	}
	return dst
}

// changes appends what is new since the client was told last.
func (f *follower) changes(now time.Time, st queue.Standing, dst []stream.Message) []stream.Message {
	state, values := f.roomNow(st.Room), f.room.settings()
	event := stream.Event("")
	if st.Ahead != f.ticket.Ahead {
		f.ticket.Ahead = st.Ahead
		event = stream.Update
	}
	if state != f.state || values.Message != f.message || soldOut(values.Stock) != soldOut(f.stock) {
		f.state, f.message = state, values.Message
		event = stream.State
	}
	f.stock = values.Stock // which falls with each order: all but the last goes with the next message
	if event == "" {
		return dst
	}
	return append(dst, message(event, f.document(now, st)))
}

// soldOut tells whether nothing is left, as far as the shop says.
func soldOut(stock *int64) bool { return stock != nil && *stock == 0 }

// answered takes what the visitor's own call was told, which is not asked for again.
func (f *follower) answered(st queue.Standing) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signed = f.signed && f.news != nil // a pong's answer that was not told yet
	f.news, f.fed = &st, true
}

// roomNow is the state of the room as visitors are told.
func (f *follower) roomNow(room queue.Room) string {
	if f.room.Line.Up() {
		f.downs = 0
		return f.room.told(room.State)
	}
	if f.downs++; f.downs < downTicks {
		return f.state
	}
	return stateDegraded
}

// document is what the client is told of somebody who waits.
func (f *follower) document(now time.Time, st queue.Standing) statusDoc {
	d := f.room.tells(statusDoc{Room: f.room.Name, Status: statusWaiting, RoomState: f.state})
	if f.state == stateDegraded {
		st.WaitKnown = false
	}
	f.numbers(&d, st)
	d.PollAfterMS = new(max(0, f.pingAt.Sub(now).Milliseconds()))
	return d
}

// report appends what an answer of Redis means. A ticket goes along when a sign of
// life was recorded.
func (f *follower) report(now time.Time, st queue.Standing, signed bool, dst []stream.Message) []stream.Message {
	switch st.State {
	case queue.Away, queue.Waiting:
	case queue.Unknown:
		if !signed { // not here yet after a loss: the next sign of life tells
			return dst
		}
		fallthrough
	default:
		return append(dst, f.last(st))
	}
	t := f.ticketOf(st)
	before := f.ticket.Ahead
	f.ticket = &t
	if next := now.Add(st.Poll); next.Before(f.pingAt) {
		f.pingAt = next
	}
	if !signed || st.Seen == 0 {
		f.ticket.Ahead = before // changes compares with what was told
		return f.changes(now, st, dst)
	}
	f.state, f.message = f.roomNow(st.Room), f.room.settings().Message
	d := f.document(now, st)
	d.Ticket = f.g.tickets.Seal(f.room.Name, t)
	return append(dst, message(stream.Update, d))
}

// last is the message with which the stream ends.
func (f *follower) last(st queue.Standing) stream.Message {
	d, pass, err := f.describe(st)
	switch {
	case err != nil:
		f.g.log.Error("a pass could not be signed", "room", f.room.Name, "error", err)
		return f.goodbye(time.Now(), defaultPoll)
	case pass != nil:
		d.ReturnTo = f.goTo
	case st.State == queue.Unknown: // a place of before a reset
		d.Status = statusExpired
	}
	return closing(d)
}

// Goodbye implements stream.Follower.
func (f *follower) Goodbye(after time.Duration) stream.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.goodbye(time.Now(), after)
}

func (f *follower) goodbye(now time.Time, after time.Duration) stream.Message {
	sign, _ := f.signOfLife()
	st, _ := f.room.Line.Glance(sign)
	d := f.document(now, st)
	d.PollAfterMS = new(after.Milliseconds())
	m := closing(d)
	m.After = after
	return m
}

// Heard implements stream.Follower: a pong is a sign of life as a poll is.
func (f *follower) Heard() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.touching {
		return
	}
	f.touching = true
	sign, _ := f.signOfLife()
	go f.ask(sign, true)
}

// look asks Redis where the visitor stands, once at a time. The caller holds mu.
func (f *follower) look(sign queue.Sign) {
	if f.looking {
		return
	}
	f.looking = true
	go f.ask(sign, false)
}

// ask asks Redis and keeps the answer for the next look at the stream, at once when
// there may be something to tell. Without an answer what was told stands.
func (f *follower) ask(sign queue.Sign, signs bool) {
	f.g.asks <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), f.g.redisTimeout)
	question := f.room.Line.Look
	if signs {
		question = f.room.Line.Touch
	}
	st, err := question(ctx, sign)
	cancel()
	<-f.g.asks
	f.mu.Lock()
	if signs {
		f.touching = false
	} else {
		f.looking = false
	}
	if err == nil {
		f.news, f.signed = &st, signs
	}
	f.mu.Unlock()
	if err == nil {
		f.stream.Poke()
	}
}
