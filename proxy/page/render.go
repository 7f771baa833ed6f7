package page

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"maps"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxTarget bounds the addresses put into the page, which repeat in it.
const maxTarget = 2048

// minRefresh is the shortest time after which a page without JavaScript loads
// itself: a page takes longer to read than a poll to answer.
const minRefresh = 2 * time.Second

// near is a wait that is nearly over; the script has the same figure.
const near = 2 * time.Minute

// Renderer renders the page of one room. It is safe for concurrent use.
type Renderer struct {
	tmpl      *template.Template
	languages *languages
	options   Options
	style     template.CSS
	script    template.JS
	logo      template.URL
	contact   link
	stencils  stencils
	sent      sync.Pool // of *[]byte: pages to be written over
}

// link is a text that may lead somewhere.
type link struct {
	Text, URL string
}

// maxPage bounds the page as Check finds it, with a short address, in bytes.
const maxPage = 28_000

// New returns the renderer of a room's page. It returns an error when a text
// cannot be shown or is too long and when a file is missing or wrong; what Check
// finds takes longer to find.
func New(o Options) (*Renderer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l, err := newLanguages(o)
	if err != nil {
		return nil, err
	}
	parts, err := readParts(o.Template)
	if err != nil {
		return nil, err
	}
	if parts, err = parts.small(); err != nil {
		return nil, err
	}
	tmpl, err := template.New(parts.name).Parse(parts.markup)
	if err != nil {
		return nil, fmt.Errorf("page: %w", err) // names file and line
	}
	accent, err := accentStyle(o.Accent)
	if err != nil {
		return nil, err
	}
	logo, err := logoSource(o.Logo)
	if err != nil {
		return nil, err
	}
	r := &Renderer{
		tmpl:      tmpl,
		languages: l,
		options:   o,
		style:     template.CSS(parts.style + accent), //nolint:gosec // ours, or the operator's
		script:    template.JS(parts.script),          //nolint:gosec // ours, or the operator's
		logo:      template.URL(logo),                 //nolint:gosec // checked
		contact:   contactLink(strings.TrimSpace(o.Contact)),
	}
	if parts.markup == pageTemplate {
		r.stencils.kept = map[shape]*stencil{}
	}
	return r, nil
}

// Check renders the page of every state in every language and returns an error
// for what would otherwise fail in front of everybody: a fault of a template, which
// is named with file and line, or a page that is too large.
func Check(o Options) error {
	r, err := New(o)
	if err != nil {
		return err
	}
	for _, w := range r.languages.all {
		for _, s := range States() {
			got, err := r.Render(Sample(s, w.Lang))
			if err != nil {
				return fmt.Errorf("%w (state %s, language %s)", err, s, w.Lang)
			}
			if n := len(got.Body); n > maxPage {
				return fmt.Errorf("page: the page of the state %s in %s has %d bytes, at most %d are sent to everybody; shorten texts, logo or template", s, w.Lang, n, maxPage)
			}
		}
	}
	return nil
}

// Languages are the names of the languages offered, the default first.
func (r *Renderer) Languages() []string {
	names := make([]string, 0, len(r.languages.all))
	for _, w := range r.languages.all {
		names = append(names, w.Lang)
	}
	return names
}

// Render renders the page for one visitor. The page is complete before it is
// returned; every call has a nonce of its own. It returns ErrState for a state
// it does not know.
func (r *Renderer) Render(v View) (Rendered, error) {
	m, err := r.model(v)
	if err != nil {
		return Rendered{}, err
	}
	got := Rendered{CSP: policy(m.Nonce, r.options.FrameAncestors), Language: m.W.Lang}
	if r.stencils.kept == nil || len(m.Query) > mostQuery {
		got.Body, err = r.execute(m)
		return got, err
	}
	owns := m.owns()
	at := shapeOf(m, &owns)
	s := r.stencils.of(at)
	if s == nil {
		marked := *m
		marked.Query = slices.Clone(m.Query)
		places := marked.owns()
		if s, err = r.cut(&marked, &places, at.given); err != nil {
			return Rendered{}, err
		}
		r.stencils.keep(at, s)
	}
	page, ok := r.sent.Get().(*[]byte)
	if !ok {
		page = new(make([]byte, 0, s.size+2<<10))
	}
	*page = s.fill((*page)[:0], &owns)
	got.Body, got.page = *page, page
	return got, nil
}

