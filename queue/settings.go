package queue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Setting names a value of a room that can be changed while it runs. Its value is
// a text: a whole number, a duration such as 5m0s, true or false, or plain text.
type Setting string

// The settings. Those of a file's room keep its names.
const (
	SettingState          Setting = "state"                // open, queue_all, paused, closed, sold_out
	SettingSlots          Setting = "total_active_users"   // 0: no such limit
	SettingPerMinute      Setting = "new_users_per_minute" // 0: no such limit
	SettingBurst          Setting = "burst"                // one second's worth when only the rate is changed
	SettingSession        Setting = "session_duration"
	SettingSessionMax     Setting = "session_max" // 0s: none
	SettingDisableRenewal Setting = "disable_session_renewal"
	SettingMessage        Setting = "message" // to those who wait, at most 500 characters
	SettingStock          Setting = "remaining_stock"
)

// ErrSetting is wrapped by every error about a Change that cannot be made; the
// message names the setting and the remedy.
var ErrSetting = errors.New("queue: the change cannot be made")

// SettingError is what is wrong with one setting of a Change; it wraps ErrSetting.
type SettingError struct {
	Setting Setting
	Problem string // what it must be, and what it is
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("%v: %s: %s", ErrSetting, e.Setting, e.Problem)
}

// Unwrap is ErrSetting.
func (e *SettingError) Unwrap() error { return ErrSetting }

// Settings are the values of a room in force.
type Settings struct {
	State          RoomState
	Limits         Limits
	Session        time.Duration
	SessionMax     time.Duration // 0: none
	DisableRenewal bool
	Message        string // empty: none
	Stock          *int64 // nil: not known
}

// values are texts by setting. One that is missing is not known.
type values map[Setting]string

// fileValues are what this gate's file says.
func (o Options) fileValues() values {
	state := Open
	if o.QueueAll {
		state = QueueAll
	}
	return Settings{
		State: state, Limits: o.Limits, Session: o.Session, SessionMax: o.SessionMax, DisableRenewal: o.DisableRenewal,
		Message: o.Message,
	}.values()
}

// settings reads texts, each of them and all together.
func (v values) settings() (Settings, error) {
	r := reader{values: v}
	s := Settings{
		State:   RoomState(v[SettingState]),
		Limits:  Limits{Slots: r.count(SettingSlots), PerMinute: r.count(SettingPerMinute), Burst: r.count(SettingBurst)},
		Session: r.duration(SettingSession), SessionMax: r.duration(SettingSessionMax),
		DisableRenewal: r.truth(SettingDisableRenewal), Message: v[SettingMessage],
	}
	if _, known := v[SettingStock]; known {
		s.Stock = new(r.count(SettingStock))
	}
	for name := range v {
		if !slices.Contains(AllSettings(), name) {
			r.fail(name, "there is no such setting")
		}
	}
	if states := RoomStates(); !slices.Contains(states, s.State) {
		r.fail(SettingState, "must be one of %v (got %q)", states, s.State)
	}
	if !showable(s.Message) {
		r.fail(SettingMessage, "must be UTF-8 of at most 500 characters without control characters")
	}
	l := s.Limits
	if l.Slots == 0 && l.PerMinute == 0 {
		r.fail(SettingSlots, "a room needs %s, %s or both", SettingSlots, SettingPerMinute)
	}
	if l.Burst > l.PerMinute || l.Burst == 0 && l.PerMinute > 0 {
		r.fail(SettingBurst, "must be from 1 to %s (%d)", SettingPerMinute, l.PerMinute)
	}
	if s.Session < shortestSession {
		r.fail(SettingSession, "must be at least 100ms")
	}
	if s.SessionMax > 0 && s.SessionMax < s.Session {
		r.fail(SettingSessionMax, "must not be below %s (%v), or 0s for none", SettingSession, s.Session)
	}
	return s, errors.Join(r.errs...)
}

// shortestSession is the least session_duration that a room can have.
const shortestSession = 100 * time.Millisecond

// showable tells whether a message can be shown to those who wait.
func showable(message string) bool {
	return utf8.ValidString(message) && utf8.RuneCountInString(message) <= 500 && !strings.ContainsFunc(message, unshowable)
}

func unshowable(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
}

// AllSettings lists the settings there are.
func AllSettings() []Setting {
	return []Setting{
		SettingState, SettingSlots, SettingPerMinute, SettingBurst, SettingSession, SettingSessionMax,
		SettingDisableRenewal, SettingMessage, SettingStock,
	}
}

// reader reads values and keeps what is wrong with them.
type reader struct {
	values values
	errs   []error
}

func (r *reader) fail(name Setting, format string, args ...any) {
	r.errs = append(r.errs, &SettingError{Setting: name, Problem: fmt.Sprintf(format, args...)})
}

func (r *reader) count(name Setting) int64 {
	n, err := strconv.ParseInt(r.values[name], 10, 64)
	if err != nil || n < 0 || n > 1<<52 {
		r.fail(name, "must be a whole number from 0 (got %q)", r.values[name])
	}
	return n
}

func (r *reader) duration(name Setting) time.Duration {
	d, err := time.ParseDuration(r.values[name])
	if err != nil || d < 0 {
		r.fail(name, "must be a duration such as 5m (got %q)", r.values[name])
	}
	return d
}

func (r *reader) truth(name Setting) bool {
	yes, err := strconv.ParseBool(r.values[name])
	if err != nil {
		r.fail(name, "must be true or false (got %q)", r.values[name])
	}
	return yes
}

// asked are the values of a room: the live ones before those of the file. A rate
// that was changed alone brings its own burst, one second's worth.
func (c Controls) asked() values {
	in := values{}
	maps.Copy(in, c.File)
	for name, live := range c.Live {
		in[name] = live.Value
	}
	_, rate := c.Live[SettingPerMinute]
	if _, burst := c.Live[SettingBurst]; rate && !burst {
		if n, err := strconv.ParseInt(in[SettingPerMinute], 10, 64); err == nil {
			in[SettingBurst] = strconv.FormatInt(min(n, max(1, n/60)), 10)
		}
	}
	return in
}

// readable is c without the live values that this program cannot read: a gate of
// another version may have set them, and the file's count here.
func (c Controls) readable() Controls {
	c.Live = maps.Clone(c.Live)
	maps.DeleteFunc(c.Live, func(name Setting, live Live) bool {
		r := reader{values: values{name: live.Value}}
		switch name {
		case SettingState:
			return !slices.Contains(RoomStates(), RoomState(live.Value))
		case SettingSlots, SettingPerMinute, SettingBurst, SettingStock:
			r.count(name)
		case SettingSession:
			return r.duration(name) < shortestSession
		case SettingSessionMax:
			r.duration(name)
		case SettingDisableRenewal:
			r.truth(name)
		default:
			return name != SettingMessage || !showable(live.Value)
		}
		return len(r.errs) > 0
	})
	return c
}

// inForce are the settings that go by what is asked. A file that was changed under
// live values may leave them contradicting each other: what is asked is bent then,
// never refused, for a room must go on.
func (c Controls) inForce() (Settings, error) {
	in, _ := c.readable().asked().settings()
	file, err := values(c.File).settings()
	if in.Limits.Slots == 0 && in.Limits.PerMinute == 0 {
		in.Limits = file.Limits
	}
	if in.Limits.PerMinute > 0 {
		in.Limits.Burst = min(max(1, in.Limits.Burst), in.Limits.PerMinute)
	} else {
		in.Limits.Burst = 0
	}
	if in.SessionMax > 0 {
		in.Session = min(in.Session, in.SessionMax)
	}
	return in, err
}
