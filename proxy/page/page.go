package page

import (
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// State is what the page has to say.
type State string

// The states of the page.
const (
	// Waiting: in line, and the line moves.
	Waiting State = "waiting"
	// Paused: in line; an operator holds the line for a while.
	Paused State = "paused"
	// QueueAll: in line; nobody new is let in.
	QueueAll State = "queue_all"
	// Degraded: the line does not answer. With View.NumbersKnown the last known
	// numbers are shown, without them the page is true for people with a place
	// and for people without one.
	Degraded State = "degraded"
	// Full: no place was given because too many wait already.
	Full State = "full"
	// Crowded: no place was given because too many have just been given to the
	// visitor's network.
	Crowded State = "crowded"
	// Closed: the operator closed the room.
	Closed State = "closed"
	// SoldOut: there is nothing left to wait for.
	SoldOut State = "sold_out"
	// ShopDown: the shop refused or did not answer; turn and place are kept.
	ShopDown State = "shop_down"
	// NotAccepted: like Waiting, as the answer to a form that was not passed on.
	// It implies View.Posted.
	NotAccepted State = "not_accepted"
	// Ready: it is the visitor's turn.
	Ready State = "ready"
	// Ended: the stay is over (expired, released); offers to join again.
	Ended State = "ended"
	// Left: the visitor has given the place up; offers to join again.
	Left State = "left"
	// Ordering: this order was not passed on because another one with the same
	// pass is at the shop.
	Ordering State = "ordering"
	// Used: an order has used the pass up, and this request was not passed on.
	Used State = "used"
)

// final reports whether an open page never comes to this state: it is the answer
// to a request alone, and is not in other pages.
func (s State) final() bool { return s == Full || s == ShopDown || s == Ordering || s == Used }

// unreachable is what the page calls Degraded without numbers.
const unreachable State = "unreachable"

// cookieless is what the script makes of a page when the browser does not bring
// back its place, or its turn three times in a row.
const cookieless State = "cookieless"

// ErrState is returned when View.State is none of the states above.
var ErrState = errors.New("page: unknown state")

// Limits of the operator's texts in characters. With maxPage they keep the page
// below 30 KB whatever the texts are, unless the address is a very long one.
const (
	maxTitle   = 50
	maxMessage = 500
	maxContact = 150
	maxFooter  = 200
)

// Options are the operator's texts for one room: plain text, never markup.
type Options struct {
	// Title names the shop ("Concert tickets"); empty means "this shop". At
	// most 50 characters.
	Title string
	// Message is a notice shown to everybody who waits; line breaks are kept. At
	// most 500 characters. A message in the answer of the status address takes
	// its place in an open page.
	Message string
	// Contact is where help is found, always in the same place of the page: an
	// http(s) address or an e-mail address becomes a link, anything else is
	// shown as it is. At most 150 characters.
	Contact string
	// Footer is the last line of the page. At most 200 characters.
	Footer string
	// ByLot says that places are drawn by lot and not given in the order in
	// which people came.
	ByLot bool
	// NoLine says that nobody can wait: who finds no room gets no place.
	NoLine bool
	// Logo is a picture above the heading: a file that becomes part of the page
	// (SVG, PNG, JPEG, GIF or WebP, at most 4 KiB), or "shop:/path" for one that
	// the browser gets from the shop at a path that is not protected. It says
	// nothing that the texts do not say.
	Logo string
	// Accent is the colour of the number, the bar and the buttons as #rgb or
	// #rrggbb; empty means the built-in blue. It is made darker for the light page
	// and lighter for the dark one until it can be read there.
	Accent string
	// Template is a directory with any of queue.html.tmpl, queue.css and queue.js
	// in place of the built-in ones; empty means none.
	Template string
	// Languages are the languages offered, as BCP 47 tags; none means en, ko and
	// ja, which come with the page.
	Languages []string
	// DefaultLanguage is the one of Languages for whom none fits; empty means the
	// first.
	DefaultLanguage string
	// Locales is a directory of files such as fr.json, each with every text of the
	// page, for languages that do not come with it or to take the place of those
	// that do; empty means none.
	Locales string
	// FrameAncestors are the origins that may show the page in a frame, "self"
	// being its own; none means nobody.
	FrameAncestors []string
	// ShowNumbers shows the place and the number of people behind. Without it
	// only the wait is shown.
	ShowNumbers bool
}

func (o Options) validate() error {
	return errors.Join(
		plain("title", o.Title, maxTitle),
		plain("message", o.Message, maxMessage),
		plain("contact", o.Contact, maxContact),
		plain("footer", o.Footer, maxFooter),
	)
}

// plain refuses what cannot be shown as text, so that a broken file is noticed
// when it is read and not by a hundred thousand people.
func plain(name, text string, most int) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("page: %s: is not valid UTF-8; save the file as UTF-8", name)
	}
	if n := utf8.RuneCountInString(text); n > most {
		return fmt.Errorf("page: %s: has %d characters, at most %d fit; shorten it", name, n, most)
	}
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return fmt.Errorf("page: %s: contains the control character %U; remove it", name, r)
		}
	}
	return nil
}

