package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"
)

//go:embed locales/*.json
var locales embed.FS

// words are all texts of the page in one language, with {shop}, {n}, {wait},
// {hold} and {time} where those belong.
type words struct {
	Shop            string          `json:"-"` // the name of the shop
	Lang            string          `json:"lang"`
	Dir             string          `json:"dir"`
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
	WaitSteps       []step          `json:"wait_steps"`
	Behind          string          `json:"behind"`
	People          plural          `json:"people"`
	Moved           string          `json:"moved"`
	Places          plural          `json:"places"`
	KeepOpen        string          `json:"keep_open"`
	Hold            string          `json:"hold"`
	HoldSeconds     plural          `json:"hold_seconds"`
	HoldMinutes     plural          `json:"hold_minutes"`
	HoldHours       plural          `json:"hold_hours"`
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
	Reconnecting    string          `json:"reconnecting"`
	Contact         string          `json:"contact"`
}

// state is what the page says in one state.
type state struct {
	Heading string `json:"heading"`
	Lead    string `json:"lead"`
	Title   string `json:"title"` // of the document
}

// step is one range of waits: below Under seconds (0: all the rest) and not in
// an earlier step.
type step struct {
	Under int64  `json:"under"`
	Text  string `json:"text"`
	Short string `json:"short"` // for the document title
}

// plural is a counted noun. English needs no more forms than these.
type plural struct {
	Zero  string `json:"zero"`
	One   string `json:"one"`
	Other string `json:"other"`
}

// order is the order in which the states stand in the page.
func order() []State {
	return []State{Waiting, Paused, QueueAll, Degraded, unreachable, Full, Closed, SoldOut, ShopDown, Ready, Ended, Ordering, Used, cookieless}
}

// named fills in the name of the shop.
func (w *words) named(text string) string { return strings.ReplaceAll(text, "{shop}", w.Shop) }

// load reads one locale for a shop.
func load(lang, shop string) (words, error) {
	raw, err := locales.ReadFile("locales/" + lang + ".json")
	if err != nil {
		return words{}, fmt.Errorf("page: locale %s: %w", lang, err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var w words
	if err := dec.Decode(&w); err != nil {
		return words{}, fmt.Errorf("page: locale %s: %w", lang, err)
	}
	if shop = strings.TrimSpace(shop); shop == "" {
		shop = w.ThisShop
	}
	w.Shop = shop
	return w, nil
}

// fit puts in what is true of a room that is not first come, first served.
func (w *words) fit(o Options) {
	if o.ByLot {
		w.States[Waiting] = w.ByLot
	}
	if o.NoLine {
		w.States[Full] = w.NoLine
	}
}

// crowded returns the words for somebody whose network was given too many places.
func (w words) crowded() words {
	w.States = maps.Clone(w.States)
	w.States[Full] = w.Crowded
	return w
}

// step finds the range a wait lies in. A wait on a boundary belongs to the
// longer range: people forgive a wait that was shorter than announced.
func (w *words) step(wait time.Duration) step {
	seconds := int64(math.Ceil(max(wait, 0).Seconds()))
	for _, s := range w.WaitSteps {
		if seconds < s.Under || s.Under == 0 {
			return s
		}
	}
	return step{Text: w.WaitUnknown}
}

// hold tells how long a place is kept, rounded down: never longer than it is.
func (w *words) hold(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return w.HoldSeconds.of(int64(d / time.Second))
	case d < 2*time.Hour || (d%time.Hour != 0 && d < 24*time.Hour):
		return w.HoldMinutes.of(int64(d / time.Minute))
	default:
		return w.HoldHours.of(int64(d / time.Hour))
	}
}

// of picks the form for n and fills it in.
func (p plural) of(n int64) string {
	switch {
	case n == 0 && p.Zero != "":
		return p.Zero
	case n == 1:
		return p.One
	default:
		return strings.ReplaceAll(p.Other, "{n}", grouped(n))
	}
}

// grouped writes a number with a comma every three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := len(s) % 3
	var b strings.Builder
	b.WriteString(s[:start])
	for i := start; i < len(s); i += 3 {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(s[i : i+3])
	}
	return b.String()
}