// Reuse takes back a page that was sent, and a later one is written over its Body: to
// allocate 24 KB for each cost more than all the rest of rendering. Not calling it is
// harmless.
func (r *Renderer) Reuse(sent Rendered) {
	if sent.page != nil {
		r.sent.Put(sent.page)
	}
}

// policy allows what the page carries itself and calls of its own origin.
func policy(nonce string, frames []string) string {
	ancestors := "'none'"
	if len(frames) > 0 {
		ancestors = strings.ReplaceAll(" "+strings.Join(frames, " ")+" ", " self ", " 'self' ")
	}
	return "default-src 'none'; style-src 'nonce-" + nonce + "'; script-src 'nonce-" + nonce + "'; connect-src 'self'; " +
		"img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors " + strings.TrimSpace(ancestors)
}

// model is what the template works on.
type model struct {
	W         *words
	O         Options
	Contact   link
	Logo      template.URL
	Nonce     string
	Style     template.CSS
	Script    template.JS
	Texts     template.JS
	States    []shown
	Languages []choice

	State                        State
	Room, StatusURL, EventsURL   string
	JoinURL, LeaveURL, Here      string
	PollMS, First                int64
	Posted, Still, Apart         bool
	Refused, Unanswered          bool
	Title                        string
	NumberBefore, NumberAfter    string
	Position                     string
	HasNumbers, HasBehind        bool
	Bar, Steps                   int64  // the progress
	Moved                        string // the same in words, empty where there is none
	Behind, WaitText, Hold       string
	CheckedBefore, CheckedAfter  string
	CheckedISO, CheckedText      string
	Refresh                      template.HTMLAttr
	Near                         bool
	CheckHref, HereHref, StopRef template.HTMLAttr
	Page                         string // with Query, the page of its own address
	Query                        []parameter
}

// choice is one of the languages offered.
type choice struct {
	Lang, Name string
	On         bool
}

// parameter is one of the query of an address.
type parameter struct{ Name, Value string }

// When is the attribute of a part that is seen in the states named only. States
// that an open page never comes to stand in it when they are this page's.
func (m *model) When(states string) template.HTMLAttr {
	names := slices.DeleteFunc(strings.Fields(states), func(s string) bool { return State(s).final() && State(s) != m.State })
	a := attr("data-when", strings.Join(names, " "))
	if !slices.Contains(names, string(m.State)) {
		a += " hidden"
	}
	return a
}

// shown is one state's text and whether it is the one to be seen.
type shown struct {
	Name State
	state
	On bool
}

// scriptWords are the texts the script puts into the page.
type scriptWords struct {
	Lang         string           `json:"lang"`
	Shop         string           `json:"shop"`
	Titles       map[State]string `json:"titles"`
	WaitTitle    string           `json:"wait_title"`
	WaitUnknown  string           `json:"wait_unknown"`
	WaitSoon     string           `json:"wait_soon"`
	WaitMinutes  forms            `json:"wait_minutes"`
	WaitHours    forms            `json:"wait_hours"`
	WaitDay      string           `json:"wait_day"`
	ShortMinutes string           `json:"short_minutes"`
	ShortHours   string           `json:"short_hours"`
	ShortDay     string           `json:"short_day"`
	Minutes      []int64          `json:"minutes"`
	Hours        []int64          `json:"hours"`
	Wait         string           `json:"wait"`
	Number       string           `json:"number"`
	People       forms            `json:"people"`
	Places       forms            `json:"places"`
	LeaveConfirm string           `json:"leave_confirm"`
	LeaveFailed  string           `json:"leave_failed"`
	TurnEnds     string           `json:"turn_ends"`
	TurnOver     string           `json:"turn_over"`
	HoldSeconds  forms            `json:"hold_seconds"`
	HoldMinutes  forms            `json:"hold_minutes"`
	Told         string           `json:"told"`
}

