package proxy

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

const (
	// refusedBody is how much of the body of a refused request is read before the
	// answer, so that the connection can be used again.
	refusedBody = 256 << 10
	// lingerBody and lingerTime bound what is read and thrown away after the
	// answer to a longer one. A client that only looks for an answer after it has
	// sent everything would otherwise find a reset connection.
	lingerBody = 64 << 20
	lingerTime = 5 * time.Second
	// bodyTime bounds the wait for the body before the answer.
	bodyTime = 2 * time.Second
	// answerTime bounds how long a client takes to read an answer of ours. A page has
	// 30 KB, of which the kernel holds the most.
	answerTime = 30 * time.Second
	// shortAnswer is up to which length the server counts an answer by itself, which is
	// sent when its handler returns: a header less to set, to copy and to parse.
	shortAnswer = 1 << 10
)

// json answers with v.
func (x *exchange) json(status int, contentType string, v any) {
	body, err := json.Marshal(v)
	if err != nil { // only types of this package come here, and they all marshal
		status, contentType = http.StatusInternalServerError, "application/problem+json"
		body = []byte(`{"type":"` + problemBase + `internal","title":"Internal Server Error","status":500}`)
	}
	x.send(status, contentType, append(body, '\n'))
}

// send answers with body, the headers that every answer of ours has, and what
// this one hands out.
func (x *exchange) send(status int, contentType string, body []byte) {
	h := x.ownAnswer()
	x.lines.set(h, "Content-Type", contentType)
	unread := x.bodyUnread()
	if body != nil && (unread || len(body) > shortAnswer) {
		x.lines.set(h, "Content-Length", strconv.Itoa(len(body)))
	}
	if unread {
		x.sendAfterBody(func() { x.deliver(status, body) })
		return
	}
	x.deliver(status, body)
}

// deliver writes an answer of ours and gives up on a client that does not read it,
// which would hold the answer and who serves it for ever. The server lifts the bound
// when the answer is sent.
func (x *exchange) deliver(status int, body []byte) {
	_ = x.toward.SetWriteDeadline(time.Now().Add(answerTime))
	x.w.WriteHeader(status)
	// A client that went away is not told, and nobody else needs to know.
	_, _ = x.w.Write(body)
}

// ownAnswer sets the headers of an answer of ours.
func (x *exchange) ownAnswer() http.Header {
	h := x.w.Header()
	x.lines.ownHeaders(h)
	x.lines.set(h, "X-Request-Id", x.record.id)
	x.share(h)
	x.handOut(h)
	return h
}

// bodyUnread reports whether the client may still be sending, in a way that keeps it
// from reading an answer.
func (x *exchange) bodyUnread() bool {
	return x.r.ProtoMajor == 1 && x.r.Body != nil && x.r.Body != http.NoBody && !x.bodyRead
}

// sendAfterBody sends an answer of ours so that the client reads it whatever it
// is sending itself. A short body is read first; for a long one, or one that
// does not come, the connection ends with the answer. Nobody who asks before
// sending a body (Expect: 100-continue) is told to send it.
func (x *exchange) sendAfterBody(send func()) {
	if !x.bodyUnread() {
		send()
		return
	}
	body := x.r.Body
	control := http.NewResponseController(x.w)
	if expectsContinue(x.r) {
		x.w.Header().Set("Connection", "close")
		send()
		_ = control.Flush()
		_ = control.SetReadDeadline(time.Now()) // else the server would wait for the rest of a short one
		return
	}
	// Without this the server reads on its own and to its own bound. Where it is
	// not supported that is what happens, and the answer is sent all the same.
	_ = control.EnableFullDuplex()
	whole := false
	if x.r.ContentLength <= refusedBody {
		_ = control.SetReadDeadline(time.Now().Add(bodyTime))
		_, err := io.CopyN(io.Discard, body, refusedBody+1)
		if whole = errors.Is(err, io.EOF); whole {
			_ = control.SetReadDeadline(time.Time{})
		}
	}
	if whole {
		send()
		return
	}
	x.w.Header().Set("Connection", "close")
	send()
	if control.Flush() != nil {
		return
	}
	_ = control.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, body, lingerBody)
	_ = control.SetReadDeadline(time.Now())
}

func expectsContinue(r *http.Request) bool {
	for _, v := range r.Header["Expect"] {
		if strings.EqualFold(textproto.TrimString(v), "100-continue") {
			return true
		}
	}
	return false
}
