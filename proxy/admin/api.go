package admin

import (
	"context"
	_ "embed" // the description is part of the program
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/queue"
)

// OpenAPI describes the API; it is what GET /api/openapi.yaml answers.
//
//go:embed openapi.yaml
var OpenAPI []byte

// openAPI hands the description out.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(OpenAPI)
}

// suspended is the state of a room that its file turns off.
const suspended = "suspended"

// operatorPatience bounds what one request asks of Redis: it is no visitor's.
const operatorPatience = 3 * time.Second

// Room is one room as operators see it.
type Room struct {
	Name      string
	Method    string // queueing_method
	Suspended bool
	// Shadow: by this gate's file the room decides and counts, and diverts nobody.
	Shadow bool
	Line   Line // nil where everybody passes
	// MaxWaiting is beyond how many people in line newcomers get no place; 0: none.
	MaxWaiting int64
}

// Line is the line of a room as operators use it; *queue.Line implements it.
type Line interface {
	// Controls are the values of the room, Room its numbers and Up whether Redis
	// answered last, all as this gate heard.
	Controls() queue.Controls
	Room() (queue.Room, bool)
	Up() bool
	// Control changes live values.
	Control(ctx context.Context, c queue.Change) (queue.Controls, error)
	// Admit lets people in from the front and tells how many, also beside an error.
	Admit(ctx context.Context, by string, count int64) (int64, error)
	// Dismiss ends a visitor's stay, and tells what Find does of who has none.
	Dismiss(ctx context.Context, by, visitor string) (queue.Standing, error)
	// Find looks a visitor up.
	Find(ctx context.Context, visitor string) (queue.Standing, error)
	// Reset makes every place and pass void.
	Reset(ctx context.Context, by string) (queue.Room, error)
	// Foresee tells what a plan would do.
	Foresee(ctx context.Context, p queue.Plan) (queue.Forecast, error)
	// History are the points of the last hour since a moment, Gates those that serve
	// the room, and Name is this one.
	History(ctx context.Context, since time.Time) ([]queue.Point, error)
	Gates(ctx context.Context) ([]queue.Gate, error)
	Name() string
}

var _ Line = (*queue.Line)(nil)

// api answers below /api.
type api struct {
	rooms   []Room
	refuses func(room string) bool
	log     *slog.Logger
}

func newAPI(o Options) *api { return &api{rooms: o.Rooms, refuses: o.ShopRefuses, log: o.Log} }

// call is one request for one room.
type call struct {
	*api
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context
	room    Room
	by      string
	visitor string // of the path
}

// action is one method of one address.
type action struct {
	method string
	serve  func(*call)
	line   bool // it needs a line
}

// actions are the addresses below a room, by what follows its name.
func actions() map[string][]action {
	return map[string][]action{
		"":         {{http.MethodGet, (*call).show, false}, {http.MethodPatch, (*call).change, true}},
		"admit":    {{http.MethodPost, (*call).admit, true}},
		"release":  {{http.MethodPost, (*call).release, true}},
		"reset":    {{http.MethodPost, (*call).reset, true}},
		"visitors": {{http.MethodGet, (*call).lookUp, true}},
		"history":  {{http.MethodGet, (*call).history, true}},
		"preview":  {{http.MethodPost, (*call).foresee, true}},
	}
}

// serve answers a request for the path below /api/rooms.
func (a *api) serve(w http.ResponseWriter, r *http.Request, path string) {
	if path == "" {
		only(func(w http.ResponseWriter, _ *http.Request) {
			list := RoomList{Rooms: []RoomView{}}
			for _, room := range a.rooms {
				list.Rooms = append(list.Rooms, a.view(room, false))
			}
			answer(w, http.StatusOK, "application/json", list)
		})(w, r)
		return
	}
	name, rest, below := strings.Cut(path, "/")
	c := &call{api: a, w: w, r: r}
	known := false
	for _, room := range a.rooms {
		if room.Name == name {
			c.room, known = room, true
		}
	}
	if !known {
		refuse(w, http.StatusNotFound, "not-found", "There is no such room; GET /api/rooms lists them.")
		return
	}
	if kind, id, ok := strings.Cut(rest, "/"); ok && kind == "visitors" && !strings.Contains(id, "/") {
		rest, c.visitor = kind, id
	}
	choices := actions()[rest]
	if choices == nil || below && rest == "" || rest == "visitors" && c.visitor == "" {
		refuse(w, http.StatusNotFound, "not-found", "Below a room there are admit, release, reset, preview, history and visitors/{id}.")
		return
	}
	c.run(choices)
}

