package crowd

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// At is a moment of this process: the time since the run began.
type At = time.Duration

// Visit is one line of a shop's own log, where there is one.
type Visit struct {
	Sent               At // when the visitor sent it, as the request says
	Begin, End         At
	Method, Path       string
	Person             int // who sent it, as the request says
	Visitor, Admission string
}

// Pass is what an entry token says, read without its key.
type Pass struct {
	Visitor   string `json:"sub"`
	Admission string `json:"jti"`
	Room      string `json:"aud"`
	Place     int64  `json:"place"`
	Epoch     int64  `json:"epoch"`
	End       int64  `json:"end"` // room time in milliseconds
	Stage     string `json:"stage"`
}

// ReadPass reads an entry token as anybody can; false for what is none.
func ReadPass(raw string) (p Pass, ok bool) {
	_, rest, _ := strings.Cut(raw, ".")
	middle, signature, signed := strings.Cut(rest, ".")
	if !signed || strings.Contains(signature, ".") {
		return p, false
	}
	claims, err := base64.RawURLEncoding.DecodeString(middle)
	return p, err == nil && json.Unmarshal(claims, &p) == nil && p.Admission != ""
}

// Granted is the room time in milliseconds at which the admission was given, which
// its name tells beside the place; 0 where the name is another one.
func (p Pass) Granted() int64 {
	place, moment, _ := strings.Cut(p.Admission, ".")
	if n, err := strconv.ParseInt(place, 10, 64); err != nil || n != p.Place {
		return 0
	}
	n, err := strconv.ParseInt(moment, 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return n
}

// Kind is what somebody asks for.
type Kind string

// What people ask for.
const (
	Join    Kind = "join"
	Page    Kind = "page" // opens the protected page in the browser
	Poll    Kind = "poll"
	Use     Kind = "use"   // a request that needs the pass
	Asset   Kind = "asset" // the same, of the kind that nobody waits for
	Order   Kind = "order"
	Release Kind = "release"
	Leave   Kind = "leave"
)

// Heard is one request of a person and what was answered.
type Heard struct {
	Kind      Kind
	Gate      int
	Sent, Got At
	Code      int // 0: no answer
	Failed    int // the status of an answer that was none, where somebody notes it so; Code is 0 then
	Status    string
	Degraded  bool
	Ahead     int64         // -1: no number
	Next      time.Duration // until the next poll, as told; 0 not told
	Visitor   string
	Place     int64 // of the ticket in the answer, 0 not known
	RoomTime  int64 // of this sign of life, by that ticket; 0 unknown
	Stay      int   // counts the times that the person knowingly began anew
	Inside    bool  // the answer is the shop's
	With      Pass  // the pass that was shown
	Passes    []Pass

	// steady: between the entry before this one and this one there were more polls,
	// left out, none of which came late.
	steady bool
}

func (h Heard) String() string {
	text := fmt.Sprintf("%s-%s %s at gate %d: ", seconds(h.Sent), seconds(h.Got), h.Kind, h.Gate)
	switch {
	case h.Failed != 0:
		return text + fmt.Sprintf("failed, %d", h.Failed)
	case h.Code == 0:
		return text + "no answer"
	}
	text += fmt.Sprint(h.Code)
	if h.Inside {
		text += " from the shop"
	}
	if h.Status != "" {
		text += " " + h.Status
	}
	if h.Degraded {
		text += " (degraded)"
	}
	if h.Ahead >= 0 {
		text += fmt.Sprintf(", %d ahead", h.Ahead)
	}
	if h.Place > 0 {
		text += fmt.Sprintf(", place %d", h.Place)
	}
	for _, p := range h.Passes {
		text += fmt.Sprintf(", %s pass %s until room time %d", p.Stage, p.Admission, p.End)
	}
	if h.Visitor != "" {
		text += ", visitor " + h.Visitor
	}
	return text
}

func seconds(t At) string {
	return fmt.Sprintf("%.3f s", t.Seconds())
}

// History is what one person did and heard, in order: they do one thing at a time.
type History struct {
	Person    int
	Manner    string
	Began     At
	Heard     []Heard
	Outcome   string  // how it ended for them; empty while they still poll
	Faithful  bool    // polled as told from the join to the outcome
	GaveUp    At      // when they first asked to leave or to release, 0: never
	LostPlace string  // what they were told that nobody may be told
	Shown     []Shown // the waits that they were told, a few of them
}

// Add writes an answer down. With brief set a poll that says nothing new takes the
// place of the one before, so that an hour in line is a few entries.
func (h *History) Add(now Heard, brief bool) {
	n := len(h.Heard)
	if brief && n >= 2 && quiet(h.Heard[n-2]) && quiet(h.Heard[n-1]) && quiet(now) &&
		h.Heard[n-2].Stay == now.Stay && h.Heard[n-1].Stay == now.Stay &&
		h.Heard[n-1].Ahead <= h.Heard[n-2].Ahead && now.Ahead <= h.Heard[n-1].Ahead &&
		(h.Heard[n-1].steady || inTime(h.Heard[n-2], h.Heard[n-1])) && inTime(h.Heard[n-1], now) {
		now.steady = true
		h.Heard[n-1] = now
		return
	}
	h.Heard = append(h.Heard, now)
}

// quiet tells whether an answer is one of many: in line, and nothing else.
func quiet(h Heard) bool {
	return h.Kind == Poll && h.Status == "waiting" && !h.Degraded && len(h.Passes) == 0
}

// leeway is how much later than told a sign of life certainly still counts: rooms
// with a presence_window below it are too short for people, too.
const leeway = time.Second

// inTime tells whether the second of two signs of life came while the first still
// counted, wherever between sending and answer each of them was noted.
func inTime(before, now Heard) bool { return now.Got-before.Sent <= before.Next+leeway }

// last tells the end of a history.
func (h *History) last(n int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "person %d (%s):", h.Person, h.Manner)
	for _, a := range h.Heard[max(0, len(h.Heard)-n):] {
		text.WriteString("\n    " + a.String())
	}
	return text.String()
}

// upTo tells a history up to its i-th answer.
func (h *History) upTo(i, n int) string {
	part := *h
	part.Heard = h.Heard[:i+1]
	return part.last(n)
}
