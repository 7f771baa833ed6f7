package page

import (
	"html/template"
	"maps"
	"math"
	"strings"
	"time"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
)

// words are all texts of the page in one language, with {shop}, {n}, {from}, {moved},
// {wait}, {hold} and {time} where those belong. Each field is a key of
// locales/*.json, and a locale must have them all.
type words struct {
	Lang            string          `json:"lang"`      // the name of the file, a BCP 47 tag
	Dir             string          `json:"dir"`       // ltr or rtl
	Name            string          `json:"name"`      // of the language, in itself
	Languages       string          `json:"languages"` // names the choice of languages
	ThisShop        string          `json:"this_shop"`
	States          map[State]state `json:"states"`
	ByLot           state           `json:"by_lot"`  // Waiting where places are drawn by lot
	NoLine          state           `json:"no_line"` // Full where nobody may wait
	Crowded         state           `json:"crowded"` // Full for one network
	NotAccepted     string          `json:"not_accepted"`
	Unanswered      string          `json:"unanswered"`
	Number          string          `json:"number"`
	Wait            string          `json:"wait"`
	WaitTitle       string          `json:"wait_title"`
	WaitUnknown     string          `json:"wait_unknown"`
	WaitSoon        string          `json:"wait_soon"`
	WaitMinutes     forms           `json:"wait_minutes"`
	WaitHours       forms           `json:"wait_hours"`
	WaitDay         string          `json:"wait_day"`
	ShortMinutes    string          `json:"short_minutes"` // for the title of the document
	ShortHours      string          `json:"short_hours"`
	ShortDay        string          `json:"short_day"`
	Near            string          `json:"near"`
	Slower          string          `json:"slower"`
	Behind          string          `json:"behind"`
	People          forms           `json:"people"`
	Moved           string          `json:"moved"`
	Places          forms           `json:"places"` // of all of them, {n}, so many {moved}
	TurnEnds        string          `json:"turn_ends"`
	TurnOver        string          `json:"turn_over"`
	KeepOpen        string          `json:"keep_open"`
	Hold            string          `json:"hold"`
	HoldSeconds     forms           `json:"hold_seconds"`
	HoldMinutes     forms           `json:"hold_minutes"`
	HoldHours       forms           `json:"hold_hours"`
	TurnOnly        string          `json:"turn_only"`
	Trying          string          `json:"trying"`
	Still           string          `json:"still"`
	Checked         string          `json:"checked"`
	Check           string          `json:"check"`
	StopRefreshing  string          `json:"stop_refreshing"`
	StartRefreshing string          `json:"start_refreshing"`
	Continue        string          `json:"continue"`
	JoinAgain       string          `json:"join_again"`
	Leave           string          `json:"leave"`
	LeaveConfirm    string          `json:"leave_confirm"`
	LeaveFailed     string          `json:"leave_failed"`
	Tell            string          `json:"tell"`
	Told            string          `json:"told"`
	Reconnecting    string          `json:"reconnecting"`
	WayBlocked      string          `json:"way_blocked"`
	Contact         string          `json:"contact"`

	shop      string // the name of the shop
	tag       language.Tag
	digits    *digits
	forScript template.JS
	crowded   *words // for somebody whose network was given too many places
}

// state is what the page says in one state.
type state struct {
	Heading string `json:"heading"`
	Lead    string `json:"lead"`
	Title   string `json:"title"` // of the document
}

// forms are a counted text in the plural forms that its language has (CLDR).
// None, when there is one, is said of 0 whatever form 0 has.
type forms struct {
	None  string `json:"none,omitempty"`
	Zero  string `json:"zero,omitempty"`
	One   string `json:"one,omitempty"`
	Two   string `json:"two,omitempty"`
	Few   string `json:"few,omitempty"`
	Many  string `json:"many,omitempty"`
	Other string `json:"other"`
}

