package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/proxy/openapi/openapitest"
	"github.com/queuegate/queuegate/queue"
)

// pastLine remembers what it is told to.
type pastLine struct {
	*queue.Line
	points []queue.Point
	since  time.Time
	gates  []queue.Gate
}

func (l *pastLine) History(_ context.Context, since time.Time) ([]queue.Point, error) {
	l.since = since
	return l.points, nil
}

func (l *pastLine) Gates(context.Context) ([]queue.Gate, error) { return l.gates, nil }

func (l *pastLine) Name() string { return "web-1" }

// pointAt is a point so many seconds after the first one, when so many had joined and
// been admitted, the last of them after 64 seconds and more.
func pointAt(first time.Time, seconds int, epoch, joined, admitted int64) queue.Point {
	p := queue.Point{
		At: first.Add(time.Duration(seconds) * time.Second), Epoch: epoch, State: queue.Open, Waiting: 7, Away: 2, Holding: 3,
		Limits: queue.Limits{Slots: 3, PerMinute: 600},
		Tally: queue.Tally{Joined: joined, Admitted: admitted, Lapsed: admitted / 10, Gates: 2, Ended: map[queue.Why]int64{
			queue.Consumed: admitted, queue.Released: 1, queue.Left: 2, queue.Moved: 3, queue.Expired: 4,
		}},
	}
	p.Waits[25] = admitted
	return p
}

func describedPast(t *testing.T, c *openapitest.Contract) {
	first := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	line := &pastLine{points: []queue.Point{
		pointAt(first, 0, 1, 10, 10), pointAt(first, 5, 1, 12, 20), pointAt(first, 65, 1, 12, 30), pointAt(first, 70, 2, 1, 0),
		pointAt(first, 75, 2, 1, 0),
	}, gates: []queue.Gate{{Name: "web-1", Version: "v1"}, {Name: "web-2", Version: "v2", Silent: 4 * time.Second, Refused: true}}}
	d := newDesk(t, c, func(o *admin.Options) {
		line.Line, _ = o.Rooms[0].Line.(*queue.Line)
		o.Rooms[0].Line, o.Rooms[0].MaxWaiting = line, 500
		o.ShopRefuses = func(string) bool { return true }
	})
	var h admin.History
	d.ok(&h, "GET", "/rooms/checkout/history", "")
	require.EqualValues(t, 5, h.Every)
	require.Len(t, h.Points, 5)
	require.Nil(t, h.Points[0].Admitted, "nobody knows what was before")
	require.EqualValues(t, 10, *h.Points[1].Admitted)
	require.InDelta(t, 120, *h.Points[1].Admissions, 0.01, "a minute")
	require.EqualValues(t, 1, *h.Points[1].NoShows)
	require.EqualValues(t, 10, *h.Points[1].Ended[queue.Consumed])
	require.InDelta(t, 70, *h.Points[1].Typical, 1)
	require.InDelta(t, 75.5, *h.Points[1].Worst, 1)
	require.InDelta(t, 60, *h.Points[2].Seconds, 0.01, "a minute in which no gate reached Redis")
	require.InDelta(t, 10, *h.Points[2].Admissions, 0.01)
	require.Nil(t, h.Points[3].Admitted, "across a loss of history")
	require.Nil(t, h.Points[3].Typical)
	require.EqualValues(t, 0, *h.Points[4].Admitted)
	require.Nil(t, h.Points[4].Typical, "nobody was admitted")
	d.ok(&h, "GET", "/rooms/checkout/history?after=2026-11-30T10:01:05Z", "")
	require.Len(t, h.Points, 2)
	require.Less(t, line.since, first, "what the first one adds is told by those before")
	d.refused(400, "bad-request", "after: must be a time", "GET", "/rooms/checkout/history?after=noon", "")

	var gates admin.GateList
	d.ok(&gates, "GET", "/gates", "")
	require.Equal(t, []admin.GateView{
		{Gate: "web-1", Version: "v1", This: true, Rooms: []string{"checkout"}},
		{Gate: "web-2", Version: "v2", Silent: 4, ShopRefuses: true, Rooms: []string{"checkout"}},
	}, gates.Gates)
	var room admin.RoomView
	d.ok(&room, "GET", "/rooms/checkout", "")
	require.True(t, room.ShopRefuses)
	require.EqualValues(t, 500, *room.MaxWaiting)
	require.WithinDuration(t, time.Now(), *room.AsOf, time.Hour)
}

