package chaos

import (
	"fmt"
	"time"

	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
)

// At is a moment of the run: the time since it began.
type At = crowd.At

// Fault is a trouble as it came: what was planned, and when it was really so. A gate's
// fault ends when the gate serves again.
type Fault struct {
	Event
	Gates        []int // that it was done to
	Began, Ended At
	Lost         bool // history of Redis was lost, or may have been
	Told         string
}

// String begins with its moment, as all lines of a story do.
func (f Fault) String() string {
	text := fmt.Sprintf("%.3f s-%.3f s %s", f.Began.Seconds(), f.Ended.Seconds(), f.Kind)
	for _, g := range f.Gates {
		text += fmt.Sprintf(" %d", g)
	}
	if f.Told != "" {
		text += ": " + f.Told
	}
	return text
}

// Ends tells whether the fault ended the processes of its gates.
func (f Fault) ends() bool {
	return f.Kind == GateKilled || f.Kind == GatesKilled || f.Kind == GateRestarted
}

// over tells whether two times overlap.
func over(began, ended, from, to At) bool { return began <= to && from <= ended }

// Call is what a watcher asked and got.
type Call struct {
	What      What
	Gate      int
	Sent, Got At
	Code      int    // 0: no answer
	Why       string // there was none
	Degraded  bool   // the answer says that Redis is away
}

// What a watcher asks for.
type What string

// The calls of watchers.
const (
	Direct What = "a server that nothing is done to" // how slow this machine is
	Open   What = "an unprotected route"             // through a gate
	Status What = "a place in the line"              // answered by a gate, with or without Redis
)

func (c Call) String() string {
	text := fmt.Sprintf("%.3f s-%.3f s %s at gate %d: ", c.Sent.Seconds(), c.Got.Seconds(), c.What, c.Gate)
	if c.Code == 0 {
		return text + "no answer: " + c.Why
	}
	text += fmt.Sprint(c.Code)
	if c.Degraded {
		text += " (degraded)"
	}
	return text
}

// Order is one order as the shop had it: its answer was a success and was sent whole.
type Order struct {
	Person     int
	Admission  string
	Begin, End At
}

// Sold is a success of an order that a client was told of.
type Sold struct {
	Admission string
	Gate      int
	Sent, Got At
}

// Log is what one process of a gate wrote.
type Log struct {
	Gate int
	Text string
}

// Evidence is what is known of one run, beside what the people of each room tell.
type Evidence struct {
	Recovery time.Duration // after the last fault, within which a gate speaks for Redis again
	Faults   []Fault
	Calls    []Call
	Orders   []Order
	Sold     []Sold
	Logs     []Log
	// Secrets are tickets and passes that were handed out.
	Secrets []string
}

// Promises beside those of the crowd.
const (
	Bounded     = "decisions bounded"
	Unprotected = "unprotected routes"
	Recovered   = "recovery"
	OrderOnce   = "one order"
	NoSecrets   = "no secret in a log"
	AllTold     = "capacity over a loss"
)

// Audit runs every check.
func (e *Evidence) Audit() (found []crowd.Finding) {
	found = append(found, e.checkUnprotected()...)
	found = append(found, e.checkBounded()...)
	found = append(found, e.checkRecovered()...)
	found = append(found, e.checkOrders()...)
	return append(found, e.checkSecrets()...)
}
