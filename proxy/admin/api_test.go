package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/proxy/openapi/openapitest"
	"github.com/queuegate/queuegate/queue"
	"github.com/queuegate/queuegate/queue/queuetest"
)

// desk is an admin listener whose answers are all held against the description.
type desk struct {
	t        *testing.T
	contract *openapitest.Contract
	h        http.Handler
	line     *queue.Line
	log      *strings.Builder
}

func newDesk(t *testing.T, contract *openapitest.Contract, change ...func(*admin.Options)) *desk {
	t.Helper()
	line, err := queue.New(queue.Options{
		Redis: queuetest.Embedded(t), Room: "checkout", Timeout: queuetest.Timeout,
		Limits: queue.Limits{Slots: 2, PerMinute: 600}, Message: "Bring your card",
	})
	require.NoError(t, err)
	require.NoError(t, line.Configure(t.Context()))
	d := &desk{t: t, contract: contract, line: line, log: &strings.Builder{}}
	o := admin.Options{Log: slog.New(slog.NewTextHandler(d.log, nil)), Rooms: []admin.Room{
		{Name: "checkout", Method: "fifo", Line: line}, {Name: "off", Method: "random", Suspended: true},
		{Name: "through", Method: "passthrough"}, {Name: "turned-away", Method: "reject", Line: line, Shadow: true},
	}}
	for _, f := range change {
		f(&o)
	}
	d.h = admin.New(o)
	return d
}

func (d *desk) call(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	d.t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, "/api"+path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:9090", "127.0.0.1:4711"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	d.h.ServeHTTP(w, r)
	path, _, _ = strings.Cut(path, "?")
	x := openapitest.Exchange{Method: method, Path: "/api" + path, Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}
	if w.Code == http.StatusOK {
		x.Sent = []byte(body)
	}
	d.contract.Check(d.t, x)
	return w
}

// ok is a call that succeeds, read into v.
func (d *desk) ok(v any, method, path, body string, headers ...string) {
	d.t.Helper()
	w := d.call(method, path, body, headers...)
	require.Equal(d.t, http.StatusOK, w.Code, w.Body)
	require.NoError(d.t, json.Unmarshal(w.Body.Bytes(), v))
}

func (d *desk) refused(code int, kind, detail, method, path, body string, headers ...string) {
	d.t.Helper()
	w := d.call(method, path, body, headers...)
	require.Equal(d.t, code, w.Code, w.Body)
	var p admin.Problem
	require.NoError(d.t, json.Unmarshal(w.Body.Bytes(), &p))
	require.Equal(d.t, "urn:queuegate:problem:"+kind, p.Type)
	require.Contains(d.t, p.Detail, detail)
}

// arrive lets somebody join and show up.
func (d *desk) arrive(id string) queue.Standing {
	d.t.Helper()
	s, err := d.line.Join(d.t.Context(), queue.Arrival{Visitor: id})
	require.NoError(d.t, err)
	if s.State == queue.Ready {
		s, err = d.line.Claim(d.t.Context(), queue.Holding{
			Visitor: id, Admission: s.Lease.Admission, Place: s.Lease.Place, Epoch: s.Room.Epoch, Generation: s.Room.Generation, End: s.Lease.End,
		})
	} else {
		s, err = d.line.Touch(d.t.Context(), queue.Sign{
			Visitor: id, Place: s.Place, Epoch: s.Room.Epoch, Generation: s.Room.Generation, Due: s.Due, Ahead: -1,
		})
	}
	require.NoError(d.t, err)
	return s
}

// Operators script against the description, so it says all that is true, and nothing
// else.
func TestTheAdminAPIIsAsDescribed(t *testing.T) {
	contract, err := openapitest.New(admin.OpenAPI, "/api")
	require.NoError(t, err)
	for _, journey := range []struct {
		name string
		run  func(t *testing.T, c *openapitest.Contract)
	}{
		{"values", describedValues},
		{"people", describedPeople},
		{"the past", describedPast},
		{"plans", describedPlans},
		{"forecasts", describedForecasts},
		{"mistakes", describedMistakes},
		{"guards", describedGuards},
		{"Redis away", describedOutage},
		{"the words of a room", describedWords},
	} {
		t.Run(journey.name, func(t *testing.T) { journey.run(t, contract) })
	}
	if !t.Failed() {
		require.Empty(t, contract.Unseen(), "the description promises what no answer keeps")
	}
}

