package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
)

const (
	// queues is how many people can be asking in the same moment.
	queues = 512
	// beat is how often requests are sent and answers looked for: times are kept, and
	// measured, as exactly. Longer costs less, for the gate too, which is woken for
	// many at once.
	beat = 10 * time.Millisecond
	// wheel many beats are more than the longest time that anybody is told to wait.
	wheel = 4096
	// retry is when somebody asks again whom the gate could tell nothing.
	retry = time.Second
	// lateness is less than the gate's presence_window.
	lateness = 5 * time.Second
)

// person is one of a million, so it is small.
type person struct {
	ticket    string
	due       time.Duration // when they are to ask next, or were to ask last
	sent, got time.Duration // of the join
	here      time.Duration // when the first poll was answered: they count as here from then on
	waited    time.Duration // when the last poll was sent that was answered with a number
	over      time.Duration // when the shop had answered
	place     int64         // in line, as the pass tells
	granted   int64         // room time of the admission
	ahead     int64         // as told last
	polls     int32
	behind    int32 // how often the number ahead grew
	late      bool  // this process has once had them ask so late that they counted as gone
	in        bool  // the shop has answered
}

// people are all of them. One goroutine lives all their lives.
type people struct {
	sale
	host  string
	began time.Time
	all   []person
	next  int            // who joins next
	left  int            // how many are not done
	due   [wheel][]int32 // who has something to do at a beat to come
	ready []int32        // who has it to do now
	out   []byte         // a request

	joined, admitted, polls, odd atomic.Int64
	meters                       atomic.Pointer[meters]
	whole                        meters // of the whole time
}

// meters are times since somebody looked last.
type meters struct {
	answer crowd.Meter // of polls
	late   crowd.Meter // how much later than told people asked, by the fault of this process
}

func newPeople(s sale) *people {
	p := &people{sale: s, all: make([]person, s.people), left: s.people}
	p.meters.Store(&meters{})
	return p
}

// newMeters hands out those of the time until now.
func (p *people) newMeters() *meters { return p.meters.Swap(&meters{}) }

// run lets everybody come and returns when all have been to the shop. At each beat
// it takes in what was answered, and sends what it is time for.
func (p *people) run(ctx context.Context, url string) error {
	lines, err := newCables(url, queues)
	if err != nil {
		return err
	}
	defer lines.close()
	p.host, p.began = lines.host, time.Now()
	for at := 0; p.left > 0; at++ {
		moment := time.Duration(at) * beat
		if wait := moment - time.Since(p.began); wait > 0 && !rest(ctx, wait) || ctx.Err() != nil {
			return ctx.Err()
		}
		if err := lines.hear(func(c *cable, h *heard) error { return p.hears(lines, c, h) }); err != nil {
			return fmt.Errorf("after %s: %w", p.now().Round(time.Second), err)
		}
		for ; p.next < len(p.all) && p.comes(p.next) <= moment; p.next++ {
			p.all[p.next].due = p.comes(p.next)
			p.ready = append(p.ready, int32(p.next)) //nolint:gosec // a million fits
		}
		p.ready = append(p.ready, p.due[at%wheel]...)
		p.due[at%wheel] = p.due[at%wheel][:0]
		if err := p.askAll(lines); err != nil {
			return err
		}
	}
	return nil
}

func (p *people) now() time.Duration { return time.Since(p.began) }

// comes is when a person joins.
func (p *people) comes(i int) time.Duration {
	return time.Duration(float64(i) / float64(p.rate) * float64(time.Second))
}

// askAll sends for as many as there are free connections; the others are late.
func (p *people) askAll(lines *cables) error {
	asked := 0
	for asked < len(p.ready) {
		c, err := lines.take()
		if err != nil {
			return err
		}
		if c == nil {
			break
		}
		c.who = p.ready[asked]
		if ticket := p.all[c.who].ticket; ticket == "" {
			c.what, p.out = toJoin, append(p.out[:0], "POST "+joinPath+" HTTP/1.1\r\nContent-Length: 0\r\n"...)
		} else {
			c.what, p.out = toPoll, append(p.out[:0], "GET "+statusPath+" HTTP/1.1\r\n"+ticketName+": "...)
			p.out = append(append(p.out, ticket...), "\r\n"...)
		}
		if p.send(lines, c) {
			asked++
		}
	}
	p.ready = append(p.ready[:0], p.ready[asked:]...)
	return nil
}

