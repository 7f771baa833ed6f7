package proxy

import (
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/token"
)

// visit is what is known of one visitor of one room, as far as it outlasts the
// request that brought it: what they are told follows from it and from what the
// line says.
type visit struct {
	g      *Gate
	room   *room         // nil where no room is concerned
	shown  *held         // the best pass that was brought, running or not
	ticket *token.Ticket // the ticket
	person string        // the visitor id of who sent it, by the shop's name for them; "" when unknown
	rawTkt string        // the ticket as it came
	back   string        // the way back that was asked for
}

// signOfLife is the sign of life that this request gives by its ticket. A pass
// proves no place, only its own admission.
func (x *visit) signOfLife() (queue.Sign, bool) {
	if x.ticket == nil {
		return queue.Sign{}, false
	}
	t := x.ticket
	return queue.Sign{
		Visitor: t.Visitor, Place: t.Place, Generation: t.Generation, Epoch: t.Epoch,
		Seen: t.Seen, Due: t.Due, Ahead: t.Ahead, Joined: t.Joined,
	}, true
}

// pastPass is the pass past its end that this request brings, unless another person
// than its holder sends it.
func (x *visit) pastPass() (held, bool) {
	if x.shown == nil || x.person != "" && x.person != x.shown.pass.Visitor {
		return held{}, false
	}
	return *x.shown, true
}

// ticketFor is the ticket of a standing that has a place. It is the very ticket
// that came as long as it says the same; then no cookie is set, and nothing is sealed:
// the same content gives the same ticket.
func (x *visit) ticketFor(st queue.Standing) string {
	t := x.ticketOf(st)
	if x.ticket != nil && t == *x.ticket {
		return x.rawTkt
	}
	return x.g.tickets.Seal(x.room.Name, t)
}

// ticketOf is what that ticket says.
func (x *visit) ticketOf(st queue.Standing) token.Ticket {
	t := token.Ticket{
		Visitor: st.Visitor, Place: st.Place, Generation: st.Room.Generation, Epoch: st.Room.Epoch,
		Joined: st.Joined, Seen: st.Seen, Due: st.Due, Ahead: st.Ahead, Return: x.back, Named: x.named(st.Visitor),
		First: max(st.Ahead, 0),
	}
	if st.Lease.End != 0 { // should the pass not be taken up, the place is theirs from then on
		t.Due, t.Ahead = st.Lease.End, -1
	}
	if old := x.ticket; old != nil && old.Visitor == t.Visitor && old.Place == t.Place {
		if t.Seen == 0 { // no sign was recorded: what the ticket says still holds
			if st.State != queue.Ready { // who brings this one back has heard of the pass
				t.Due = old.Due
			}
			if st.Lease.End != 0 {
				t.Ahead = old.Ahead
			}
			if old.Epoch == t.Epoch { // else nothing was recorded in this one
				t.Seen = old.Seen
			}
		}
		if t.Return == "" {
			t.Return = old.Return
		}
		t.First = max(t.First, old.First)
		if t.Joined.IsZero() {
			t.Joined = old.Joined
		}
	}
	return t
}
