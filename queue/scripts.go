package queue

import (
	"context"
	_ "embed" // the Lua files are part of the program
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/room.lua
var roomLua string

//go:embed lua/people.lua
var peopleLua string

//go:embed lua/slots.lua
var slotsLua string

//go:embed lua/answers.lua
var answersLua string

//go:embed lua/join.lua
var joinLua string

//go:embed lua/touch.lua
var touchLua string

//go:embed lua/claim.lua
var claimLua string

//go:embed lua/renew.lua
var renewLua string

//go:embed lua/finish.lua
var finishLua string

//go:embed lua/tick.lua
var tickLua string

//go:embed lua/move.lua
var moveLua string

//go:embed lua/heal.lua
var healLua string

//go:embed lua/configure.lua
var configureLua string

//go:embed lua/admit.lua
var admitLua string

//go:embed lua/reset.lua
var resetLua string

//go:embed lua/tally.lua
var tallyLua string

//go:embed lua/record.lua
var recordLua string

//go:embed lua/history.lua
var historyLua string

//go:embed lua/gates.lua
var gatesLua string

// scripts are the compiled operations of a room; each but the last four, which are
// for operators, is the common part and its own file. The server keeps them by hash: an unknown hash (a restart, a failover,
// SCRIPT FLUSH) costs one more round trip inside the same call.
type scripts struct {
	join, touch, claim, renew, finish, move, tick, heal, configure, admit, reset script
	tally, record, history, gates                                                script
}

// script is one of them and the name it is counted under.
type script struct {
	name string
	*redis.Script
}

func newScripts() scripts {
	named := func(name, body string) script {
		return script{name, redis.NewScript(roomLua + peopleLua + slotsLua + answersLua + body)}
	}
	return scripts{
		join: named("join", joinLua), touch: named("touch", touchLua), claim: named("claim", claimLua),
		renew: named("renew", renewLua), finish: named("finish", finishLua), move: named("move", moveLua),
		tick: named("tick", tickLua), heal: named("heal", healLua), configure: named("configure", configureLua),
		admit: named("admit", admitLua), reset: named("reset", resetLua),
		tally: script{"tally", redis.NewScript(tallyLua)}, record: script{"record", redis.NewScript(recordLua)},
		history: script{"history", redis.NewScript(historyLua)}, gates: script{"gates", redis.NewScript(gatesLua)},
	}
}

// ScriptNames are the names by which Options.Observe is told of calls.
func ScriptNames() []string {
	s := newScripts()
	var names []string
	for _, script := range []script{
		s.join, s.touch, s.claim, s.renew, s.finish, s.move, s.tick, s.heal, s.configure, s.admit, s.reset, s.tally,
	} {
		names = append(names, script.name)
	}
	return names
}

// call is what every script is told first, as JSON. Times are milliseconds.
type call struct {
	ID             string `json:"id"` // told again in the answer
	Gate           string `json:"gate"`
	Now            int64  `json:"now"`     // room time of this gate's last answer
	Epoch          int64  `json:"epoch"`   // epoch of this gate's last answer
	Highest        int64  `json:"highest"` // highest place anything in this call shows
	Latest         int64  `json:"latest"`  // latest and earliest epoch of its tickets and tokens, 0 when there are none
	Earliest       int64  `json:"earliest"`
	Reached        int64  `json:"reached"` // highest place and latest sign of life shown by those of the latest epoch
	Seen           int64  `json:"seen"`
	Generation     int64  `json:"generation"` // latest that this gate or anything in this call knows
	Holding        int64  `json:"holding"`    // slots taken at this gate's last answer
	Method         string `json:"method"`
	DrawKey        string `json:"draw_key"`
	Session        int64  `json:"session"`
	SessionMax     int64  `json:"session_max"`
	Renewal        bool   `json:"renewal"`
	MaxRequest     int64  `json:"max_request"`
	ClaimWindow    int64  `json:"claim_window"`
	PresenceWindow int64  `json:"presence_window"`
	WaitingTimeout int64  `json:"waiting_timeout"`
	MaxWaiting     int64  `json:"max_waiting"`
	Hold           bool   `json:"hold"` // nobody is admitted by this call
}

// shown is what the tickets and tokens of one call show.
type shown struct {
	highest          int64 // place
	latest, earliest int64 // epoch
	reached, seen    int64 // place and sign of life, by what is of the latest epoch
	generation       int64 // the latest
}

// prove adds a ticket or token: in that epoch there was that place, and that sign
// of life.
func (s *shown) prove(place, epoch, seen int64) {
	if epoch > s.latest {
		s.reached, s.seen = 0, 0
	}
	s.highest = max(s.highest, place)
	s.latest = max(s.latest, epoch)
	if epoch > 0 && (s.earliest == 0 || epoch < s.earliest) {
		s.earliest = epoch
	}
	if epoch == s.latest && epoch > 0 {
		s.reached, s.seen = max(s.reached, place), max(s.seen, seen)
	}
}

// reply is one script's answer: the room, and what follows it.
type reply struct {
	room Room
	rest []any
}

// run calls one script with a context of its own: a visitor who hangs up must
// not break a connection that others share.
func (l *Line) run(ctx context.Context, script script, show shown, args ...any) (reply, error) {
	c := l.callHeader(show)
	head, err := json.Marshal(c)
	if err != nil {
		return reply{}, fmt.Errorf("queue: encode call: %w", err)
	}
	sent := time.Now()
	raw, err := script.Run(ctx, l.opts().Redis, l.keys, append([]any{head}, args...)...).Slice()
	l.breaker.heard(err)
	l.opts().Observe(script.name, time.Since(sent), err)
	if err != nil {
		l.up.Store(false)
		fault := FaultOf(err)
		l.problem.Store(&fault)
		return reply{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	answer, err := parseReply(raw, c.ID)
	if err != nil {
		return reply{}, err
	}
	l.learn(answer, sent)
	return answer, nil
}

// exact is the greatest whole number that Lua holds exactly: a script tells none
// beyond it.
const exact = 1 << 53

// headerLength is how many values answers.lua's header() returns.
const headerLength = 14

// fields reads a script's list of texts and integers; the first value that is
// not what it should be is kept and reported once, at the end.
type fields struct {
	values []any
	at     int
	err    error
}

func (f *fields) text() string {
	if f.at >= len(f.values) {
		f.err = fmt.Errorf("%w: too few values (%d)", ErrReply, len(f.values))
		return ""
	}
	value := f.values[f.at]
	f.at++
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	default:
		f.err = fmt.Errorf("%w: value %d is a %T", ErrReply, f.at, value)
		return ""
	}
}

func (f *fields) number() int64 {
	if f.at < len(f.values) {
		if n, ok := f.values[f.at].(int64); ok && -exact <= n && n <= exact {
			f.at++
			return n
		}
	}
	text := f.text()
	if f.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < -exact || exact < n {
		f.err = fmt.Errorf("%w: value %d is not a whole number that a script can tell", ErrReply, f.at)
	}
	return n
}

// parseReply reads the answer to the call of that id. An answer to another call,
// from a connection on which questions and answers no longer match, says nothing of
// this one, and is not told: it is about other people.
func parseReply(raw []any, id string) (reply, error) {
	if len(raw) == 0 {
		return reply{}, fmt.Errorf("%w: empty", ErrReply)
	}
	head, ok := raw[0].([]any)
	if !ok || len(head) != headerLength {
		return reply{}, fmt.Errorf("%w: header of %d values", ErrReply, len(head))
	}
	f := &fields{values: head}
	if f.text() != id {
		return reply{}, fmt.Errorf("%w: %w: the answer to another call", ErrUnavailable, ErrReply)
	}
	answer := reply{rest: raw[1:]}
	answer.room = Room{
		Now: f.number(), Clock: time.UnixMilli(f.number()), Epoch: f.number(), Generation: f.number(),
		State: RoomState(f.text()), Waiting: f.number(), Holding: f.number(),
		Limits: Limits{Slots: f.number(), PerMinute: f.number(), Burst: f.number()},
		Flow:   float64(f.number()) / 1e6, Thinning: float64(f.number()) / 1e9,
		Healing: time.Duration(f.number()) * time.Millisecond,
	}
	if f.err != nil {
		return reply{}, f.err
	}
	return answer, nil
}

// standings reads one standing for each of n visitors, one after the other.
func (l *Line) standings(r reply, n int) ([]Standing, error) {
	out := make([]Standing, n)
	f := &fields{values: r.rest}
	for i := range out {
		out[i] = l.standing(f, r.room)
		if f.err != nil {
			return nil, fmt.Errorf("standing %d of %d: %w", i+1, n, f.err)
		}
	}
	if f.at != len(f.values) {
		return nil, fmt.Errorf("%w: %d values after the last of %d standings", ErrReply, len(f.values)-f.at, n)
	}
	return out, nil
}

// standing reads what answers.lua wrote.
func (l *Line) standing(f *fields, room Room) Standing {
	s := Standing{State: State(f.text()), Room: room, Waiting: room.Waiting}
	switch s.State {
	case Away, Waiting:
		s.Place, s.Ahead, s.Due = f.number(), f.number(), f.number()
		s.Poll = l.pollFor(max(0, s.Ahead))
		if s.Ahead < 0 { // before the draw it may be everybody
			s.Poll = l.pollFor(room.Waiting)
		}
	case Ready, Active:
		s.Place = f.number()
		s.Lease = Lease{Place: s.Place, Admission: f.text(), End: f.number(), Started: f.number(), Order: f.text()}
		if f.err == nil && (s.Place < 1 || s.Lease.Admission == "" || s.Lease.End < 1) {
			f.err = fmt.Errorf("%w: a pass for nothing", ErrReply)
		}
		s.Lease.Until = room.Clock.Add(time.Duration(s.Lease.End-room.Now) * time.Millisecond)
		s.Poll = l.pollFor(0)
	case Ended:
		s.Place, s.Why = f.number(), Why(f.text())
		f.text() // the admission that ended
		s.Poll = l.pollFor(0)
	case Unknown:
		s.Refusal = Refusal(f.text())
		s.Poll = l.pollFor(room.Waiting)
	default:
		f.err = fmt.Errorf("%w: state %q", ErrReply, s.State)
	}
	return s
}
