package queue

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// Method is what becomes of people who cannot be admitted at once.
type Method string

// The queueing methods of a line. (A room that lets everybody through needs no
// line.)
const (
	FIFO   Method = "fifo"   // they wait in the order of their joins
	Random Method = "random" // who joined before a draw shares its places by lot; a draw every full minute of room time
	Reject Method = "reject" // they get no place
)

// Options are a room's settings as one gate knows them. Durations are obeyed as
// the calling gate states them; the limits live in Redis and are written there
// by Line.Configure, so that all gates obey the same.
type Options struct {
	Redis   redis.Scripter // required
	Hints   Subscriber     // hears of turns at once (Line.Hints); nil: nothing is heard
	Room    string         // required; part of every key
	Prefix  string         // of every key; "qg" when empty
	Gate    string         // this process's name in the room; random when empty
	Version string         // of this program, as Line.Gates tells it; "dev" when empty
	Timeout time.Duration  // of all Redis work of one call, waiting for a batch included; 100 ms when 0

	Method  Method // FIFO when empty
	DrawKey []byte // keys the lots of a Random room, where it is required: at least 16 bytes that nobody outside knows

	Limits   Limits // at least one of Slots and PerMinute; Burst 0 means one second's worth, at least 1
	QueueAll bool   // nobody new gets in
	Message  string // to those who wait, while no live one is set

	Session        time.Duration // lease of an active visitor; 5 min when 0
	SessionMax     time.Duration // absolute end after the claim; 0 means none
	DisableRenewal bool          // a session ends after Session, active or not
	MaxRequest     time.Duration // how long past a session's last end requests in flight may keep the slot; 15 min when 0
	ClaimWindow    time.Duration // how long a ready pass is kept for its visitor; 90 s when 0
	PresenceWindow time.Duration // how late a sign of life may be; 10 s when 0
	WaitingTimeout time.Duration // how long the place of an absent visitor is kept; 30 min when 0
	RejoinAfter    time.Duration // how long after a successful order its visitor is barred (Line.Barred); 0 means not at all
	MaxWaiting     int64         // beyond it newcomers get no place; 0 means unbounded

	Log *slog.Logger // nothing is logged when nil
	// Hold tells whether this gate must let nobody in at the moment, however the room
	// stands; the line keeps its order and other gates go on. Never when nil.
	Hold func() bool
	// Observe is told of each call of a script that was sent, by name, and must not
	// take long; nobody is when nil.
	Observe func(script string, took time.Duration, err error)
}

func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = "qg"
	}
	if o.Gate == "" {
		o.Gate = rand.Text()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	defaults := []struct {
		value *time.Duration
		to    time.Duration
	}{
		{&o.Timeout, 100 * time.Millisecond}, {&o.Session, 5 * time.Minute}, {&o.ClaimWindow, 90 * time.Second},
		{&o.PresenceWindow, 10 * time.Second}, {&o.WaitingTimeout, 30 * time.Minute}, {&o.MaxRequest, 15 * time.Minute},
	}
	for _, d := range defaults {
		if *d.value == 0 {
			*d.value = d.to
		}
	}
	if o.Method == "" {
		o.Method = FIFO
	}
	if o.Limits.PerMinute > 0 && o.Limits.Burst == 0 {
		o.Limits.Burst = max(1, o.Limits.PerMinute/60)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Hold == nil {
		o.Hold = func() bool { return false }
	}
	if o.Observe == nil {
		o.Observe = func(string, time.Duration, error) {}
	}
	return o
}

func (o Options) validate() error {
	var problems []error
	if o.Redis == nil {
		problems = append(problems, errors.New("queue: Options.Redis is required"))
	}
	if o.Room == "" {
		problems = append(problems, errors.New("queue: Options.Room is required"))
	}
	switch o.Method {
	case FIFO, Reject:
	case Random:
		if len(o.DrawKey) < 16 {
			problems = append(problems, errors.New("queue: Options.DrawKey needs at least 16 bytes where Method is Random"))
		}
	default:
		problems = append(problems, fmt.Errorf("queue: Options.Method %q is not one of fifo, random, reject", o.Method))
	}
	l := o.Limits
	if l.Slots < 0 || l.PerMinute < 0 || l.Burst < 0 || l.Slots+l.PerMinute == 0 {
		problems = append(problems, errors.New("queue: Options.Limits needs Slots or PerMinute above 0, and none below"))
	}
	if l.Burst > l.PerMinute {
		problems = append(problems, fmt.Errorf("queue: Options.Limits.Burst %d is above PerMinute %d", l.Burst, l.PerMinute))
	}
	for name, d := range map[string]time.Duration{
		"Timeout": o.Timeout, "Session": o.Session, "SessionMax": o.SessionMax, "ClaimWindow": o.ClaimWindow,
		"PresenceWindow": o.PresenceWindow, "WaitingTimeout": o.WaitingTimeout, "MaxRequest": o.MaxRequest,
		"RejoinAfter": o.RejoinAfter,
	} {
		if d < 0 {
			problems = append(problems, fmt.Errorf("queue: Options.%s is negative", name))
		}
	}
	return errors.Join(problems...)
}
