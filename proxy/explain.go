package proxy

import (
	"net/http"

	"github.com/queuegate/queuegate/proxy/route"
)

// Explanation is what the gate makes of a request before it looks at any pass.
type Explanation struct {
	Method string `json:"method"`
	Target string `json:"target"` // as the shop would get it; empty when refused unread
	Host   string `json:"host"`   // asked for, in its normal spelling
	// UnknownHost: rules name hosts, but none of them this one, so that the rules
	// of every host count.
	UnknownHost bool `json:"unknown_host,omitempty"`
	// Client is the address of who asks, as trusted_proxies and X-Forwarded-For
	// tell it; empty when the request came from none.
	Client string `json:"client,omitempty"`
	// MethodOverride: a header asks the shop to see another method.
	MethodOverride bool `json:"method_override,omitempty"`
	// Readings are the paths the target may stand for, and the rules for each.
	Readings []route.Explained `json:"readings"`
	// Verdict is what becomes of it.
	Verdict Verdict `json:"verdict"`
	// Status of the answer to a refused request, 0 otherwise, and why it is refused.
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Room concerned, the rule that decided, such as rooms[0].exempt[1], and why in
	// a word: a constant of this package or of route.
	Room   string `json:"room,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason"`
	// Sender is what kind of program the gate takes the sender for, which shapes
	// the answer of the gate.
	Sender string `json:"sender"`
}

// Verdict is what becomes of a request.
type Verdict string

// The verdicts.
const (
	VerdictRefused   Verdict = "refused"   // answered with Status; the shop sees nothing
	VerdictOwn       Verdict = "own"       // one of the gate's own addresses, which the shop never sees
	VerdictOpen      Verdict = "open"      // no room protects it: to the shop
	VerdictExempt    Verdict = "exempt"    // its room lets it through
	VerdictOff       Verdict = "off"       // its room is suspended or has no line: to the shop
	VerdictProtected Verdict = "protected" // to the shop with a pass of Room, else in line
)

// Explain judges r with the code that serves requests. r is a request as a
// server reads it: RequestURI is the target as sent, RemoteAddr the peer.
func (g *Gate) Explain(r *http.Request) Explanation {
	client := g.clients.Of(r)
	j := g.judge(r, client)
	e := Explanation{
		Method: r.Method, Target: j.target.Raw, Host: j.target.Host, UnknownHost: g.table.UnknownHost(j.target.Host),
		MethodOverride: route.OverridesMethod(r), Readings: g.table.Explain(r, j.target, client),
		Verdict: j.outcome(), Status: j.status, Detail: j.detail,
		Room: j.verdict.Room, Rule: j.verdict.Rule, Reason: j.verdict.Reason, Sender: callerOf(r).String(),
	}
	if client.IsValid() {
		e.Client = client.String()
	}
	if e.Verdict == VerdictOff || e.Reason == "" {
		e.Reason = string(j.reason)
	}
	return e
}

// outcome is the verdict in a word.
func (j judgement) outcome() Verdict {
	switch {
	case j.next == refuse:
		return VerdictRefused
	case j.next == ownAddress:
		return VerdictOwn
	case j.next == askForPass:
		return VerdictProtected
	case j.room == nil:
		return VerdictOpen
	case j.room.off():
		return VerdictOff
	default:
		return VerdictExempt
	}
}

// String names the sender in a word.
func (c caller) String() string {
	switch c {
	case navigation:
		return "navigation"
	case socket:
		return "websocket"
	case passive:
		return "passive"
	default:
		return "program"
	}
}