func (r *Renderer) model(v View) (*model, error) {
	w := r.languages.choose(v.Language, v.AcceptLanguage)
	if v.State == Crowded { // a line that is full, for a reason of its own
		w, v.State = w.crowded, Full
	}
	m := &model{
		W: w, O: r.options, Contact: r.contact, Logo: r.logo, Style: r.style, Script: r.script, Nonce: rand.Text(),
		State: v.State, Room: v.Room, Posted: v.Posted, Still: v.RefreshOff,
		StatusURL: target(v.StatusURL), EventsURL: target(v.EventsURL), JoinURL: target(v.JoinURL),
		LeaveURL: target(v.LeaveURL), Here: target(v.Here), Apart: v.Apart, First: max(v.First, 0), Bar: 1,
		PollMS:     max(v.Poll, 0).Milliseconds(),
		HasNumbers: v.NumbersKnown && r.options.ShowNumbers,
		HasBehind:  v.NumbersKnown && r.options.ShowNumbers && v.State != Degraded,
	}
	switch {
	case v.State == NotAccepted:
		m.State, m.Posted = Waiting, true
	case v.State == Degraded && !v.NumbersKnown:
		m.State = unreachable
	}
	if v.Message != "" {
		m.O.Message = v.Message
	}
	if m.Posted && m.Here == "" {
		m.Here = "/"
	}
	m.Refused = m.Posted && v.State != ShopDown
	if (v.State == Closed || v.State == SoldOut) && !v.NumbersKnown && v.HoldFor == 0 {
		m.LeaveURL = "" // nothing to leave
	}
	m.Unanswered = v.State == ShopDown && v.Posted
	now, ok := w.States[m.State]
	if !ok {
		return nil, fmt.Errorf("%w %q", ErrState, v.State)
	}
	r.numbers(m, v, now)
	r.links(m, v)
	m.Texts = w.forScript
	return m, nil
}

// complete fills in what the template alone needs.
func (m *model) complete() {
	for _, name := range order() {
		if name.final() && name != m.State {
			continue
		}
		s := m.W.States[name]
		if name == m.State { // the script names the shop in the others, when they come
			s.Heading, s.Lead = m.W.named(s.Heading), m.W.named(s.Lead)
		}
		m.States = append(m.States, shown{Name: name, state: s, On: name == m.State})
	}
}

// numbers fills in what is counted or measured.
func (r *Renderer) numbers(m *model, v View, now state) {
	w := m.W
	position := v.Position
	if position < 1 {
		position = max(v.Ahead, 0) + 1
	}
	m.NumberBefore, m.NumberAfter, _ = strings.Cut(w.Number, "{n}")
	if m.HasNumbers {
		m.Position = w.number(position)
		m.Behind = w.counted(w.People, max(v.Behind, 0))
		if ahead := position - 1; v.First > 0 && v.First >= ahead {
			m.Bar, m.Steps = v.First, v.First-ahead
			m.Moved = fill(w.counted(w.Places, m.Bar), "{moved}", w.number(m.Steps))
		}
	}
	title := now.Title
	m.WaitText = w.WaitUnknown
	if v.WaitKnown {
		var short string
		m.WaitText, short = w.wait(v.Wait)
		if m.State == Waiting {
			title = fill(w.WaitTitle, "{wait}", short)
			m.Near = v.Wait < near
		}
	}
	m.Title = w.named(title)
	if v.HoldFor >= time.Second {
		m.Hold = strings.ReplaceAll(w.Hold, "{hold}", w.hold(v.HoldFor))
	}
	m.CheckedBefore, m.CheckedAfter, _ = strings.Cut(w.Checked, "{time}")
	if !v.Checked.IsZero() {
		at := v.Checked.UTC()
		m.CheckedISO, m.CheckedText = at.Format(time.RFC3339), at.Format("15:04:05")+" UTC"
	}
}

