package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/queuegate/queuegate/proxy/page"
	"github.com/queuegate/queuegate/proxy/stream"
	"github.com/queuegate/queuegate/queue"
)

// endpoint is one of the gate's own addresses below <prefix>/<room>.
type endpoint struct {
	method string
	serve  func(*exchange)
}

// endpoints are the addresses below <prefix>/<room>, by what follows the room's
// name.
var endpoints = map[string][]endpoint{
	"join":    {{http.MethodPost, (*exchange).serveJoin}},
	"status":  {{http.MethodGet, (*exchange).serveStatus}},
	"events":  {{http.MethodGet, (*exchange).serveEvents}},
	"ws":      {{http.MethodGet, (*exchange).serveSocket}},
	"release": {{http.MethodPost, (*exchange).serveRelease}},
	"":        {{http.MethodGet, (*exchange).servePage}, {http.MethodDelete, (*exchange).serveLeave}},
}

// serveOwn answers a request under the reserved prefix. Nothing of it ever
// reaches the shop. The path is empty for a target that is spelled oddly.
func (g *Gate) serveOwn(x *exchange, path string) {
	name, rest, hasRest := strings.Cut(path, "/")
	x.room = g.rooms[name]
	choices, known := endpoints[rest]
	switch {
	case g.files[path] != nil:
		choices = []endpoint{{http.MethodGet, g.files[path].serve}}
	case x.room == nil || !known || (hasRest && rest == ""):
		x.decide(Refused, ReasonNotFound)
		x.problem(newProblem(http.StatusNotFound, "not-found", "There is no such room or endpoint."))
		return
	}
	if x.answersPreflight(choices) {
		return
	}
	var allowed []string
	for _, e := range choices {
		if e.method == x.r.Method || e.method == http.MethodGet && x.r.Method == http.MethodHead {
			if err := g.crossOrigin.Check(x.r); err != nil {
				x.decide(Refused, ReasonCrossSite)
				x.problem(newProblem(http.StatusForbidden, "cross-site", "Another site asked for this change."))
				return
			}
			e.serve(x)
			return
		}
		allowed = append(allowed, e.method)
	}
	x.decide(Refused, ReasonMethod)
	x.w.Header().Set("Allow", strings.Join(allowed, ", "))
	x.problem(newProblem(http.StatusMethodNotAllowed, "method-not-allowed", ""))
}

// serveStatus tells where the visitor stands. Asking is the sign of life.
func (x *exchange) serveStatus() {
	x.decide(Answered, ReasonStatus)
	if x.offDuty() {
		return
	}
	x.readTicket()
	value := x.showsPass()
	if x.tooFast() || x.byOwnPass(value) {
		return
	}
	if x.ticket == nil && x.shown == nil && x.person == "" {
		x.answerStatus(x.stranger())
		return
	}
	st, _, err := x.stand(false)
	if err == nil {
		x.tellStreams(st)
	}
	x.tell(st, err)
}

// tellStreams has the streams of the same visitor say what the poll was told.
func (x *exchange) tellStreams(st queue.Standing) {
	if x.room.streams.Has(st.Visitor) { // seldom: who has a stream does not poll
		x.room.streams.Tell(st.Visitor, func(f stream.Follower) { f.(*follower).answered(st) })
	}
}

// stranger describes somebody who has shown nothing. Redis is not asked.
func (x *exchange) stranger() statusDoc {
	d := statusDoc{Room: x.room.Name, Status: statusNotEntered, RoomState: stateDegraded}
	if known, ok := x.room.Line.Room(); ok {
		d.Waiting = new(known.Waiting)
		if x.room.Line.Up() {
			d.RoomState = x.room.told(known.State)
		}
	}
	d.askAgain(x.room.askAgain())
	return d
}

// tell answers with what the line has said.
func (x *exchange) tell(st queue.Standing, err error) {
	if d, ok := x.told(st, err); ok {
		x.answerStatus(d)
	}
}

