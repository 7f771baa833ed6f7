package admin

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/queuegate/queuegate/queue"
)

// History is the answer of GET /api/rooms/{room}/history.
type History struct {
	Room string `json:"room"`
	// Every is the time from one point to the next while a gate reaches Redis.
	Every  int64       `json:"seconds_between_points"`
	Points []PointView `json:"points"` // the oldest first
}

// PointView is a room at one moment, and what happened since the point before. The
// latter is nil where nobody knows: at the first point and across a loss of history.
type PointView struct {
	At          time.Time       `json:"at"`
	State       queue.RoomState `json:"state"` // empty while Redis holds no limits
	Healing     bool            `json:"healing"`
	Waiting     int64           `json:"waiting"`
	Away        int64           `json:"away"`
	Active      int64           `json:"active"`
	ActiveLimit int64           `json:"active_limit"`          // 0: none
	RateLimit   int64           `json:"rate_limit_per_minute"` // 0: none
	Gates       int64           `json:"gates"`
	Refused     int64           `json:"gates_whose_shop_refuses"`
	Generation  int64           `json:"generation"`
	// Seconds is the time since the point before. Admissions are given a minute.
	Seconds    *float64             `json:"seconds"`
	Joined     *int64               `json:"joined"`
	Admitted   *int64               `json:"admitted"`
	Admissions *float64             `json:"admissions_per_minute"`
	NoShows    *int64               `json:"no_shows"`
	Ended      map[queue.Why]*int64 `json:"ended"`
	// Typical and Worst are the waits, from place to pass, that half and 95 % of those
	// admitted in the minute before did not exceed; nil when nobody was.
	Typical *float64 `json:"wait_typical_seconds"`
	Worst   *float64 `json:"wait_worst_seconds"`
}

// waitsOver is the time over which the waits of a point are taken.
const waitsOver = time.Minute

// history answers the points since ?after=, a time of RFC 3339, or of the whole hour.
func (c *call) history() {
	var after time.Time
	if text := c.r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = time.Parse(time.RFC3339Nano, text); err != nil {
			c.bad(FieldProblem{"after", "must be a time such as 2026-11-30T10:00:00Z"})
			return
		}
	}
	since := after
	if !after.IsZero() { // those before tell what the first one adds
		since = after.Add(-waitsOver - 2*queue.PointEvery)
	}
	points, err := c.room.Line.History(c.ctx, since)
	if err != nil {
		c.failed(err)
		return
	}
	h := History{Room: c.room.Name, Every: int64(queue.PointEvery.Seconds()), Points: []PointView{}}
	first := 0 // of those that the waits of a point are taken over
	for i, p := range points {
		for p.At.Sub(points[first].At) > waitsOver || points[first].Epoch != p.Epoch {
			first++
		}
		if !p.At.After(after) {
			continue
		}
		v := momentView(p)
		if i > 0 && points[i-1].Epoch == p.Epoch {
			v.since(points[i-1], p)
			waits := p.Waits.Since(points[min(first, i-1)].Waits)
			v.Typical, v.Worst = quantile(waits, 0.5), quantile(waits, 0.95)
		}
		h.Points = append(h.Points, v)
	}
	answer(c.w, http.StatusOK, "application/json", h)
}

func momentView(p queue.Point) PointView {
	return PointView{
		At: p.At, State: p.State, Healing: p.Healing, Waiting: p.Waiting, Away: p.Away, Active: p.Holding,
		ActiveLimit: p.Limits.Slots, RateLimit: p.Limits.PerMinute, Gates: p.Tally.Gates, Refused: p.Refused,
		Generation: p.Generation, Ended: map[queue.Why]*int64{},
	}
}

// since adds what happened between two points of one epoch.
func (v *PointView) since(a, b queue.Point) {
	seconds := b.At.Sub(a.At).Seconds()
	v.Seconds = new(seconds)
	v.Joined = new(b.Tally.Joined - a.Tally.Joined)
	v.Admitted = new(b.Tally.Admitted - a.Tally.Admitted)
	v.Admissions = new(rounded(float64(*v.Admitted) * 60 / seconds))
	v.NoShows = new(b.Tally.Lapsed - a.Tally.Lapsed)
	for _, why := range queue.Whys() {
		v.Ended[why] = new(b.Tally.Ended[why] - a.Tally.Ended[why])
	}
}

func quantile(w queue.Waits, share float64) *float64 {
	d, known := w.Quantile(share)
	if !known {
		return nil
	}
	return new(rounded(d.Seconds()))
}

// rounded is a number to a tenth.
func rounded(n float64) float64 { return math.Round(n*10) / 10 }

// GateList is the answer of GET /api/gates.
type GateList struct {
	Gates []GateView `json:"gates"`
}

// GateView is one gate.
type GateView struct {
	Gate    string `json:"gate"`
	Version string `json:"version"`
	This    bool   `json:"this"` // the one that was asked
	// Silent is how long ago it called Redis last; a gate that is well calls twice a
	// second.
	Silent      float64  `json:"silent_seconds"`
	ShopRefuses bool     `json:"shop_refuses"`
	Rooms       []string `json:"rooms"`
}

// gates answers which gates serve the rooms of this one.
func (a *api) gates(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), operatorPatience)
	defer cancel()
	found := map[string]*GateView{}
	for _, room := range a.rooms {
		if room.Line == nil {
			continue
		}
		gates, err := room.Line.Gates(ctx)
		if err != nil {
			(&call{api: a, w: w, r: r, room: room}).failed(err)
			return
		}
		for _, g := range gates {
			v := found[g.Name]
			if v == nil {
				v = &GateView{Gate: g.Name, Version: g.Version, Silent: math.Inf(1)}
				found[g.Name] = v
			}
			v.This = v.This || g.Name == room.Line.Name()
			v.Silent = min(v.Silent, rounded(g.Silent.Seconds()))
			v.ShopRefuses = v.ShopRefuses || g.Refused
			v.Rooms = append(v.Rooms, room.Name)
		}
	}
	list := GateList{Gates: []GateView{}}
	for _, v := range slices.SortedFunc(maps.Values(found), func(a, b *GateView) int { return cmp.Compare(a.Gate, b.Gate) }) {
		list.Gates = append(list.Gates, *v)
	}
	answer(w, http.StatusOK, "application/json", list)
}