// links fills in where the page leads.
func (r *Renderer) links(m *model, v View) {
	again := m.Here
	if u, err := url.Parse(target(v.PageURL)); err == nil && u.Path != "" {
		r.offer(m, u)
		own := v.PageURL
		if r.languages.named(v.Language) != nil { // chosen: the page stays the one of its own address
			own += "&lang=" + v.Language
			again = own
		}
		m.StopRef = href(own + "&refresh=off")
	}
	m.HereHref, m.CheckHref = href(again), href(again)
	if m.Still && m.StopRef != "" {
		m.CheckHref = m.StopRef // stays the page that does not refresh
	}
	if v.Poll <= 0 || m.Still || m.State == Ended || m.State == Left {
		return
	}
	seconds := int64(math.Ceil(max(v.Poll, minRefresh).Seconds()))
	content := strconv.FormatInt(seconds, 10)
	// Without an address browsers that are at one with a fragment only jump to the
	// fragment and load nothing. With it the fragment is lost, not the turn.
	if again != "" {
		content += ";url=" + again
	}
	m.Refresh = attr("content", content)
}

// offer puts in the choice of languages, which leads to the page of its own
// address.
func (r *Renderer) offer(m *model, page *url.URL) {
	if len(r.languages.all) == 1 {
		return
	}
	for _, w := range r.languages.all {
		m.Languages = append(m.Languages, choice{Lang: w.Lang, Name: w.Name, On: w.Lang == m.W.Lang})
	}
	m.Page = page.EscapedPath()
	query := page.Query()
	if m.Still {
		query.Set("refresh", "off")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		m.Query = append(m.Query, parameter{name, query.Get(name)})
	}
}

// scriptTexts are the texts of the script as JSON, in which nothing ends a script.
func (w *words) scriptTexts() (template.JS, error) {
	s := scriptWords{
		Lang: w.Lang, Shop: w.shop, Titles: map[State]string{},
		WaitTitle: w.WaitTitle, WaitUnknown: w.WaitUnknown, Wait: w.Wait,
		WaitSoon: w.WaitSoon, WaitMinutes: w.WaitMinutes, WaitHours: w.WaitHours, WaitDay: w.WaitDay,
		ShortMinutes: w.ShortMinutes, ShortHours: w.ShortHours, ShortDay: w.ShortDay,
		Minutes: waitMinutes, Hours: waitHours, Told: w.Told,
		Number: w.Number, People: w.People, Places: w.Places,
		LeaveConfirm: w.LeaveConfirm, LeaveFailed: w.LeaveFailed,
		TurnEnds: w.TurnEnds, TurnOver: w.TurnOver, HoldSeconds: w.HoldSeconds, HoldMinutes: w.HoldMinutes,
	}
	for name, st := range w.States {
		if !name.final() {
			s.Titles[name] = st.Title
		}
	}
	raw, err := json.Marshal(s)
	return template.JS(raw), err //nolint:gosec // json.Marshal escapes < and >
}

// target returns a path and query of this origin as it is, and "" for anything
// that a browser could take for another origin or a scheme: "//host", "/\host",
// "javascript:", and control characters, which browsers drop before they look.
func target(s string) string {
	if len(s) > maxTarget || !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") {
		return ""
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == 0x7f || c == '\\' {
			return ""
		}
	}
	return s
}

// href is an attribute that leads to a checked target byte for byte: the
// template's own URL filter would encode parentheses and quotes, and the shop
// would see another query than the visitor asked for. An empty target is the
// page's own address.
func href(checked string) template.HTMLAttr { return attr("href", checked) }

// attr is one escaped attribute.
func attr(name, value string) template.HTMLAttr {
	return template.HTMLAttr(name + `="` + html.EscapeString(value) + `"`) //nolint:gosec // escaped here
}

// contactLink makes a link of an address and leaves any other text alone.
func contactLink(text string) link {
	l := link{Text: text}
	switch {
	case strings.HasPrefix(text, "https://"), strings.HasPrefix(text, "http://"):
		l.URL = text
	default:
		if a, err := mail.ParseAddress(text); err == nil && a.Address == text {
			l.URL = "mailto:" + text
		}
	}
	return l
}