func describedValues(t *testing.T, c *openapitest.Contract) {
	d := newDesk(t, c)
	w := ask(d.h, "GET", "/api/openapi.yaml")
	require.Equal(t, "application/yaml", w.Header().Get("Content-Type"))
	require.Equal(t, string(admin.OpenAPI), w.Body.String())

	var list admin.RoomList
	d.ok(&list, "GET", "/rooms", "")
	require.Len(t, list.Rooms, 4)
	require.Equal(t, "suspended", list.Rooms[1].State)
	require.Nil(t, list.Rooms[1].Settings)
	require.Equal(t, "open", list.Rooms[2].State)
	require.True(t, list.Rooms[3].Shadow)
	require.False(t, list.Rooms[0].Shadow)

	var room admin.RoomView
	d.ok(&room, "PATCH", "/rooms/checkout", `{"state":"paused","total_active_users":5,"new_users_per_minute":60,"burst":2,
		"session_duration":"10m","session_max":"1h","disable_session_renewal":true,"message":"Doors\nat ten","remaining_stock":40}`,
		admin.OperatorHeader+": ana")
	require.Equal(t, "paused", room.State)
	require.Len(t, room.History, 9)
	slots := room.Settings[queue.SettingSlots]
	require.EqualValues(t, 5, slots.Value)
	require.EqualValues(t, 2, slots.File)
	require.Equal(t, queue.FromLive, slots.Source)
	require.Equal(t, "ana", slots.Live.By)
	require.WithinDuration(t, time.Now(), slots.Live.At, time.Hour)
	require.Equal(t, "10m0s", room.Settings[queue.SettingSession].Value)
	require.Nil(t, room.Settings[queue.SettingStock].File)
	for _, line := range []string{
		`what=total_active_users old=2 new=5 by=ana peer=127.0.0.1:4711 cleared=false`, `what=message old="Bring your card" new="Doors\nat ten" by=ana`,
	} {
		require.Contains(t, d.log.String(), line)
	}
	version := d.call("GET", "/rooms/checkout", "").Header().Get("ETag")
	d.ok(&room, "PATCH", "/rooms/checkout", `{"total_active_users":null,"burst":null}`, "If-Match: "+version)
	require.Equal(t, queue.FromFile, room.Settings[queue.SettingSlots].Source)
	require.Equal(t, queue.Derived, room.Settings[queue.SettingBurst].Source, "the live rate brings its own")
	require.Equal(t, "admin", room.History[0].By)
	require.True(t, room.History[0].Cleared)
	d.refused(412, "changed-meanwhile", "no longer those of If-Match", "PATCH", "/rooms/checkout", `{"state":"open"}`, "If-Match: "+version)
	require.Equal(t, queue.Paused, d.line.Settings().State)
}