// form returns the text of a plural form, empty when there is none.
func (f forms) form(p plural.Form) string {
	switch p {
	case plural.Zero:
		return f.Zero
	case plural.One:
		return f.One
	case plural.Two:
		return f.Two
	case plural.Few:
		return f.Few
	case plural.Many:
		return f.Many
	default:
		return f.Other
	}
}

// order is the order in which the states stand in the page.
func order() []State {
	return []State{Waiting, Paused, QueueAll, Degraded, unreachable, Full, Closed, SoldOut, ShopDown, Ready, Ended, Left, Ordering, Used, cookieless}
}

// named fills in the name of the shop.
func (w *words) named(text string) string { return strings.ReplaceAll(text, "{shop}", w.shop) }

// fit puts in what is true of a room and its shop.
func (w *words) fit(o Options) (err error) {
	w.shop = strings.TrimSpace(o.Title)
	if w.shop == "" {
		w.shop = w.ThisShop
	}
	if o.ByLot {
		w.States[Waiting] = w.ByLot
	}
	if o.NoLine {
		w.States[Full] = w.NoLine
	}
	if w.forScript, err = w.scriptTexts(); err != nil {
		return err
	}
	crowd := *w
	crowd.States = maps.Clone(w.States)
	crowd.States[Full] = w.Crowded
	crowd.forScript, err = crowd.scriptTexts()
	w.crowded = &crowd
	return err
}

// The waits that the page tells apart: below a minute, between two of
// waitMinutes, more than one of waitHours, more than a day. The script has the
// same lists from the page.
var (
	waitMinutes = []int64{1, 2, 3, 5, 10, 15, 20, 30, 45, 60}
	waitHours   = []int64{1, 2, 3, 6, 12}
)

// wait tells a wait as a range, in the text and, shorter, in the title. A wait on
// a boundary belongs to the longer range: people forgive a wait that was shorter
// than announced.
func (w *words) wait(wait time.Duration) (text, short string) {
	seconds := int64(math.Ceil(max(wait, 0).Seconds()))
	if seconds < 60 {
		return w.WaitSoon, fill(w.ShortMinutes, "{n}", w.number(1))
	}
	for i, to := range waitMinutes {
		if seconds < to*60 {
			text = fill(w.counted(w.WaitMinutes, to), "{from}", w.number(waitMinutes[i-1]))
			return text, fill(w.ShortMinutes, "{n}", w.number(to))
		}
	}
	if seconds >= 24*3600 {
		return w.WaitDay, w.ShortDay
	}
	over := waitHours[0]
	for _, h := range waitHours {
		if seconds >= h*3600 {
			over = h
		}
	}
	return w.counted(w.WaitHours, over), fill(w.ShortHours, "{n}", w.number(over))
}

// hold tells how long a place is kept, rounded down: never longer than it is.
func (w *words) hold(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return w.counted(w.HoldSeconds, int64(d/time.Second))
	case d < 2*time.Hour || (d%time.Hour != 0 && d < 24*time.Hour):
		return w.counted(w.HoldMinutes, int64(d/time.Minute))
	default:
		return w.counted(w.HoldHours, int64(d/time.Hour))
	}
}

// counted picks the form for n and fills it in.
func (w *words) counted(f forms, n int64) string {
	if n == 0 && f.None != "" {
		return f.None
	}
	text := f.form(plural.Cardinal.MatchPlural(w.tag, int(n%pluralsRepeat), 0, 0, 0, 0))
	if text == "" {
		text = f.Other
	}
	return fill(text, "{n}", w.number(n))
}

// pluralsRepeat is a number from which on no rule looks at more than the last six
// digits; MatchPlural takes no larger ones.
const pluralsRepeat = 10_000_000

// number writes n as the language does: 1,234 or 1.234.
func (w *words) number(n int64) string {
	return w.digits.text(n)
}

func fill(text, name, value string) string { return strings.ReplaceAll(text, name, value) }