// told says what the line has said. ok is false when that was answered with a
// refusal.
func (x *exchange) told(st queue.Standing, err error) (d statusDoc, ok bool) {
	x.record.visitor = st.Visitor
	switch {
	case errors.Is(err, errJoinLimit):
		x.caller = script
		x.crowded()
	case err != nil && (x.ticket != nil || x.shown != nil):
		x.record.decision.Reason = ReasonDegraded
		return x.lastKnown(), true
	case err != nil:
		x.decide(Refused, ReasonDegraded)
		x.cannotSayJSON()
	default:
		if d, ok = x.describe(st); !ok {
			x.decide(Refused, ReasonInternal)
			x.cannotSayJSON()
			return d, false
		}
		if d.Status == statusNotEntered && st.Refusal == "" && (x.ticket != nil || x.shown != nil) { // a place of before a reset
			d.Status = statusExpired
		}
		return d, true
	}
	return d, false
}

// answerStatus answers with d and keeps it for those who ask so fast that they may
// soon be told to wait.
func (x *exchange) answerStatus(d statusDoc) {
	if x.hurried {
		who, _ := x.asking()
		x.room.polls.remember(who, d)
	}
	x.document(http.StatusOK, d)
}

// cannotSayJSON answers 503 to a program, whatever it looks like.
func (x *exchange) cannotSayJSON() {
	x.caller = script
	x.cannotSay()
}

// showsPass looks for the pass of the request and tells its worth.
func (x *exchange) showsPass() worth {
	h, value := x.bestPass()
	if value != worthless {
		kept := h // else every poll without a pass would allocate one
		x.shown = &kept
	}
	return value
}

// byOwnPass answers somebody whose pass is good: they need no place.
func (x *exchange) byOwnPass(value worth) bool {
	if value == worthless || value == past {
		return false
	}
	x.record.visitor = x.shown.pass.Visitor
	x.answerStatus(x.ownPass(value))
	return true
}

// ownPass describes somebody whose pass is good.
func (x *exchange) ownPass(value worth) statusDoc {
	d := statusDoc{Room: x.room.Name, Status: statusReady, RoomState: x.stranger().RoomState}
	if value == running {
		d.Status = statusActive
	}
	if x.rawTkt != "" {
		d.Ticket = x.rawTkt
	}
	x.showPass(&d, *x.shown)
	d.ReturnTo = x.wayBack()
	d.askAgain(x.room.askAgain())
	return d
}

// offDuty answers for a room that is off: everybody may go on.
func (x *exchange) offDuty() bool {
	if !x.room.off() {
		return false
	}
	x.document(http.StatusOK, x.offDoc())
	return true
}

// offDoc describes anybody in a room that is off.
func (x *exchange) offDoc() statusDoc {
	x.readTicket()
	d := statusDoc{Room: x.room.Name, Status: statusNotEntered, RoomState: stateSuspended, ReturnTo: x.wayBack()}
	if x.ticket != nil {
		d.Status, d.Ticket = statusWaiting, x.rawTkt
	}
	d.askAgain(fullPoll)
	return d
}

// serveLeave gives up the pass and the place: of one visitor usually, of two when
// a browser has put together what two requests were given.
func (x *exchange) serveLeave() {
	x.decide(Answered, ReasonLeave)
	if x.room.off() {
		x.notEntered()
		return
	}
	var given []queue.Holding
	if h, value := x.bestPass(); value != worthless {
		given = append(given, holding(h.pass))
	}
	x.readTicket()
	if t := x.ticket; t != nil && (len(given) == 0 || given[0].Visitor != t.Visitor) {
		given = append(given, queue.Holding{Visitor: t.Visitor, Place: t.Place, Generation: t.Generation, Epoch: t.Epoch})
	}
	if x.person != "" && !slices.ContainsFunc(given, func(h queue.Holding) bool { return h.Visitor == x.person }) {
		given = append(given, queue.Holding{Visitor: x.person}) // whatever they have, also by another browser
	}
	x.giveUp(given, statusLeft, Line.Leave)
}