// View is what one visitor is shown at one moment.
type View struct {
	State State
	Room  string

	// Position starts at 1 and Ahead at 0; a missing Position is Ahead + 1. All
	// four are shown only when NumbersKnown.
	Position, Ahead, Behind, Waiting int64
	NumbersKnown                     bool
	// First is the number of people who were ahead when the visitor came, from
	// which progress is measured. It is shown with the numbers; 0: nothing to show.
	First int64

	// Wait is the estimated time until it is the visitor's turn, shown as a
	// range in words.
	Wait      time.Duration
	WaitKnown bool

	// Poll is the time until the page asks again, by script or, without
	// JavaScript, by loading itself; jitter is the caller's. Zero: the page does
	// not ask by itself (closed for somebody without a place).
	Poll time.Duration
	// HoldFor is how long a closed page keeps its place; zero says nothing of it.
	HoldFor time.Duration

	// StatusURL, EventsURL, JoinURL and LeaveURL are paths of this origin. Without
	// a StatusURL the script loads the page again after Poll instead of asking;
	// without an EventsURL it only asks; without a JoinURL joining again is left to
	// the page that is loaded then; without a LeaveURL there is no leave button.
	StatusURL, EventsURL, JoinURL, LeaveURL string
	// Apart is set when Here may be answered by a shop that the gate does not stand
	// in front of: the script looks for itself whether it answers before it goes
	// there.
	Apart bool
	// Here is the path and query to load when it is the visitor's turn: the
	// page's own, or the way back. It must begin with one slash; anything else
	// (another origin, a scheme, over 2048 bytes) is not put into the page, which
	// then loads its own address, or "/" when Posted. With JavaScript the fragment
	// of the page's address is kept; without it it is lost.
	Here string
	// Posted is set when the page answers anything but a GET: its own address is
	// then never loaded again, so that no form is sent twice; only Here is. In
	// every state but ShopDown the page says that the form was not passed on.
	Posted bool
	// PageURL is a path of this origin, with a query, that shows this page as the
	// page of its own address. "lang" and a name added to its query set Language,
	// and "&refresh=off" sets RefreshOff. Empty: the language cannot be changed and the
	// page without JavaScript cannot be stopped from loading itself.
	PageURL string
	// Language is the name of the one the visitor has chosen; one that is not
	// offered counts as none.
	Language string
	// AcceptLanguage is the header of that name, from which the language comes
	// that nobody has chosen. Whatever it says, some language fits.
	AcceptLanguage string
	// RefreshOff is set when the visitor asked for a page that stays as it is:
	// nothing is loaded without a click.
	RefreshOff bool

	// Message takes the place of Options.Message; empty leaves that one. It is
	// checked by whoever set it.
	Message string
	// Checked is when the numbers were asked for; zero leaves it out.
	Checked time.Time
}

// Rendered is a page ready to be sent as text/html; charset=utf-8.
type Rendered struct {
	Body []byte
	// CSP is the value of the Content-Security-Policy header; its nonce belongs
	// to this Body alone.
	CSP string
	// Language is the value of the Content-Language header.
	Language string

	page *[]byte // Body, where it can be written over
}