func describedPeople(t *testing.T, c *openapitest.Contract) {
	d := newDesk(t, c)
	d.arrive("one")
	two := d.arrive("two")
	d.arrive("three")
	d.arrive("four")
	_, err := d.line.Join(t.Context(), queue.Arrival{Visitor: "five"})
	require.NoError(t, err)
	var room admin.RoomView
	d.ok(&room, "GET", "/rooms/checkout", "")
	require.EqualValues(t, 3, *room.Waiting)
	require.EqualValues(t, 2, *room.Active)

	var v admin.VisitorView
	d.ok(&v, "GET", "/rooms/checkout/visitors/four", "")
	require.Equal(t, "waiting", v.Status)
	require.EqualValues(t, 1, *v.Ahead)
	require.WithinDuration(t, time.Now(), *v.Joined, time.Hour)
	d.ok(&v, "GET", "/rooms/checkout/visitors/five", "")
	require.Equal(t, "away", v.Status)
	d.ok(&v, "GET", "/rooms/checkout/visitors/two", "")
	require.Equal(t, "active", v.Status)
	require.Equal(t, two.Lease.Admission, v.Admission)

	d.ok(&v, "POST", "/rooms/checkout/release", `{"visitor":"two"}`, admin.OperatorHeader+": ben")
	require.Equal(t, "ended", v.Status)
	require.Equal(t, "released", v.Why)
	require.Contains(t, d.log.String(), "what=release old=active new=ended by=ben peer=127.0.0.1:4711 visitor=two")
	d.ok(&v, "GET", "/rooms/checkout/visitors/three", "")
	require.Equal(t, "ready", v.Status, "the next one")
	d.refused(404, "unknown-visitor", "X-Queuegate-Visitor", "POST", "/rooms/checkout/release", `{"visitor":"nobody"}`)
	d.refused(404, "unknown-visitor", "X-Queuegate-Visitor", "GET", "/rooms/checkout/visitors/nobody", "")

	d.ok(&room, "PATCH", "/rooms/checkout", `{"total_active_users":10,"state":"paused"}`)
	var admitted admin.Admitted
	d.ok(&admitted, "POST", "/rooms/checkout/admit", `{"count":7}`)
	require.EqualValues(t, 7, admitted.Asked)
	require.EqualValues(t, 1, admitted.Admitted, "who is here")
	require.Equal(t, queue.ActionAdmit, admitted.Room.History[0].What)
	require.Contains(t, d.log.String(), "what=admit old=\"\" new=1 by=admin peer=127.0.0.1:4711 asked=7")

	d.ok(&room, "POST", "/rooms/checkout/reset", `{"confirm":"checkout"}`)
	require.EqualValues(t, 0, *room.Waiting)
	require.EqualValues(t, 0, *room.Active)
	require.Greater(t, room.Generation, int64(0))
	require.Contains(t, d.log.String(), "what=reset old=0 new=")
	d.refused(404, "unknown-visitor", "", "GET", "/rooms/checkout/visitors/three", "")
}

func describedMistakes(t *testing.T, c *openapitest.Contract) {
	d := newDesk(t, c)
	version := d.line.Controls().Version
	for body, want := range map[string]string{
		`{"totl_active_users":5}`:                "totl_active_users: is no setting; there are state, total_active_users",
		`{}`:                                     "body: must change something",
		`{"total_active_users":"5"}`:             "total_active_users: must be a whole number from 0, or null for the file's",
		`{"total_active_users":5.5}`:             "total_active_users: must be a whole number",
		`{"total_active_users":-1}`:              "total_active_users: must be a whole number from 0 (got \"-1\")",
		`{"state":"ajar"}`:                       "state: must be one of [open queue_all paused closed sold_out]",
		`{"state":5}`:                            "state: must be a text",
		`{"disable_session_renewal":"yes"}`:      "must be true or false",
		`{"session_duration":90}`:                `session_duration: must be a duration such as "5m"`,
		`{"session_duration":"90"}`:              `session_duration: must be a duration such as 5m (got "90")`,
		`{"burst":601,"session_duration":"1ns"}`: "burst: must be from 1 to new_users_per_minute (600); session_duration: must be at least 100ms",
		`{"total_active_users":0,"new_users_per_minute":0,"burst":null}`: "a room needs total_active_users, new_users_per_minute or both",
		`[1]`:                "must be one object such as",
		`{"state":"open"} 1`: "something follows the object",
		`{"state":`:          "unexpected EOF",
	} {
		d.refused(400, "bad-request", want, "PATCH", "/rooms/checkout", body)
	}
	d.refused(400, "bad-request", "If-Match", "PATCH", "/rooms/checkout", `{"state":"open"}`, "If-Match: soon")
	for _, by := range []string{"shop", strings.Repeat("x", 65), "a\x01b"} {
		d.refused(400, "bad-request", admin.OperatorHeader, "PATCH", "/rooms/checkout", `{"state":"open"}`, admin.OperatorHeader+": "+by)
	}
	d.refused(400, "bad-request", "count: must be from 1 to 10000 (got 0)", "POST", "/rooms/checkout/admit", `{"count":0}`)
	d.refused(400, "bad-request", `count is a string`, "POST", "/rooms/checkout/admit", `{"count":"5"}`)
	d.refused(400, "bad-request", `unknown field "n"`, "POST", "/rooms/checkout/admit", `{"n":5}`)
	d.refused(400, "bad-request", "visitor: must be an id", "POST", "/rooms/checkout/release", `{"visitor":"a b"}`)
	d.refused(400, "bad-request", "visitor: must be an id", "GET", "/rooms/checkout/visitors/"+strings.Repeat("x", 129), "")
	d.refused(400, "bad-request", "confirm: must be the name of the room", "POST", "/rooms/checkout/reset", `{"confirm":"yes"}`)
	for _, path := range []string{"/rooms/nosuch", "/rooms/nosuch/admit", "/rooms/checkout/", "/rooms/checkout/x", "/rooms/checkout/visitors", "/rooms/checkout/visitors/a/b", "/rooms/", "/rooms//admit", "/roomsx"} {
		if path == "/rooms/" {
			continue // the list
		}
		d.call("GET", path, "")
		require.Equal(t, 404, ask(d.h, "GET", "/api"+path).Code, path)
	}
	for _, op := range operations("nosuch") {
		d.refused(404, "not-found", "no such room", op.method, op.path, op.body)
	}
	for _, op := range operations("off") {
		if op.line {
			d.refused(409, "no-line", "Change the file", op.method, op.path, op.body)
		}
	}
	for _, op := range operations("checkout") {
		d.refused(405, "method-not-allowed", "Use ", "DELETE", op.path, "")
		if op.body == "" {
			continue
		}
		d.refused(413, "too-large", "at most 16384 bytes", op.method, op.path, `{"x":"`+strings.Repeat("x", 17<<10)+`"}`)
		d.refused(415, "media-type", "application/json", op.method, op.path, op.body, "Content-Type: text/plain")
	}
	require.Equal(t, version, d.line.Controls().Version, "and nothing of it was done")
	require.Empty(t, d.log.String())
}

