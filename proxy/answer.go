package proxy

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/queuegate/queuegate/proxy/page"
	"github.com/queuegate/queuegate/queue"
)

// problemQueued and titleQueued stand in the answer to a call that was not
// passed on because it has to wait.
const (
	problemQueued = problemBase + "queued"
	titleQueued   = "This request was not passed on: wait in line and send it again"
)

// queued answers a request that is not let through with what st says.
func (x *exchange) queued(st queue.Standing) {
	d, ok := x.describe(st)
	if !ok {
		x.decide(Refused, ReasonInternal)
		x.cannotSay()
		return
	}
	x.refuse(d, x.pageFor(st, d), http.StatusTooManyRequests)
}

// noPlace refuses a request that nobody waits for. Redis is not asked.
func (x *exchange) noPlace() {
	retryAfter(x.w.Header(), jitter(defaultPoll))
	if x.r.Method == http.MethodHead && preferred(x.r.Header.Values("Accept")) == wantsPage {
		x.send(x.room.QueueingStatusCode, "text/html; charset=utf-8", nil) // as the GET would be answered
		return
	}
	p := newProblem(http.StatusTooManyRequests, "queued", "Open the page itself to get a place in line.")
	p.Room = x.room.Name
	x.problem(p)
}

// unanswered answers somebody who is not let through because Redis does not
// answer: with the last known place who has one, and 503 who has none.
func (x *exchange) unanswered() {
	if x.ticket == nil && x.shown == nil {
		x.decide(Refused, ReasonDegraded)
		x.cannotSay()
		return
	}
	x.decide(Queued, ReasonDegraded)
	d := x.lastKnown()
	v := page.View{State: page.Degraded, NumbersKnown: d.Ahead != nil, Poll: d.poll}
	if d.Ahead != nil {
		v.Ahead, v.Position = *d.Ahead, *d.Position
	}
	if x.ticket != nil {
		v.First = x.ticket.First
	}
	x.refuse(d, v, http.StatusTooManyRequests)
}

// cannotSay answers 503: the gate cannot tell whether this request may pass.
func (x *exchange) cannotSay() {
	if x.front.asks() {
		x.divert()
		return
	}
	wait := jitter(defaultPoll)
	retryAfter(x.w.Header(), wait)
	if x.caller == navigation {
		x.page(http.StatusServiceUnavailable, page.View{State: page.Degraded, Poll: wait})
		return
	}
	p := newProblem(http.StatusServiceUnavailable, "degraded", "The line does not answer at the moment. Nothing was lost; send the request again.")
	p.Room, p.RoomState = x.room.Name, stateDegraded
	x.problem(p)
}

// busy answers 503: as many requests of this room, or of this pass, are at the shop
// as may be.
func (x *exchange) busy() {
	wait := jitter(2 * time.Second)
	retryAfter(x.w.Header(), wait)
	if x.caller == navigation {
		x.page(http.StatusServiceUnavailable, page.View{State: page.ShopDown, Poll: wait})
		return
	}
	p := newProblem(http.StatusServiceUnavailable, "busy", "The shop has all the requests it can bear. Your pass is kept; send the request again.")
	p.Room = x.room.Name
	x.problem(p)
}

// shopDown answers for a shop that did not: 502 or 504.
func (x *exchange) shopDown(status int) {
	wait := jitter(defaultPoll)
	switch {
	case x.caller == navigation && x.admitted != nil:
		x.page(status, page.View{State: page.ShopDown, Poll: wait})
	case x.caller == navigation:
		x.text(status, "The shop did not answer. Please try again in a moment.\n")
	default:
		detail := "The shop could not be reached."
		if status == http.StatusGatewayTimeout {
			detail = "The shop did not answer in time. Whether it acted on the request is not known."
		}
		if x.admitted != nil {
			detail += " Your pass is kept."
		}
		x.problem(newProblem(status, "shop-down", detail))
	}
}

// refuse answers a request that was not passed on, in the form its sender can
// use: the page v, the document d, or a short text for a WebSocket handshake.
func (x *exchange) refuse(d statusDoc, v page.View, status int) {
	if d.PollAfterMS != nil {
		retryAfter(x.w.Header(), d.poll)
	}
	switch x.caller {
	case navigation:
		if !x.isForm() { // a form that was sent must not look accepted
			status = x.room.QueueingStatusCode
		}
		x.page(status, v)
	case socket:
		x.text(status, "Not admitted: wait in line first.\n")
	default:
		d.Type, d.Title = problemQueued, titleQueued
		switch {
		case d.Status == statusFull:
			d.Type, d.Title = problemBase+"full", "This request was not passed on: there is no place at the moment, try again later"
		case d.PollAfterMS == nil && d.RoomState == string(queue.RoomSoldOut):
			d.Type, d.Title = problemBase+"sold-out", "This request was not passed on: there is nothing left to wait for"
		case d.PollAfterMS == nil && d.RoomState == string(queue.RoomClosed):
			d.Type, d.Title = problemBase+"closed", "This request was not passed on: the line is closed"
		}
		x.document(status, d)
	}
}

