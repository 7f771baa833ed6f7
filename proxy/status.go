package proxy

import (
	"time"

	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// The values of statusDoc.Status.
const (
	statusWaiting    = "waiting"
	statusReady      = "ready"
	statusActive     = "active"
	statusNotEntered = "not_entered"
	statusExpired    = "expired"
	statusLeft       = "left"
	statusReleased   = "released"
	statusFull       = "full"
)

// The states of a room that a gate adds to those of the line.
const (
	stateDegraded  = "degraded"  // Redis does not answer
	stateSuspended = "suspended" // the room is off, or has no line: go on
)

// statusDoc is what a visitor's program is told. A number that is not known is
// null.
type statusDoc struct {
	// Type and Title are set where the answer stands for a request that was not
	// passed on; the other members of a problem are not, for status is taken.
	Type  string `json:"type,omitempty"`
	Title string `json:"title,omitempty"`

	Room      string `json:"room"`
	Status    string `json:"status"`
	RoomState string `json:"room_state"`

	Position *int64 `json:"position"` // from 1
	Ahead    *int64 `json:"ahead"`    // from 0
	Behind   *int64 `json:"behind"`
	Waiting  *int64 `json:"waiting"`

	EstimatedWaitSeconds *int64 `json:"estimated_wait_seconds"`
	PollAfterMS          *int64 `json:"poll_after_ms"` // null: do not poll

	JoinedAt       *time.Time `json:"joined_at"`
	Ticket         string     `json:"ticket,omitempty"`
	RemainingStock *int64     `json:"remaining_stock"`
	Message        string     `json:"message"`

	EntryToken     string     `json:"entry_token,omitempty"`
	EntryExpiresAt *time.Time `json:"entry_expires_at,omitempty"`
	ClaimBefore    *time.Time `json:"claim_before,omitempty"`
	ReturnTo       string     `json:"return_to,omitempty"`

	poll time.Duration // PollAfterMS before rounding, for Retry-After
}

// describe says what st means to the visitor, and keeps for the answer what goes
// with it; with a pass that cannot be signed ok is false.
func (x *exchange) describe(st queue.Standing) (d statusDoc, ok bool) {
	d, pass, err := x.visit.describe(st)
	if err != nil {
		x.cannotSign(err)
		return d, false
	}
	x.giveTicket(d.Ticket)
	if pass != nil {
		x.give(*pass)
		d.ReturnTo = x.wayBack()
	}
	return d, true
}

// describe says what st means to the visitor. It makes a ticket, or signs the
// pass, that goes with it; the error says that the pass cannot be signed.
func (x *visit) describe(st queue.Standing) (d statusDoc, pass *held, err error) {
	d = x.room.tells(statusDoc{Room: x.room.Name, RoomState: x.room.told(st.Room.State)})
	st.WaitKnown = st.WaitKnown && d.RoomState != string(queue.Paused)
	switch st.State {
	case queue.Away, queue.Waiting:
		d.Status = statusWaiting
		x.numbers(&d, st)
		d.askAgain(st.Poll)
		d.Ticket = x.ticketFor(st)
	case queue.Ready, queue.Active:
		stage := token.Ready
		d.Status = statusReady
		if st.State == queue.Active {
			stage, d.Status = token.Active, statusActive
		}
		h, err := x.sign(st, stage)
		if err != nil {
			return d, nil, err
		}
		pass = &h
		x.showPass(&d, h)
		if st.Place != 0 {
			d.Ticket = x.ticketFor(st)
		}
		d.askAgain(st.Poll)
	case queue.Ended:
		d.Status = endedStatus(st.Why)
	default:
		d.Status = statusNotEntered
		x.refusal(&d, st)
	}
	return d, pass, nil
}

// tells adds what the room has to tell everybody.
func (r *room) tells(d statusDoc) statusDoc {
	now := r.settings()
	d.Message, d.RemainingStock = now.Message, now.Stock
	return d
}

// refusal says why there is no place.
func (x *visit) refusal(d *statusDoc, st queue.Standing) {
	switch st.Refusal {
	case queue.Full:
		d.Status = statusFull
		d.askAgain(max(st.Poll, fullPoll))
	case queue.Closed:
		d.RoomState = string(queue.RoomClosed)
	case queue.SoldOut:
		d.RoomState = string(queue.RoomSoldOut)
	default:
		d.askAgain(st.Poll)
	}
}

// fullPoll is the least time after which somebody without a place asks a full
// line again.
const fullPoll = 20 * time.Second

// numbers fills in the place and what is estimated of it. Before a draw nobody
// has a number; how many wait is known all the same.
func (x *visit) numbers(d *statusDoc, st queue.Standing) {
	known := &struct { // all of them in one piece of memory
		position, ahead, behind, waiting, wait int64
		joined                                 time.Time
	}{st.Ahead + 1, st.Ahead, st.Behind, st.Waiting, int64((st.Wait + time.Second - 1) / time.Second), st.Joined.UTC().Truncate(time.Millisecond)}
	if st.Ahead >= 0 {
		d.Ahead, d.Position, d.Behind = &known.ahead, &known.position, &known.behind
	}
	d.Waiting = &known.waiting
	if st.WaitKnown {
		d.EstimatedWaitSeconds = &known.wait
	}
	if !st.Joined.IsZero() {
		d.JoinedAt = &known.joined
	}
}

// askAgain tells when to ask again, spread.
func (d *statusDoc) askAgain(after time.Duration) {
	d.poll = jitter(after)
	d.PollAfterMS = new(d.poll.Milliseconds())
}

// showPass fills in a pass.
func (x *visit) showPass(d *statusDoc, h held) {
	d.EntryToken = h.raw
	d.EntryExpiresAt = new(h.pass.Expires.UTC().Truncate(time.Second))
	if h.pass.Stage == token.Ready {
		d.ClaimBefore = d.EntryExpiresAt
	}
}

// wayBack is where the visitor goes when it is their turn.
func (x *exchange) wayBack() string {
	switch {
	case x.back != "":
		return x.back
	case x.ticket != nil && x.safeBack(x.ticket.Return) != "":
		return x.ticket.Return
	default:
		return x.room.entry
	}
}

// lastKnown describes somebody whose ticket, or pass, is good while Redis does
// not answer.
func (x *visit) lastKnown() statusDoc {
	d := x.room.tells(statusDoc{Room: x.room.Name, Status: statusWaiting, RoomState: stateDegraded})
	if t := x.ticket; t != nil {
		if t.Ahead >= 0 {
			d.Ahead, d.Position = new(t.Ahead), new(t.Ahead+1)
		}
		if !t.Joined.IsZero() {
			d.JoinedAt = new(t.Joined)
		}
		d.Ticket = x.rawTkt
	}
	d.askAgain(x.room.askAgain())
	return d
}

// told is the state of the room as visitors are told. A room without
// limits lets nobody in until a gate has written them back, after a loss a
// moment later: that is trouble, and no operator's pause.
// An open room whose shop takes no connections is paused until it does.
func (r *room) told(s queue.RoomState) string {
	switch {
	case s == queue.Unconfigured:
		return stateDegraded
	case s == queue.Open && r.shop.refusal.refuses():
		return string(queue.Paused)
	default:
		return string(s)
	}
}

// stateNow is the room's state as last heard.
func (x *exchange) stateNow() string {
	if x.room.off() {
		return stateSuspended
	}
	return x.stranger().RoomState
}

// endedStatus is how a stay ended, as visitors are told.
func endedStatus(why queue.Why) string {
	switch why {
	case queue.Left:
		return statusLeft
	case queue.Consumed, queue.Released:
		return statusReleased
	default:
		return statusExpired
	}
}
