package proxy

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/felixge/httpsnoop"

	"github.com/queuegate/queuegate/proxy/stream"
	"github.com/queuegate/queuegate/queue"
)

// streamsFullFor is how long somebody polls for whom there is no stream before
// asking for one again.
const streamsFullFor = time.Minute

// mostlySo is how long the documents of streams are, or a little more.
const mostlySo = 384

// CloseStreams ends the streams of all visitors with a word to come back after a
// few seconds, and opens no more. It returns when everybody was told.
func (g *Gate) CloseStreams() {
	var all sync.WaitGroup
	for _, rm := range g.rooms {
		if rm.streams != nil {
			all.Go(rm.streams.Close)
		}
	}
	all.Wait()
}

// serveEvents tells the visitor what happens, as server-sent events.
func (x *exchange) serveEvents() {
	if x.startsStream() {
		x.stream("")
	}
}

// serveSocket does the same over a WebSocket.
func (x *exchange) serveSocket() {
	if !x.startsStream() {
		return
	}
	accept, err := stream.AcceptKey(x.r)
	if err != nil || !isWebSocket(x.r) {
		x.decide(Refused, ReasonBadRequest)
		h := x.w.Header()
		h.Set("Upgrade", "websocket")
		h.Set("Sec-Websocket-Version", "13")
		x.problem(newProblem(http.StatusUpgradeRequired, "upgrade-required", "This address speaks WebSocket, version 13, over HTTP/1.1."))
		return
	}
	x.stream(accept)
}

// startsStream refuses what no stream answers: a HEAD, and a request of another
// site, which would read along with the visitor's cookies.
func (x *exchange) startsStream() bool {
	x.decide(Answered, ReasonStream)
	if x.r.Method == http.MethodHead {
		x.decide(Refused, ReasonMethod)
		x.w.Header().Set("Allow", http.MethodGet)
		x.problem(newProblem(http.StatusMethodNotAllowed, "method-not-allowed", ""))
		return false
	}
	asChange := *x.r // a GET by itself is let through by browsers' rules
	asChange.Method = http.MethodPost
	if x.g.crossOrigin.Check(&asChange) != nil {
		x.decide(Refused, ReasonCrossSite)
		x.problem(newProblem(http.StatusForbidden, "cross-site", "Another site asked for this stream; cors.allow_origins names those that may."))
		return false
	}
	return true
}

// stream answers with a stream for as long as the visitor waits, and with its last
// message alone who does not wait. The request itself is a sign of life, as a poll
// is; accept answers a WebSocket handshake and is empty for events.
func (x *exchange) stream(accept string) {
	if x.room.off() {
		x.streamOnce(accept, closing(x.offDoc()))
		return
	}
	x.readTicket()
	value := x.showsPass()
	if x.tooFast() {
		return
	}
	if value == unused || value == running {
		x.record.visitor = x.shown.pass.Visitor
		x.streamOnce(accept, closing(x.ownPass(value)))
		return
	}
	if x.ticket == nil && x.shown == nil && x.person == "" {
		p := newProblem(http.StatusConflict, "no-place", "There is no place to follow: join first, and show the ticket.")
		p.Room = x.room.Name
		x.decide(Refused, ReasonNoPlace)
		x.problem(p)
		return
	}
	st, _, err := x.stand(false)
	d, ok := x.told(st, err)
	switch {
	case !ok:
	case d.Status != statusWaiting:
		x.streamOnce(accept, closing(d))
	case err != nil && x.ticket == nil: // by a pass past its end: nothing to go by
		x.cannotSayJSON()
	default:
		x.watch(accept, st, d)
	}
}

// watch opens the stream of somebody who waits.
func (x *exchange) watch(accept string, st queue.Standing, d statusDoc) {
	f := x.follower(st, d, accept != "")
	s, err := x.room.streams.Open(f.ticket.Visitor, f)
	if err != nil {
		x.noStream(err)
		return
	}
	f.stream = s
	x.ownAnswer()
	w := httpsnoop.Wrap(x.w, httpsnoop.Hooks{
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					outlive(conn)
				}
				return conn, rw, err
			}
		},
	})
	first, ok := message(stream.Update, d), false
	if accept != "" {
		ok = s.ServeWebSocket(w, accept, first)
	} else {
		ok = s.ServeEvents(w, x.r, first)
		x.record.status = http.StatusOK
	}
	if !ok {
		x.decide(Refused, ReasonInternal)
		x.problem(newProblem(http.StatusInternalServerError, "internal", ""))
	}
}

// noStream answers 503: the visitor can poll instead.
func (x *exchange) noStream(err error) {
	x.decide(Refused, ReasonStreamsFull)
	wait := streamsFullFor
	if errors.Is(err, stream.ErrOver) {
		wait = defaultPoll
	}
	retryAfter(x.w.Header(), jitter(wait))
	p := newProblem(http.StatusServiceUnavailable, "streams-full", "This gate has as many streams as it can bear. Nothing is lost: ask for the status instead.")
	p.Room = x.room.Name
	x.problem(p)
}

// streamOnce answers with one message.
func (x *exchange) streamOnce(accept string, m stream.Message) {
	if accept == "" {
		x.send(http.StatusOK, "text/event-stream", stream.EncodeEvents(m))
		return
	}
	x.ownAnswer()
	stream.ServeOnce(x.w, accept, m)
}

// message makes a message of a document.
func message(event stream.Event, d statusDoc) stream.Message {
	return stream.Message{Event: event, Data: d.appendJSON(make([]byte, 0, mostlySo))}
}

// closing is the last message of a stream: ready with the pass, else closed.
func closing(d statusDoc) stream.Message {
	event := stream.Closed
	if d.Status == statusReady || d.Status == statusActive {
		event = stream.Ready
	}
	m := message(event, d)
	m.Last = true
	return m
}
