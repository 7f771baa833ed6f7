package admin

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/queuegate/queuegate/queue"
)

// RoomList is the answer of GET /api/rooms.
type RoomList struct {
	Rooms []RoomView `json:"rooms"`
}

// RoomView is a room as the gate that was asked sees it, at most about half a second
// behind Redis.
type RoomView struct {
	Room           string `json:"room"`
	QueueingMethod string `json:"queueing_method"` // fifo, random, reject, passthrough
	// State is that in force, or suspended where the file says so: such a room, and one that
	// lets everybody through, has no line, no settings and no numbers.
	State string `json:"state"`
	// Shadow: the room decides and counts, and the gate that was asked diverts nobody.
	Shadow  bool `json:"shadow"`
	RedisUp bool `json:"redis_up"`
	// AsOf is when Redis told the numbers, by its TIME; nil before it answered for the
	// first time.
	AsOf *time.Time `json:"as_of"`
	// ShopRefuses: the shop takes no connections of the gate that was asked, which lets
	// nobody in.
	ShopRefuses bool `json:"shop_refuses"`
	// Waiting are the people in line who are here, Active the slots that are taken;
	// nil before Redis answered for the first time.
	Waiting *int64 `json:"waiting"`
	Active  *int64 `json:"active"`
	// MaxWaiting is beyond how many waiting newcomers get no place; nil: no bound.
	MaxWaiting *int64 `json:"max_waiting"`
	// Admissions is the flow of late, a minute, while people wait; nil while there is
	// no measure. Wait is what somebody at the end of the line is told; nil when
	// nobody can say.
	Admissions *float64 `json:"admissions_per_minute"`
	Wait       *int64   `json:"estimated_wait_seconds"`
	// Healing is how much longer nobody is admitted after Redis lost its history.
	Healing int64 `json:"healing_seconds"`
	// Generation is raised by every reset, Version by every change of a setting.
	Generation int64                         `json:"generation"`
	Version    int64                         `json:"version"`
	Settings   map[queue.Setting]SettingView `json:"settings,omitempty"`
	History    []ChangeView                  `json:"history,omitempty"`
}

// SettingView is one value in force and where it comes from. Values are numbers,
// truths, durations as texts (5m0s), texts, or null when not known.
type SettingView struct {
	Value  any          `json:"value"`
	Source queue.Origin `json:"source"` // file, live, derived
	File   any          `json:"file"`
	Live   *LiveView    `json:"live,omitempty"`
}