// A gate that runs writes its history by itself.
func TestRunningGateKeepsAHistory(t *testing.T) {
	c, err := openapitest.New(admin.OpenAPI, "/api")
	require.NoError(t, err)
	d := newDesk(t, c)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.line.Run(ctx) }()
	var h admin.History
	require.Eventually(t, func() bool {
		d.ok(&h, "GET", "/rooms/checkout/history", "")
		return len(h.Points) > 0
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, queue.Open, h.Points[0].State)
	var gates admin.GateList
	d.ok(&gates, "GET", "/gates", "")
	require.Len(t, gates.Gates, 1)
	require.True(t, gates.Gates[0].This)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	d.ok(&gates, "GET", "/gates", "")
	require.Empty(t, gates.Gates, "it has signed off")
}

func describedPlans(t *testing.T, c *openapitest.Contract) {
	d := newDesk(t, c)
	d.arrive("one")
	d.arrive("two")
	d.arrive("three")
	before := d.line.Controls()
	plan := func(body string) admin.Preview {
		var p admin.Preview
		d.ok(&p, "POST", "/rooms/checkout/preview", body)
		return p
	}
	p := plan(`{"state":"paused","total_active_users":1,"new_users_per_minute":60,"burst":1,"session_duration":"10m",
		"session_max":"1h","disable_session_renewal":true,"message":"Hello","remaining_stock":40}`)
	require.Equal(t, before.Version, p.Version)
	require.Len(t, p.Changes, 9)
	require.Equal(t, admin.ForeseenView{What: queue.SettingState, Old: "open", New: "paused", Source: queue.FromLive}, p.Changes[0])
	require.Equal(t, queue.Paused, p.Then.State)
	require.EqualValues(t, 1, p.Over)
	require.Nil(t, p.Drain, "nobody has given a slot back yet")
	require.Nil(t, p.Then.Last, "nobody can say while the room is paused")
	require.Equal(t, before, d.line.Controls(), "nothing was done")

	require.EqualValues(t, 1, plan(`{"total_active_users":3}`).AtOnce)
	require.EqualValues(t, 0, plan(`{"admit":{"count":5}}`).AtOnce, "the slots are taken")
	p = plan(`{"reset":{"confirm":"checkout"}}`)
	require.EqualValues(t, 2, p.Passes)
	require.Nil(t, p.Places, "it was not counted yet how many are away")
	require.EqualValues(t, 0, p.Then.Waiting)
	p = plan(`{"release":{"visitor":"two"}}`)
	require.Equal(t, "active", p.Visitor.Status)
	require.EqualValues(t, 1, p.Passes)
	require.EqualValues(t, 1, p.AtOnce, "the next one")
	d.refused(404, "unknown-visitor", "", "POST", "/rooms/checkout/preview", `{"release":{"visitor":"nobody"}}`)
	for body, want := range map[string]string{
		`{"admit":{"count":1},"state":"open"}`: "admit: must stand alone",
		`{"admit":{"count":0}}`:                "count: must be from 1",
		`{"admit":{"count":10001}}`:            "count: must be from 1 to 10000",
		`{"admit":7}`:                          "admit: must be what POST …/admit takes",
		`{"release":{"visitor":"a b"}}`:        "visitor: must be an id",
		`{}`:                                   "body: must change something",
		`{"state":"ajar"}`:                     "state: must be one of",
		`{"rset":{}}`:                          "rset: is no setting",
	} {
		d.refused(400, "bad-request", want, "POST", "/rooms/checkout/preview", body)
	}
	require.NotContains(t, d.log.String(), "operator")
}

// foreseeingLine has foreseen what takes long to come about.
type foreseeingLine struct {
	*queue.Line
	f queue.Forecast
}

func (l foreseeingLine) Foresee(context.Context, queue.Plan) (queue.Forecast, error) { return l.f, nil }

func describedForecasts(t *testing.T, c *openapitest.Contract) {
	span := &queue.Span{From: 90 * time.Second, To: 200500 * time.Millisecond}
	look := queue.Outlook{State: queue.Open, Flow: 2, Waiting: 300, Typical: span, Last: span}
	d := newDesk(t, c, func(o *admin.Options) {
		line, _ := o.Rooms[0].Line.(*queue.Line)
		o.Rooms[0].Line = foreseeingLine{line, queue.Forecast{
			Now: look, Then: look, Drain: span, Places: new(int64(5)),
			Changes: []queue.Foreseen{
				{Setting: queue.SettingMessage, Old: "a", New: "b", Origin: queue.FromFile},
				{Setting: queue.SettingBurst, Old: "1", New: "2", Origin: queue.Derived},
			},
		}}
	})
	var p admin.Preview
	d.ok(&p, "POST", "/rooms/checkout/preview", `{"message":null}`)
	require.Equal(t, &admin.SpanView{From: 90, To: 201}, p.Then.Last)
	require.Equal(t, p.Drain, p.Now.Typical)
	require.InDelta(t, 120, *p.Then.Admissions, 0.01)
	require.EqualValues(t, 5, *p.Places)
}