// operation is one method of one address with a body that is good.
type operation struct {
	method, path, body string
	line               bool
}

func operations(room string) []operation {
	base := "/rooms/" + room
	return []operation{
		{"GET", base, "", false},
		{"PATCH", base, `{"state":"paused"}`, true},
		{"POST", base + "/admit", `{"count":1}`, true},
		{"POST", base + "/release", `{"visitor":"one"}`, true},
		{"POST", base + "/reset", `{"confirm":"` + room + `"}`, true},
		{"GET", base + "/visitors/one", "", true},
		{"GET", base + "/history", "", true},
		{"POST", base + "/preview", `{"state":"paused"}`, true},
	}
}

func describedGuards(t *testing.T, c *openapitest.Contract) {
	d := newDesk(t, c, func(o *admin.Options) { o.Token = secret })
	all := append(operations("checkout"), operation{"GET", "/rooms", "", false}, operation{"GET", "/gates", "", false})
	for _, op := range all {
		d.refused(401, "unauthorized", "Bearer", op.method, op.path, op.body)
	}
	d.refused(403, "cross-site", "Another site", "PATCH", "/rooms/checkout", `{"state":"paused"}`, "Authorization: Bearer "+secret, "Sec-Fetch-Site: cross-site")
	for range 10 {
		d.refused(401, "unauthorized", "Bearer", "GET", "/rooms", "", "Authorization: Bearer guess")
	}
	for _, op := range all {
		d.refused(429, "too-many-attempts", "Retry-After", op.method, op.path, op.body, "Authorization: Bearer "+secret)
	}
	open := newDesk(t, c)
	for _, op := range all {
		w, r := httptest.NewRecorder(), httptest.NewRequest(op.method, "http://evil.example/api"+op.path, strings.NewReader(op.body))
		open.h.ServeHTTP(w, r)
		require.Equal(t, 403, w.Code)
		c.Check(t, openapitest.Exchange{Method: op.method, Path: "/api" + op.path, Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()})
	}
	fenced := newDesk(t, c, func(o *admin.Options) { o.Allow = prefixList("10.0.0.0/8") })
	fenced.refused(403, "address", "127.0.0.1 is not within admin.allow", "GET", "/rooms", "")
	require.Equal(t, queue.Open, d.line.Settings().State)
}

// silentLine gets no answer from Redis.
type silentLine struct{ *queue.Line }