// serveRelease gives the pass back.
func (x *exchange) serveRelease() {
	x.decide(Answered, ReasonRelease)
	if x.room.off() {
		x.notEntered()
		return
	}
	var given []queue.Holding
	if h, value := x.bestPass(); value != worthless {
		given = append(given, holding(h.pass))
	}
	x.giveUp(given, statusReleased, Line.Release)
}

// giveUp ends stays. Redis has to know before anybody is told that they are over.
func (x *exchange) giveUp(given []queue.Holding, status string, end func(Line, context.Context, queue.Holding) (queue.Standing, error)) {
	if len(given) == 0 {
		x.notEntered()
		return
	}
	for _, h := range given {
		x.record.visitor = h.Visitor
		if _, err := x.ask(func(ctx context.Context, l Line) (queue.Standing, error) { return end(l, ctx, h) }); err != nil {
			x.decide(Refused, ReasonDegraded)
			x.cannotSayJSON()
			return
		}
	}
	x.forget()
	x.document(http.StatusOK, statusDoc{Room: x.room.Name, Status: status, RoomState: x.stateNow()})
}

// notEntered answers somebody who has nothing to give up.
func (x *exchange) notEntered() {
	x.document(http.StatusOK, statusDoc{Room: x.room.Name, Status: statusNotEntered, RoomState: x.stateNow()})
}

// servePage is where front proxies lead whoever may not pass, and where people
// can be sent. It gives a place to somebody without one. A person gets the page,
// and goes on to the shop when it is their turn; a program gets JSON and has to
// send its request again, for what it sent went nowhere.
func (x *exchange) servePage() {
	x.decide(Answered, ReasonPage)
	x.caller = callerOf(x.r)
	if x.caller == passive {
		x.noPlace()
		return
	}
	query := x.r.URL.Query()
	x.back, x.sent, x.language = x.safeBack(query.Get("return")), query.Has("sent"), query.Get("lang")
	if x.room.off() {
		x.goOn(x.offDoc())
		return
	}
	value := x.showsPass()
	if value == unused || value == running {
		x.record.visitor = x.shown.pass.Visitor
		x.goOn(x.ownPass(value))
		return
	}
	x.readTicket()
	_, known := x.signOfLife()
	_, past := x.pastPass()
	if st, over := x.overByPass(); over && !known && !past {
		x.showStanding(st, query)
		return
	}
	st, _, err := x.stand(!known && !past && x.caller != socket)
	switch {
	case errors.Is(err, errJoinLimit):
		x.crowded()
		return
	case err != nil:
		x.unanswered()
		return
	}
	x.showStanding(st, query)
}

// showStanding answers servePage with what the line has said. A stay that has
// ended is said once and then forgotten; beginning again takes a click, or it
// would be a loop.
func (x *exchange) showStanding(st queue.Standing, query url.Values) {
	x.record.visitor = st.Visitor
	d, ok := x.describe(st)
	if !ok {
		x.decide(Refused, ReasonInternal)
		x.cannotSay()
		return
	}
	if st.State == queue.Ready || st.State == queue.Active {
		x.goOn(d)
		return
	}
	if st.State == queue.Ended {
		x.forget()
	}
	v := x.pageFor(st, d)
	v.Here, v.RefreshOff, v.Apart = x.wayBack(), query.Get("refresh") == "off", true
	x.refuse(d, v, http.StatusTooManyRequests)
}

// goOn answers servePage for somebody who need not wait. A person is sent on to
// where they want to go, on this site, but reads first that a form was not
// accepted.
func (x *exchange) goOn(d statusDoc) {
	if x.caller != navigation || x.sent {
		d.askAgain(x.room.askAgain())
		x.refuse(d, page.View{State: page.NotAccepted, Here: x.wayBack(), Poll: d.poll}, http.StatusTooManyRequests)
		return
	}
	x.record.decision.Reason = ReasonReturn
	x.w.Header().Set("Location", x.wayBack())
	x.text(http.StatusSeeOther, "It is your turn.\n")
}
