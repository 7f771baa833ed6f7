package admin

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/queuegate/queuegate/queue"
)

// Preview is the answer of POST /api/rooms/{room}/preview: what a plan would do, as
// far as it can be told by what was measured of late. What nobody can say is nil.
type Preview struct {
	Room string `json:"room"`
	// Version is that of the values it was made from; with it in If-Match a change is
	// made only while they are still the same.
	Version int64          `json:"version"`
	Changes []ForeseenView `json:"changes"`
	Now     OutlookView    `json:"now"`
	Then    OutlookView    `json:"then"`
	// AtOnce is how many would be let in at once, at most.
	AtOnce int64 `json:"let_in_at_once"`
	// Over is how many more hold slots than the limit would have, and Drain how long
	// it takes until they are done; nobody is let in meanwhile.
	Over  int64     `json:"over_limit"`
	Drain *SpanView `json:"drain"`
	// Places and Passes are how many people would lose theirs.
	Places  *int64       `json:"places_lost"`
	Passes  int64        `json:"passes_lost"`
	Visitor *VisitorView `json:"visitor,omitempty"` // of a release
}

// ForeseenView is one value that would be another.
type ForeseenView struct {
	What   queue.Setting `json:"what"`
	Old    any           `json:"old"`
	New    any           `json:"new"`
	Source queue.Origin  `json:"source"` // of the new one
}

// OutlookView is a room as those in line have it.
type OutlookView struct {
	State       queue.RoomState `json:"state"`
	Waiting     int64           `json:"waiting"`
	Active      int64           `json:"active"`
	ActiveLimit int64           `json:"active_limit"`
	RateLimit   int64           `json:"rate_limit_per_minute"`
	// Admissions is how many a minute are let in; nil when nobody can say.
	Admissions *float64 `json:"admissions_per_minute"`
	// Typical and Last are the waits from now on of one in the middle of the line and
	// of the one at its end; nil when nobody waits, nobody is let in or nobody can say.
	Typical *SpanView `json:"wait_typical"`
	Last    *SpanView `json:"wait_last"`
}

// SpanView is between what a time is expected to be.
type SpanView struct {
	From int64 `json:"from_seconds"`
	To   int64 `json:"to_seconds"`
}

// foresee answers what a plan would do, and does nothing of it. The body is what
// PATCH takes, or what is done once, by its name.
func (c *call) foresee() {
	plan, ok := c.readPlan()
	if !ok {
		return
	}
	f, err := c.room.Line.Foresee(c.ctx, plan)
	switch {
	case err != nil:
		c.failed(err)
		return
	case f.Visitor != nil && f.Visitor.State == queue.Unknown:
		c.nobody()
		return
	}
	answer(c.w, http.StatusOK, "application/json", forecastView(c.room.Name, f))
}

// readPlan reads a plan.
func (c *call) readPlan() (queue.Plan, bool) {
	var body map[string]json.RawMessage
	if !c.read(&body, `{"new_users_per_minute": 300} or {"admit": {"count": 10}}`) {
		return queue.Plan{}, false
	}
	once := slices.DeleteFunc(slices.Sorted(maps.Keys(body)), func(name string) bool {
		return name != string(queue.ActionAdmit) && name != string(queue.ActionRelease) && name != string(queue.ActionReset)
	})
	if len(once) == 0 {
		settings := map[queue.Setting]json.RawMessage{}
		for name, raw := range body {
			settings[queue.Setting(name)] = raw
		}
		change, ok := c.changeOf(settings)
		return queue.Plan{Change: &change}, ok
	}
	if len(body) > 1 {
		c.bad(FieldProblem{once[0], "must stand alone: one plan at a time"})
		return queue.Plan{}, false
	}
	var asked struct {
		Count   int64  `json:"count"`
		Visitor string `json:"visitor"`
		Confirm string `json:"confirm"`
	}
	if err := json.Unmarshal(body[once[0]], &asked); err != nil {
		c.bad(FieldProblem{once[0], "must be what POST …/" + once[0] + " takes"})
		return queue.Plan{}, false
	}
	switch queue.Setting(once[0]) {
	case queue.ActionAdmit:
		if asked.Count < 1 {
			c.bad(FieldProblem{"count", "must be from 1"})
			return queue.Plan{}, false
		}
		return queue.Plan{Admit: asked.Count}, true
	case queue.ActionRelease:
		return queue.Plan{Release: asked.Visitor}, c.validVisitor(asked.Visitor)
	default:
		return queue.Plan{Reset: true}, true
	}
}

func forecastView(room string, f queue.Forecast) Preview {
	v := Preview{
		Room: room, Version: f.Version, Changes: []ForeseenView{}, Now: outlookView(f.Now), Then: outlookView(f.Then),
		AtOnce: f.AtOnce, Over: f.Over, Drain: spanView(f.Drain), Places: f.Places, Passes: f.Passes,
	}
	for _, c := range f.Changes {
		v.Changes = append(v.Changes, ForeseenView{c.Setting, value(c.Setting, c.Old), value(c.Setting, c.New), c.Origin})
	}
	if f.Visitor != nil {
		v.Visitor = new(visitorView(room, *f.Visitor))
	}
	return v
}

func outlookView(o queue.Outlook) OutlookView {
	v := OutlookView{
		State: o.State, Waiting: o.Waiting, Active: o.Holding, ActiveLimit: o.Limits.Slots, RateLimit: o.Limits.PerMinute,
		Typical: spanView(o.Typical), Last: spanView(o.Last),
	}
	if o.Flow > 0 {
		v.Admissions = new(rounded(o.Flow * 60))
	}
	return v
}

func spanView(s *queue.Span) *SpanView {
	if s == nil {
		return nil
	}
	seconds := func(d time.Duration) int64 { return int64(math.Round(d.Seconds())) }
	return &SpanView{seconds(s.From), seconds(s.To)}
}
