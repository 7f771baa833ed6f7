package proxy

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// maxJoinBody bounds the body of a join in bytes.
	maxJoinBody = 16 << 10
	// joinTime bounds the wait for it.
	joinTime = 10 * time.Second
)

// serveJoin gives a place, or tells of the one there is.
func (x *exchange) serveJoin() {
	x.decide(Answered, ReasonJoin)
	back, problem := x.readJoin()
	if problem != nil {
		x.decide(Refused, ReasonBadRequest)
		x.problem(*problem)
		return
	}
	x.back, x.joinKey = back, true
	if x.offDuty() || x.byOwnPass(x.showsPass()) {
		return
	}
	x.readTicket()
	if x.tooFast() {
		return
	}
	st, _, err := x.stand(true)
	x.tell(st, err)
}

// joinBody is what a join may say.
type joinBody struct {
	ReturnTo string `json:"return_to"`
}

// readJoin reads the body and the key of a join.
func (x *exchange) readJoin() (back string, refusal *problem) {
	refuse := func(status int, detail string) (string, *problem) {
		p := newProblem(status, "bad-request", detail)
		return "", &p
	}
	if keys := x.r.Header.Values("Idempotency-Key"); len(keys) > 0 {
		if one, ok := single(keys); !ok || len(one) == 0 || !validKey(one[0]) {
			return refuse(http.StatusBadRequest, "Idempotency-Key must be one value of 16 to 64 visible characters.")
		}
	}
	if x.r.Body == http.NoBody { // as most send it; else two deadlines and a buffer for nothing
		x.bodyRead = true
		return "", nil
	}
	if x.r.ContentLength > maxJoinBody {
		return refuse(http.StatusRequestEntityTooLarge, "The body of a join is at most 16 KiB.")
	}
	control := http.NewResponseController(x.w)
	_ = control.SetReadDeadline(time.Now().Add(joinTime))
	raw, err := io.ReadAll(io.LimitReader(x.r.Body, maxJoinBody+1))
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, "The body could not be read to its end, or did not arrive in time.")
	case len(raw) > maxJoinBody:
		return refuse(http.StatusRequestEntityTooLarge, "The body of a join is at most 16 KiB.")
	}
	x.bodyRead = true
	_ = control.SetReadDeadline(time.Time{})
	if len(strings.TrimSpace(string(raw))) == 0 {
		return "", nil
	}
	var body joinBody
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		return refuse(http.StatusBadRequest, `The body must be {"return_to":"/path"} or nothing.`)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return refuse(http.StatusBadRequest, "The body must be one JSON object.")
	}
	return x.safeBack(body.ReturnTo), nil
}
