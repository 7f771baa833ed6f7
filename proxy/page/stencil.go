package page

import (
	"bytes"
	"fmt"
	"html/template"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// stencil is a page of one shape: the bytes that all visitors who see that shape are
// sent, and between them the places of what is each visitor's own. A template takes
// about 850 allocations a page, and nearly everybody at the door sees the same shape.
type stencil struct {
	pieces []piece
	size   int // of the bytes that are sent to all
}

// piece is a stretch of bytes and which of the visitor's own values follows it.
type piece struct {
	same []byte
	own  int // noOwn after the last
}

const noOwn = -1

// shape is all that decides how a page looks but for the visitor's own values. Nothing
// in it is chosen freely by a visitor, so there are few.
type shape struct {
	words                                                            *words
	state                                                            State
	room, statusURL, eventsURL, joinURL, leaveURL                    string
	page, message, query                                             string
	posted, still, apart, refused, unanswered, numbers, behind, near bool
	given                                                            uint32 // a bit for each own value there is
}

// mostQuery is how many parameters of the page's address can be own values.
const mostQuery = 2

// ownMost is how many own values a page has.
const ownMost = 17 + mostQuery

// own is one value that is a visitor's own, as it lies in the model. One of the
// pointers is set, none for a parameter that is not there.
type own struct {
	text   *string
	count  *int64
	markup *template.HTMLAttr
}

// owns are the visitor's own values.
func (m *model) owns() (all [ownMost]own) {
	n := 0
	for _, text := range [...]*string{&m.Nonce, &m.Title, &m.Position, &m.Behind, &m.WaitText, &m.Moved, &m.Hold, &m.CheckedISO, &m.CheckedText} {
		all[n].text, n = text, n+1
	}
	for _, count := range [...]*int64{&m.PollMS, &m.First, &m.Bar, &m.Steps} {
		all[n].count, n = count, n+1
	}
	for _, markup := range [...]*template.HTMLAttr{&m.Refresh, &m.CheckHref, &m.HereHref, &m.StopRef} {
		all[n].markup, n = markup, n+1
	}
	for i := range m.Query[:min(len(m.Query), mostQuery)] {
		all[n].text, n = &m.Query[i].Value, n+1
	}
	return all
}

// given reports whether there is a value: a template asks nothing else of it.
func (o own) given() bool {
	switch {
	case o.text != nil:
		return *o.text != ""
	case o.count != nil:
		return *o.count > 0
	default:
		return o.markup != nil && *o.markup != ""
	}
}

// appendTo appends the value to a page, escaped as the template would.
func (o own) appendTo(page []byte) []byte {
	switch {
	case o.text != nil:
		return append(page, escaper.Replace(*o.text)...)
	case o.count != nil:
		return strconv.AppendInt(page, *o.count, 10)
	default:
		return append(page, *o.markup...)
	}
}

// escaper escapes text between tags and in quoted attributes as html/template does.
var escaper = strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;", "+", "&#43;", "<", "&lt;", ">", "&gt;")

// replace puts a mark, a number found nowhere else, in the place of the value.
func (o own) replace(mark int64) {
	switch text := strconv.FormatInt(mark, 10); {
	case o.text != nil:
		*o.text = text
	case o.count != nil:
		*o.count = mark
	default:
		*o.markup = template.HTMLAttr(text) //nolint:gosec // digits
	}
}

// shapeOf returns the shape of the page of m.
func shapeOf(m *model, owns *[ownMost]own) shape {
	s := shape{
		words: m.W, state: m.State, room: m.Room, statusURL: m.StatusURL, eventsURL: m.EventsURL, joinURL: m.JoinURL,
		leaveURL: m.LeaveURL, page: m.Page, message: m.O.Message, posted: m.Posted, still: m.Still, apart: m.Apart,
		refused: m.Refused, unanswered: m.Unanswered, numbers: m.HasNumbers, behind: m.HasBehind, near: m.Near,
	}
	for _, p := range m.Query {
		s.query += "&" + p.Name
	}
	for i, o := range owns {
		if o.given() {
			s.given |= 1 << i
		}
	}
	return s
}

// cut renders m with marks for the values that are given, and cuts the page at them.
func (r *Renderer) cut(m *model, owns *[ownMost]own, given uint32) (*stencil, error) {
	marks := map[int]string{}
	first := 1e17 + rand.Int64N(8e18)
	for i, o := range owns {
		if given&(1<<i) != 0 {
			mark := first + int64(i)
			marks[i] = strconv.FormatInt(mark, 10)
			o.replace(mark)
		}
	}
	page, err := r.execute(m)
	if err != nil {
		return nil, err
	}
	s := &stencil{}
	for rest := page; ; {
		at, which := len(rest), noOwn
		for i, mark := range marks {
			if found := bytes.Index(rest, []byte(mark)); found >= 0 && found < at {
				at, which = found, i
			}
		}
		s.pieces, s.size = append(s.pieces, piece{same: slices.Clip(rest[:at]), own: which}), s.size+at
		if which == noOwn {
			return s, nil
		}
		rest = rest[at+len(marks[which]):]
	}
}

// fill appends the page of the visitor whose own values these are.
func (s *stencil) fill(page []byte, owns *[ownMost]own) []byte {
	for _, p := range s.pieces {
		page = append(page, p.same...)
		if p.own != noOwn {
			page = owns[p.own].appendTo(page)
		}
	}
	return page
}

// execute renders the template.
func (r *Renderer) execute(m *model) ([]byte, error) {
	m.complete()
	var b bytes.Buffer
	b.Grow(24 << 10)
	if err := r.tmpl.Execute(&b, m); err != nil {
		return nil, fmt.Errorf("page: render: %w", err)
	}
	return b.Bytes(), nil
}

// stencils keeps those that were cut. An operator's own markup may do with a value
// what it likes, so for that none are kept.
type stencils struct {
	mu   sync.RWMutex
	kept map[shape]*stencil // nil: none are kept
}

// mostStencils is how many are kept, 24 KB each. There are more shapes than that only
// after many different messages of the operator.
const mostStencils = 256

func (s *stencils) of(at shape) *stencil {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.kept[at]
}

func (s *stencils) keep(at shape, cut *stencil) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= mostStencils {
		clear(s.kept)
	}
	s.kept[at] = cut
}