// run finds the action and checks what all of them need.
func (c *call) run(choices []action) {
	var allowed []string
	for _, a := range choices {
		if a.method == c.r.Method || a.method == http.MethodGet && c.r.Method == http.MethodHead {
			if a.line && c.room.Line == nil {
				refuse(c.w, http.StatusConflict, "no-line", "Everybody passes this room by its file (suspended or queueing_method passthrough): it has no line. Change the file.")
				return
			}
			ok := false
			if c.by, ok = operator(c.r); !ok {
				refuse(c.w, http.StatusBadRequest, "bad-request", OperatorHeader+" must be 1 to 64 visible characters and not \""+queue.ByShop+"\".")
				return
			}
			ctx, cancel := context.WithTimeout(c.r.Context(), operatorPatience)
			defer cancel()
			c.ctx = ctx
			a.serve(c)
			return
		}
		allowed = append(allowed, a.method)
	}
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	refuse(c.w, http.StatusMethodNotAllowed, "method-not-allowed", "Use "+strings.Join(allowed, " or ")+".")
}

// OperatorHeader names who makes a change, for log and history. It is a word, not a
// proof: all who have the token are the operator.
const OperatorHeader = "X-Queuegate-Operator"

// operator is who makes a change, as they say.
func operator(r *http.Request) (by string, ok bool) {
	by = strings.TrimSpace(r.Header.Get(OperatorHeader))
	if by == "" {
		return "admin", true
	}
	for _, c := range by {
		if c < ' ' || c == 0x7f {
			return "", false
		}
	}
	return by, len(by) <= 64 && by != queue.ByShop
}

func (c *call) show() { c.shown(c.view(c.room, true)) }

func (c *call) shown(v RoomView) {
	c.w.Header().Set("ETag", `"`+strconv.FormatInt(v.Version, 10)+`"`)
	answer(c.w, http.StatusOK, "application/json", v)
}

// change makes what PATCH asks for.
func (c *call) change() {
	change, ok := c.readChange()
	if !ok {
		return
	}
	before := c.room.Line.Controls()
	after, err := c.room.Line.Control(c.ctx, change)
	if err != nil {
		c.failed(err)
		return
	}
	for _, entry := range after.History {
		_, set := change.Set[entry.Setting]
		if entry.By == c.by && (set || entry.Cleared) && !contains(before.History, entry) {
			c.done(string(entry.Setting), entry.Old, entry.New, slog.Bool("cleared", entry.Cleared))
		}
	}
	c.shown(c.view(c.room, true))
}

func contains(history []queue.Changed, entry queue.Changed) bool {
	for _, e := range history {
		if e.Setting == entry.Setting && e.At.Equal(entry.At) && e.By == entry.By {
			return true
		}
	}
	return false
}

// done logs what an operator did.
func (c *call) done(what, old, now string, more ...any) {
	args := append([]any{"room", c.room.Name, "what", what, "old", old, "new", now, "by", c.by, "peer", c.r.RemoteAddr}, more...)
	c.log.InfoContext(c.r.Context(), "operator", args...)
}

func (c *call) admit() {
	var body struct {
		Count int64 `json:"count"`
	}
	if !c.read(&body, `{"count": 10}`) {
		return
	}
	n, err := c.room.Line.Admit(c.ctx, c.by, body.Count)
	if n > 0 || err == nil {
		c.done(string(queue.ActionAdmit), "", strconv.FormatInt(n, 10), slog.Int64("asked", body.Count))
	}
	if err != nil {
		c.failed(err)
		return
	}
	answer(c.w, http.StatusOK, "application/json", Admitted{Asked: body.Count, Admitted: n, Room: c.view(c.room, true)})
}