// LiveView is a value that somebody set.
type LiveView struct {
	Value any       `json:"value"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
}

// ChangeView is one change of the past, or something that was done: admit, release,
// reset.
type ChangeView struct {
	What    queue.Setting `json:"what"`
	Old     any           `json:"old"`
	New     any           `json:"new"`
	Cleared bool          `json:"cleared"` // the file's value counts again
	By      string        `json:"by"`
	At      time.Time     `json:"at"`
}

// Admitted is the answer of POST /api/rooms/{room}/admit.
type Admitted struct {
	Asked    int64    `json:"asked"`
	Admitted int64    `json:"admitted"`
	Room     RoomView `json:"room"`
}

// VisitorView is where one visitor stands.
type VisitorView struct {
	Room    string `json:"room"`
	Visitor string `json:"visitor"`
	Status  string `json:"status"` // away, waiting, ready, active, ended
	Why     string `json:"why"`    // of an end: consumed, released, left, moved, expired
	Place   *int64 `json:"place"`
	// Ahead and Wait are of somebody in line, Admission and LeaseEnd of a pass.
	Ahead     *int64     `json:"ahead"`
	Wait      *int64     `json:"estimated_wait_seconds"`
	Joined    *time.Time `json:"joined_at"`
	Admission string     `json:"admission"`
	LeaseEnd  *time.Time `json:"lease_end_at"`
	Ordering  bool       `json:"order_in_flight"`
}

// kind is how a setting is written in JSON.
type kind int

const (
	number kind = iota
	text
	duration
	truth
)

// kinds are those of the settings.
func kinds() map[queue.Setting]kind {
	return map[queue.Setting]kind{
		queue.SettingState: text, queue.SettingSlots: number, queue.SettingPerMinute: number, queue.SettingBurst: number,
		queue.SettingSession: duration, queue.SettingSessionMax: duration, queue.SettingDisableRenewal: truth,
		queue.SettingMessage: text, queue.SettingStock: number, queue.ActionAdmit: number, queue.ActionReset: number,
		queue.ActionRelease: text,
	}
}

// value is a setting's text as JSON has it. Nothing is null but for texts, where it
// is the empty one.
func value(name queue.Setting, of string) any {
	k := kinds()[name]
	if of == "" && k != text {
		return nil
	}
	switch k {
	case number:
		return json.Number(of)
	case truth:
		yes, _ := strconv.ParseBool(of)
		return yes
	default:
		return of
	}
}

// view shows a room.
func (a *api) view(rm Room, history bool) RoomView {
	v := RoomView{Room: rm.Name, QueueingMethod: rm.Method, Shadow: rm.Shadow, ShopRefuses: a.refuses(rm.Name)}
	if rm.MaxWaiting > 0 {
		v.MaxWaiting = &rm.MaxWaiting
	}
	if rm.Line == nil {
		v.State, v.RedisUp = string(queue.Open), true
		if rm.Suspended {
			v.State = suspended
		}
		return v
	}
	controls := rm.Line.Controls()
	v.Version, v.RedisUp = controls.Version, rm.Line.Up()
	v.Settings = map[queue.Setting]SettingView{}
	for name, in := range controls.InForce() {
		s := SettingView{Value: value(name, in.Value), Source: in.Origin, File: value(name, in.File)}
		if in.Live != nil {
			s.Live = &LiveView{Value: value(name, in.Live.Value), By: in.Live.By, At: in.Live.At}
		}
		v.Settings[name] = s
		if name == queue.SettingState {
			v.State = in.Value
		}
	}
	if history {
		v.History = changes(controls.History)
	}
	if now, ok := rm.Line.Room(); ok {
		v.measured(now)
	}
	return v
}

func (v *RoomView) measured(now queue.Room) {
	v.Waiting, v.Active, v.Generation = &now.Waiting, &now.Holding, now.Generation
	v.Healing = int64(now.Healing.Seconds())
	v.AsOf = new(now.Clock.UTC())
	if now.Flow > 0 {
		v.Admissions = new(float64(int64(now.Flow*6000)) / 100)
	}
	if wait, ok := now.WaitFor(now.Waiting); ok {
		v.Wait = new(int64(wait.Seconds()))
	}
}

// changes shows a history, the newest first.
func changes(history []queue.Changed) []ChangeView {
	out := make([]ChangeView, len(history))
	for i, c := range history {
		out[len(history)-1-i] = ChangeView{
			What: c.Setting, Old: value(c.Setting, c.Old), New: value(c.Setting, c.New), Cleared: c.Cleared, By: c.By, At: c.At,
		}
	}
	return out
}

func visitorView(room string, s queue.Standing) VisitorView {
	v := VisitorView{Room: room, Visitor: s.Visitor, Status: string(s.State), Why: string(s.Why)}
	if s.Place > 0 {
		v.Place, v.Joined = &s.Place, new(s.Joined.UTC())
	}
	switch s.State {
	case queue.Away, queue.Waiting:
		if s.Ahead >= 0 {
			v.Ahead = &s.Ahead
		}
		if s.WaitKnown {
			v.Wait = new(int64(s.Wait.Seconds()))
		}
	case queue.Ready, queue.Active:
		v.Admission, v.LeaseEnd, v.Ordering = s.Lease.Admission, new(s.Lease.Until.UTC()), s.Lease.Order != ""
	}
	return v
}