// pageFor is the page of a standing that d describes.
func (x *exchange) pageFor(st queue.Standing, d statusDoc) page.View {
	if st.Room.State == queue.Open && d.RoomState == string(queue.Paused) { // as the visitor is told
		st.Room.State, st.WaitKnown = queue.Paused, false
	}
	v := page.View{
		State: pageState(st), Poll: d.poll,
		Position: st.Ahead + 1, Ahead: st.Ahead, Behind: st.Behind, Waiting: st.Waiting,
		NumbersKnown: d.Ahead != nil, Wait: st.Wait, WaitKnown: st.WaitKnown,
		Checked: st.Room.Clock,
	}
	if v.State == page.Waiting && x.isForm() {
		v.State = page.NotAccepted
	}
	if st.Place != 0 {
		v.HoldFor, v.First = x.room.WaitingTimeout, x.ticketOf(st).First
	}
	return v
}

// pageState is what the page says of a standing.
func pageState(st queue.Standing) page.State {
	switch st.Refusal {
	case queue.Full:
		return page.Full
	case queue.Closed:
		return page.Closed
	case queue.SoldOut:
		return page.SoldOut
	}
	switch st.State {
	case queue.Ready, queue.Active:
		return page.Ready
	case queue.Ended, queue.Unknown:
		if st.Why == queue.Left {
			return page.Left
		}
		return page.Ended
	}
	switch st.Room.State {
	case queue.Unconfigured:
		return page.Degraded
	case queue.Paused:
		return page.Paused
	case queue.QueueAll:
		return page.QueueAll
	case queue.RoomClosed:
		return page.Closed
	case queue.RoomSoldOut:
		return page.SoldOut
	default:
		return page.Waiting
	}
}

// page answers with the room's page.
func (x *exchange) page(status int, v page.View) {
	own := x.g.prefix + "/" + x.room.Name
	v.Room, v.Posted = x.room.Name, x.isForm()
	v.StatusURL, v.EventsURL, v.JoinURL, v.LeaveURL = own+"/status", own+"/events", own+"/join", own
	v.Message = x.room.settings().Message
	if v.Here == "" {
		v.Here = x.here()
	}
	v.PageURL = own + "?return=" + url.QueryEscape(v.Here)
	v.Language, v.AcceptLanguage = x.language, strings.Join(x.r.Header.Values("Accept-Language"), ",")
	rendered, err := x.room.page.Render(v)
	if err != nil {
		x.g.log.ErrorContext(x.r.Context(), "the page could not be rendered", "request_id", x.record.id, "room", x.room.Name, "error", err)
		x.text(status, "Please wait a moment and load this page again.\n")
		return
	}
	x.w.Header().Set("Content-Security-Policy", rendered.CSP)
	x.w.Header().Set("Content-Language", rendered.Language)
	x.send(status, "text/html; charset=utf-8", rendered.Body)
	x.room.page.Reuse(rendered)
}

// here is where the page goes when it is the visitor's turn: its own address,
// and for a form, which is never sent again by itself, the page it came from.
func (x *exchange) here() string {
	if x.sent {
		return x.wayBack()
	}
	if !x.isForm() {
		return x.target.Raw
	}
	if back := x.safeBack(refererPath(x.r)); back != "" {
		return back
	}
	return x.room.entry
}

// document answers with d and what the room has to tell everybody.
func (x *exchange) document(status int, d statusDoc) {
	d = x.room.tells(d)
	body := x.g.bodies.Get().(*[]byte)
	defer x.g.bodies.Put(body)
	*body = append(d.appendJSON((*body)[:0]), '\n')
	x.send(status, "application/json", *body)
}

// problem answers with p.
func (x *exchange) problem(p problem) {
	x.json(p.Status, "application/problem+json", p)
}

// text answers with a line of text.
func (x *exchange) text(status int, body string) {
	x.send(status, "text/plain; charset=utf-8", []byte(body))
}

// refuseTarget answers a request whose target or method is not an ordinary one.
// The connection ends with it: what follows on it may be read differently, too.
func (x *exchange) refuseTarget(status int, detail string) {
	if x.front.asks() {
		x.problem(newProblem(http.StatusForbidden, "bad-request", detail))
		return
	}
	x.endConnection()
	if status == http.StatusMethodNotAllowed {
		x.w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
	}
	kind := "bad-request"
	if status == http.StatusInternalServerError {
		kind = "internal"
	}
	x.problem(newProblem(status, kind, detail))
}
