package proxy

import (
	"net/http"
	"net/netip"

	"github.com/queuegate/queuegate/proxy/route"
)

// judgement is what the first three questions of the package comment say of a
// request: all that can be said without looking at who sends it.
type judgement struct {
	target  route.Target
	verdict route.Verdict
	room    *room // nil where no room is concerned
	next    next
	reason  Reason
	status  int    // of the answer to a request that is refused
	detail  string // why, for who sent it
}

// next is what a judgement asks for.
type next int

const (
	refuse     next = iota // answered with status; the shop sees nothing
	ownAddress             // one of our own addresses
	letThrough             // to the shop
	askForPass             // to the shop with a pass, else to the line
)

// judge is the one place where it is decided what a request is. The gate, the
// endpoint for front proxies and Explain all ask it, so that they cannot differ.
func (g *Gate) judge(r *http.Request, client netip.Addr) judgement {
	target, refusal := route.Parse(r)
	if refusal != nil {
		return judgement{next: refuse, reason: ReasonTarget, status: refusal.Status, detail: refusal.Reason}
	}
	j := judgement{target: target, verdict: g.table.Match(r, target, client)}
	j.room = g.rooms[j.verdict.Room]
	switch kind := j.verdict.Kind; {
	case kind == route.Reserved:
		j.next = ownAddress
	case kind == route.Refused:
		return j.refused(ReasonTarget, http.StatusBadRequest, "the target could belong to more than one room")
	case !g.shop.forwardable(target.Raw):
		return j.refused(ReasonTarget, http.StatusBadRequest, "the path begins with // and holds bytes that a URL may not hold unescaped")
	case kind == route.Open:
		j.next, j.reason = letThrough, ReasonUnprotected
	case j.room == nil: // the table knows no room that is not in g.rooms
		return j.refused(ReasonInternal, http.StatusInternalServerError, "")
	case j.room.off() && !(j.room.Shadow && kind == route.Exempt):
		j.next, j.reason = letThrough, j.room.whyOff()
	case kind == route.Exempt:
		j.next, j.reason = letThrough, ReasonExempt
	default:
		j.next = askForPass
	}
	return j
}

func (j judgement) refused(reason Reason, status int, detail string) judgement {
	j.next, j.reason, j.status, j.detail = refuse, reason, status, detail
	return j
}
