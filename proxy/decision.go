package proxy

// Decision is what the gate did with one request and why, for the access log
// and for metrics. All values come from this file and the configuration, never
// from a request.
type Decision struct {
	Outcome Outcome
	Reason  Reason
	Room    string // empty when no room is concerned
}

// Outcome is what became of a request.
type Outcome string

// The outcomes.
const (
	Proxied  Outcome = "proxied"  // the shop got it
	Allowed  Outcome = "allowed"  // a front proxy was told that it may pass
	Queued   Outcome = "queued"   // answered with a place in line, or the refusal of one
	Refused  Outcome = "refused"  // answered with an error; the shop saw nothing
	Answered Outcome = "answered" // one of our own endpoints
)

// Reason says why.
type Reason string

// The reasons.
const (
	ReasonTarget        Reason = "target"          // malformed or ambiguous request target
	ReasonUnprotected   Reason = "unprotected"     // no room protects it
	ReasonSuspended     Reason = "suspended"       // its room is off
	ReasonShadowPassed  Reason = "shadow_passed"   // its room diverts nobody: it would have passed
	ReasonShadowQueued  Reason = "shadow_queued"   // it would have been diverted
	ReasonShadowUnknown Reason = "shadow_unknown"  // Redis has not said which
	ReasonPassthrough   Reason = "passthrough"     // its room has no line
	ReasonExempt        Reason = "exempt"          // an exempt rule, or a CORS preflight
	ReasonPass          Reason = "pass"            // an active pass
	ReasonReadyPass     Reason = "ready_pass"      // a pass not taken up: no claiming request, or Redis away
	ReasonClaimed       Reason = "claimed"         // took up its pass with this request
	ReasonExchanged     Reason = "exchanged"       // a pass past its end whose lease is still held
	ReasonRenewed       Reason = "renewed"         // an active pass, renewed
	ReasonRestored      Reason = "restored"        // an active pass whose lease Redis had lost
	ReasonAdmitted      Reason = "admitted"        // nobody waits: joined and admitted with this request
	ReasonTurn          Reason = "turn"            // waited, and it is their turn
	ReasonFailOpen      Reason = "fail_open"       // Redis away, the room is set to open
	ReasonNewcomer      Reason = "newcomer"        // got a place
	ReasonWaiting       Reason = "waiting"         // has a place
	ReasonNoPlace       Reason = "no_place"        // prefetch, HEAD, subresource, WebSocket: no place given
	ReasonFull          Reason = "full"            // the line is full
	ReasonClosed        Reason = "closed"          // the room is closed
	ReasonSoldOut       Reason = "sold_out"        // nothing is left
	ReasonNoPass        Reason = "no_pass"         // a front proxy was told where the line is
	ReasonDegraded      Reason = "degraded"        // Redis away
	ReasonMaxInFlight   Reason = "max_in_flight"   // as many requests at the shop as allowed
	ReasonPassBusy      Reason = "pass_in_flight"  // its pass has its share of them there
	ReasonUsed          Reason = "already_used"    // an order has used the pass up
	ReasonUnderWay      Reason = "order_under_way" // another order with the pass is at the shop
	ReasonStatus        Reason = "status"
	ReasonJoin          Reason = "join"
	ReasonLeave         Reason = "leave"
	ReasonRelease       Reason = "release"
	ReasonPage          Reason = "page"
	ReasonTooFast       Reason = "too_fast"       // polls faster than allowed
	ReasonCrossSite     Reason = "cross_site"     // a change asked for by another site
	ReasonBadRequest    Reason = "bad_request"    // a body or header we cannot use
	ReasonNotFound      Reason = "not_found"      // no such endpoint or room
	ReasonMethod        Reason = "method"         // wrong method for the endpoint
	ReasonUntrusted     Reason = "untrusted_peer" // asks as a front proxy and is not named as one
	ReasonForwarded     Reason = "forwarded"      // does not tell which request it asks about
	ReasonInternal      Reason = "internal"       // a fault of ours
	ReasonStrict        Reason = "strict"         // a pass shown while Redis is away in a strict room
	ReasonReturn        Reason = "return"         // sent on from our page to the shop
	ReasonGone          Reason = "client_gone"    // the stream was reset before it was looked at
	ReasonJoinLimit     Reason = "join_limit"     // its address was given too many new places
	ReasonPreflight     Reason = "preflight"      // a browser asks what a script of another site may do
	ReasonStream        Reason = "stream"         // events or a WebSocket of somebody in line
	ReasonStreamsFull   Reason = "streams_full"   // as many streams as may be
	ReasonKeys          Reason = "keys"           // the public keys
	ReasonDescription   Reason = "description"    // of the visitor API
	ReasonScript        Reason = "script"         // the helper for single-page shops
)