// send completes the request in out and sends it.
func (p *people) send(lines *cables, c *cable) bool {
	p.out = append(append(append(p.out, "Host: "...), p.host...), "\r\n\r\n"...)
	c.sent = p.now()
	return lines.ask(c, p.out)
}

// later has somebody ask again after a time.
func (p *people) later(i int32, after time.Duration) {
	due := p.now() + min(after, (wheel-2)*beat)
	p.all[i].due = due
	at := int(due/beat) + 1
	p.due[at%wheel] = append(p.due[at%wheel], i)
}

// hears takes in an answer, nil when the connection ended without one; then they ask
// again over another, as browsers do.
func (p *people) hears(lines *cables, c *cable, h *heard) error {
	who, got := &p.all[c.who], p.now()
	switch {
	case h == nil:
		p.ready = append(p.ready, c.who)
	case h.code != http.StatusOK || c.what == toEnter && h.get("X-Robots-Tag") != "" || bytes.Contains(h.body, []byte(`"room_state":"degraded"`)):
		p.odd.Add(1)
		p.later(c.who, retry)
	case c.what == toEnter:
		who.in, who.over, who.ticket = true, got, ""
		p.left--
		p.admitted.Add(1)
	default:
		p.stood(who, c, got)
		if err := p.told(lines, c, h.body); err != nil {
			return fmt.Errorf("person %d, after %d polls: %w", c.who, who.polls, err)
		}
	}
	return nil
}

// stood notes that somebody has joined or asked.
func (p *people) stood(who *person, c *cable, got time.Duration) {
	if c.what == toJoin {
		who.sent, who.got, who.ahead = c.sent, got, 1<<62
		p.joined.Add(1)
		return
	}
	if who.polls++; who.here == 0 {
		who.here = got
	}
	who.late = who.late || c.sent-who.due > lateness
	p.polls.Add(1)
	for _, m := range []*meters{p.meters.Load(), &p.whole} {
		m.answer.Note(got - c.sent)
		m.late.Note(c.sent - who.due)
	}
}

// told is what somebody does who was told how they stand: wait, or go to the shop.
func (p *people) told(lines *cables, c *cable, body []byte) error {
	who := &p.all[c.who]
	if ticket := field(body, "ticket", '"'); ticket != "" {
		who.ticket = ticket
	}
	switch status := field(body, "status", '"'); status {
	case "waiting":
		who.waited = c.sent
		after, err := who.waits(body)
		p.later(c.who, after)
		return err
	case "ready", "active":
		return p.enters(lines, c, field(body, "entry_token", '"'))
	default:
		return fmt.Errorf("is %q: %s", status, body)
	}
}

// waits takes in what somebody is told who waits on.
func (who *person) waits(body []byte) (time.Duration, error) {
	ahead, err := strconv.ParseInt(field(body, "ahead", 0), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("no number ahead: %s", body)
	}
	if ahead > who.ahead {
		who.behind++
	}
	who.ahead = ahead
	ms, err := strconv.Atoi(field(body, "poll_after_ms", 0))
	if err != nil || ms <= 0 {
		return 0, fmt.Errorf("no time to ask again: %s", body)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// enters goes to the shop with a pass.
func (p *people) enters(lines *cables, c *cable, raw string) error {
	pass, ok := crowd.ReadPass(raw)
	if !ok {
		return fmt.Errorf("a pass that is none: %q", raw)
	}
	p.all[c.who].place, p.all[c.who].granted = pass.Place, pass.Granted()
	c.what = toEnter
	p.out = append(append(append(p.out[:0], "GET "+shopPath+" HTTP/1.1\r\nAccept: application/json\r\n"+passName+": "...), raw...), "\r\n"...)
	if !p.send(lines, c) {
		p.ready = append(p.ready, c.who)
	}
	return nil
}

// field finds a member of a flat JSON document: up to the closing quote, or a number.
func field(body []byte, name string, quote byte) string {
	_, rest, found := bytes.Cut(body, []byte(`"`+name+`":`))
	if !found {
		return ""
	}
	if quote == 0 {
		return string(rest[:bytes.IndexAny(rest, ",}")])
	}
	if len(rest) == 0 || rest[0] != quote {
		return ""
	}
	return string(rest[1 : 1+bytes.IndexByte(rest[1:], quote)])
}
