package page

import (
	"bytes"
	"crypto/rand"
	_ "embed" // the style, the script and the template are files
	"fmt"
	"html"
	"html/template"
	"math"
	"net/mail"
	"strconv"
	"strings"
	"time"
)

//go:embed queue.html.tmpl
var pageTemplate string

//go:embed queue.css
var pageStyle string

//go:embed queue.js
var pageScript string

// maxTarget bounds the addresses put into the page, which repeat in it.
const maxTarget = 2048

// minRefresh is the shortest time after which a page without JavaScript loads
// itself: a page takes longer to read than a poll to answer.
const minRefresh = 2 * time.Second

// Renderer renders the page of one room. It is safe for concurrent use.
type Renderer struct {
	tmpl    *template.Template
	words   words
	options Options
	style   template.CSS
	script  template.JS
	contact link
}

// link is a text that may lead somewhere.
type link struct {
	Text, URL string
}

// New returns the renderer of a room's page. It returns an error when a text
// cannot be shown or is too long.
func New(o Options) (*Renderer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	w, err := load("en", o.Title)
	if err != nil {
		return nil, err
	}
	w.fit(o)
	tmpl, err := template.New("queue").Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("page: template: %w", err)
	}
	r := &Renderer{
		tmpl:    tmpl,
		words:   w,
		options: o,
		style:   template.CSS(compact(pageStyle)), //nolint:gosec // our own file
		script:  template.JS(compact(pageScript)), //nolint:gosec // our own file
		contact: contactLink(strings.TrimSpace(o.Contact)),
	}
	// Rendering once here finds at start what would otherwise fail in front of
	// everybody.
	if _, err := r.Render(View{State: Waiting}); err != nil {
		return nil, err
	}
	return r, nil
}

// Render renders the page for one visitor. The page is complete before it is
// returned; every call has a nonce of its own. It returns ErrState for a state
// it does not know.
func (r *Renderer) Render(v View) (Rendered, error) {
	m, err := r.model(v)
	if err != nil {
		return Rendered{}, err
	}
	var b bytes.Buffer
	b.Grow(24 << 10)
	if err := r.tmpl.Execute(&b, m); err != nil {
		return Rendered{}, fmt.Errorf("page: render: %w", err)
	}
	return Rendered{Body: b.Bytes(), CSP: policy(m.Nonce)}, nil
}

// policy allows what the page carries itself and calls of its own origin.
func policy(nonce string) string {
	return "default-src 'none'; style-src 'nonce-" + nonce + "'; script-src 'nonce-" + nonce + "'; connect-src 'self'; " +
		"img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

// model is what the template works on.
type model struct {
	W       words
	O       Options
	Contact link
	Nonce   string
	Style   template.CSS
	Script  template.JS
	Texts   scriptWords
	States  []shown

	State                        State
	Room, StatusURL, LeaveURL    string
	Here                         string
	PollMS                       int64
	Posted, Still                bool
	Refused, Unanswered          bool
	Title                        string
	NumberBefore, NumberAfter    string
	Position                     string
	HasNumbers, HasBehind        bool
	Behind, WaitText, Hold       string
	CheckedBefore, CheckedAfter  string
	CheckedISO, CheckedText      string
	Refresh                      template.HTMLAttr
	CheckHref, HereHref, StopRef template.HTMLAttr
}

// When is the attribute of a part that is seen in the states named only.
func (m *model) When(states string) template.HTMLAttr {
	for _, s := range strings.Fields(states) {
		if State(s) == m.State {
			return attr("data-when", states)
		}
	}
	return attr("data-when", states) + " hidden"
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
	WaitSteps    []step           `json:"wait_steps"`
	Wait         string           `json:"wait"`
	Number       string           `json:"number"`
	People       plural           `json:"people"`
	Places       plural           `json:"places"`
	LeaveConfirm string           `json:"leave_confirm"`
	LeaveFailed  string           `json:"leave_failed"`
}

func (r *Renderer) model(v View) (*model, error) {
	w := r.words
	if v.State == Crowded { // a line that is full, for a reason of its own
		w, v.State = w.crowded(), Full
	}
	m := &model{
		W: w, O: r.options, Contact: r.contact, Style: r.style, Script: r.script, Nonce: rand.Text(),
		State: v.State, Room: v.Room, Posted: v.Posted, Still: v.RefreshOff,
		StatusURL: target(v.StatusURL), LeaveURL: target(v.LeaveURL), Here: target(v.Here),
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
	for _, name := range order() {
		if name.final() && name != m.State {
			continue
		}
		s := w.States[name]
		s.Heading, s.Lead = w.named(s.Heading), w.named(s.Lead)
		m.States = append(m.States, shown{Name: name, state: s, On: name == m.State})
	}
	r.numbers(m, v, now)
	r.links(m, v)
	m.Texts = forScript(w)
	return m, nil
}

// numbers fills in what is counted or measured.
func (r *Renderer) numbers(m *model, v View, now state) {
	w := r.words
	position := v.Position
	if position < 1 {
		position = max(v.Ahead, 0) + 1
	}
	m.NumberBefore, m.NumberAfter, _ = strings.Cut(w.Number, "{n}")
	if m.HasNumbers {
		m.Position = grouped(position)
		m.Behind = w.People.of(max(v.Behind, 0))
	}
	title := now.Title
	m.WaitText = w.WaitUnknown
	if v.WaitKnown {
		s := w.step(v.Wait)
		m.WaitText = s.Text
		if m.State == Waiting {
			title = strings.ReplaceAll(w.WaitTitle, "{wait}", s.Short)
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
	stop := target(v.NoRefreshURL)
	m.HereHref = href(m.Here)
	m.CheckHref = m.HereHref
	if stop != "" {
		m.StopRef = href(stop)
		if m.Still {
			m.CheckHref = m.StopRef // stays the page that does not refresh
		}
	}
	if v.Poll <= 0 || m.Still || m.State == Ended {
		return
	}
	seconds := int64(math.Ceil(max(v.Poll, minRefresh).Seconds()))
	content := strconv.FormatInt(seconds, 10)
	// Without an address browsers that are at one with a fragment only jump to the
	// fragment and load nothing. With it the fragment is lost, not the turn.
	if m.Here != "" {
		content += ";url=" + m.Here
	}
	m.Refresh = attr("content", content)
}

func forScript(w words) scriptWords {
	s := scriptWords{
		Lang: w.Lang, Shop: w.Shop, Titles: map[State]string{},
		WaitTitle: w.WaitTitle, WaitUnknown: w.WaitUnknown, WaitSteps: w.WaitSteps, Wait: w.Wait,
		Number: w.Number, People: w.People, Places: w.Places,
		LeaveConfirm: w.LeaveConfirm, LeaveFailed: w.LeaveFailed,
	}
	for name, st := range w.States {
		if !name.final() {
			s.Titles[name] = st.Title
		}
	}
	return s
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

// compact drops indentation, empty lines and lines that are nothing but a
// comment; the page is sent a hundred thousand times.
func compact(source string) string {
	var b strings.Builder
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "//") || (strings.HasPrefix(line, "/*") && strings.HasSuffix(line, "*/")) {
			continue
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}