var errAway = errors.Join(queue.ErrUnavailable, context.DeadlineExceeded)

func (silentLine) Up() bool { return false }
func (silentLine) Control(context.Context, queue.Change) (queue.Controls, error) {
	return queue.Controls{}, errAway
}
func (silentLine) Admit(context.Context, string, int64) (int64, error) { return 0, errAway }
func (silentLine) Find(context.Context, string) (queue.Standing, error) {
	return queue.Standing{}, errAway
}
func (silentLine) Reset(context.Context, string) (queue.Room, error)         { return queue.Room{}, errAway }
func (silentLine) History(context.Context, time.Time) ([]queue.Point, error) { return nil, errAway }
func (silentLine) Gates(context.Context) ([]queue.Gate, error)               { return nil, errAway }
func (silentLine) Foresee(context.Context, queue.Plan) (queue.Forecast, error) {
	return queue.Forecast{}, errAway
}

func describedOutage(t *testing.T, c *openapitest.Contract) {
	d := newDesk(t, c, func(o *admin.Options) {
		line, _ := o.Rooms[0].Line.(*queue.Line)
		o.Rooms[0].Line = silentLine{line}
	})
	for _, op := range operations("checkout") {
		if op.line {
			d.refused(503, "redis", "not known: look at the room", op.method, op.path, op.body)
		}
	}
	d.refused(503, "redis", "not known: look at the room", "GET", "/gates", "")
	var room admin.RoomView
	d.ok(&room, "GET", "/rooms/checkout", "")
	require.False(t, room.RedisUp)
	require.Contains(t, d.log.String(), "deadline exceeded")
}

// wordyLine tells what takes long to come about.
type wordyLine struct {
	*queue.Line
	state    queue.RoomState
	healing  time.Duration
	standing queue.Standing
}

func (l *wordyLine) Controls() queue.Controls {
	c := l.Line.Controls()
	c.Live = map[queue.Setting]queue.Live{queue.SettingState: {Value: string(l.state), By: "ana"}}
	return c
}

func (l *wordyLine) Room() (queue.Room, bool) {
	return queue.Room{State: queue.Open, Waiting: 10, Holding: 2, Flow: 2, Healing: l.healing}, true
}

func (l *wordyLine) Find(context.Context, string) (queue.Standing, error) { return l.standing, nil }

func describedWords(t *testing.T, c *openapitest.Contract) {
	line := &wordyLine{healing: 24 * time.Second}
	d := newDesk(t, c, func(o *admin.Options) {
		line.Line, _ = o.Rooms[0].Line.(*queue.Line)
		o.Rooms[0].Line = line
	})
	var room admin.RoomView
	for _, state := range []queue.RoomState{queue.Open, queue.QueueAll, queue.Paused, queue.RoomClosed, queue.RoomSoldOut} {
		line.state = state
		d.ok(&room, "GET", "/rooms/checkout", "")
		require.Equal(t, string(state), room.State)
	}
	require.InDelta(t, 120, *room.Admissions, 0.01)
	require.EqualValues(t, 24, room.Healing)
	require.Nil(t, room.Wait, "nobody can say while the line is brought back")
	line.healing = 0
	d.ok(&room, "GET", "/rooms/checkout", "")
	require.EqualValues(t, 5, *room.Wait)
	var v admin.VisitorView
	for _, why := range []queue.Why{queue.Consumed, queue.Released, queue.Left, queue.Moved, queue.Expired} {
		line.standing = queue.Standing{State: queue.Ended, Why: why, Place: 7, Joined: time.Now()}
		d.ok(&v, "GET", "/rooms/checkout/visitors/one", "")
	}
	line.standing = queue.Standing{State: queue.Waiting, Place: 7, Ahead: 3, Wait: time.Minute, WaitKnown: true}
	d.ok(&v, "GET", "/rooms/checkout/visitors/one", "")
	require.EqualValues(t, 60, *v.Wait)
	line.standing = queue.Standing{State: queue.Active, Lease: queue.Lease{Admission: "a", Order: "o", Until: time.Now()}}
	d.ok(&v, "GET", "/rooms/checkout/visitors/one", "")
	require.True(t, v.Ordering)
}