func (c *call) release() {
	var body struct {
		Visitor string `json:"visitor"`
	}
	if !c.read(&body, `{"visitor": "ID"}`) {
		return
	}
	if !c.validVisitor(body.Visitor) {
		return
	}
	before, err := c.room.Line.Find(c.ctx, body.Visitor)
	if err != nil {
		c.failed(err)
		return
	}
	s, err := c.room.Line.Dismiss(c.ctx, c.by, body.Visitor)
	switch {
	case err != nil:
		c.failed(err)
		return
	case s.State == queue.Unknown:
		c.nobody()
		return
	case before.State != queue.Ended:
		c.done(string(queue.ActionRelease), string(before.State), string(s.State), slog.String("visitor", body.Visitor))
	}
	answer(c.w, http.StatusOK, "application/json", visitorView(c.room.Name, s))
}

func (c *call) lookUp() {
	if !c.validVisitor(c.visitor) {
		return
	}
	s, err := c.room.Line.Find(c.ctx, c.visitor)
	switch {
	case err != nil:
		c.failed(err)
	case s.State == queue.Unknown:
		c.nobody()
	default:
		answer(c.w, http.StatusOK, "application/json", visitorView(c.room.Name, s))
	}
}

// validVisitor keeps out what cannot be an id, and would break what Redis keeps.
func (c *call) validVisitor(id string) bool {
	ok := id != "" && len(id) <= 128
	for _, char := range id {
		ok = ok && char > ' ' && char < 0x7f
	}
	if !ok {
		c.bad(FieldProblem{"visitor", "must be an id, as the shop gets it in X-Queuegate-Visitor"})
	}
	return ok
}

func (c *call) nobody() {
	refuse(c.w, http.StatusNotFound, "unknown-visitor", "Nobody by that id has a place or a pass in this room, or had one lately. The shop gets ids in X-Queuegate-Visitor.")
}

func (c *call) reset() {
	var body struct {
		Confirm string `json:"confirm"`
	}
	if !c.read(&body, `{"confirm": "`+c.room.Name+`"}`) {
		return
	}
	if body.Confirm != c.room.Name {
		c.bad(FieldProblem{"confirm", "must be the name of the room: every place and every pass in it becomes void"})
		return
	}
	before, _ := c.room.Line.Room()
	after, err := c.room.Line.Reset(c.ctx, c.by)
	if err != nil {
		c.failed(err)
		return
	}
	c.done(string(queue.ActionReset), strconv.FormatInt(before.Generation, 10), strconv.FormatInt(after.Generation, 10),
		slog.Int64("waiting", before.Waiting), slog.Int64("active", before.Holding))
	c.shown(c.view(c.room, true))
}

// failed answers what went wrong with an action.
func (c *call) failed(err error) {
	switch {
	case errors.Is(err, queue.ErrSetting):
		c.bad(fieldProblems(err)...)
	case errors.Is(err, queue.ErrConflict):
		refuse(c.w, http.StatusPreconditionFailed, "changed-meanwhile", "The room's values are no longer those of If-Match; look at them and decide again.")
	default:
		c.log.WarnContext(c.r.Context(), "an operator's request failed", "room", c.room.Name, "by", c.by, "error", err.Error())
		c.w.Header().Set("Retry-After", "1")
		refuse(c.w, http.StatusServiceUnavailable, "redis", "Redis did not answer. Whether it was done is not known: look at the room before you ask again.")
	}
}

// fieldProblems takes an error apart.
func fieldProblems(err error) []FieldProblem {
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // it is taken apart here
		var list []FieldProblem
		for _, one := range many.Unwrap() {
			list = append(list, fieldProblems(one)...)
		}
		return list
	}
	if one, ok := errors.AsType[*queue.SettingError](err); ok {
		return []FieldProblem{{string(one.Setting), one.Problem}}
	}
	return nil
}

func (c *call) bad(errs ...FieldProblem) {
	texts := make([]string, len(errs))
	for i, e := range errs {
		texts[i] = e.Field + ": " + e.Detail
	}
	refuse(c.w, http.StatusBadRequest, "bad-request", strings.Join(texts, "; ")+".", errs...)
}

// isNull tells whether a value of JSON is null.
func isNull(raw json.RawMessage) bool { return string(raw) == "null" }
