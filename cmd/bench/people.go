package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
)

const (
	// queues is how many people can ask in the same moment: each is a connection that
	// serves its share of the people one after the other.
	queues = 512
	// slot is how exactly times are kept; wheel many of them are more than the longest
	// time that anybody is told to wait.
	slot  = 10 * time.Millisecond
	wheel = 16_384
	// retry is when somebody asks again whom the gate could tell nothing.
	retry = time.Second
	// lateness is less than the gate's presence_window.
	lateness = 5 * time.Second
)

// person is one of a million, so it is small.
type person struct {
	ticket        string
	sent, got     time.Duration // of the join
	here          time.Duration // when the first poll was answered: they count as here from then on
	waited        time.Duration // when the last poll was sent that was answered with a number
	late          bool          // this process has once had them ask so late that they counted as gone
	place         int64         // in line, as the pass tells
	granted       int64         // room time of the admission
	polls         int32
	ahead, behind int64 // as told last; how often it grew
	in            bool  // the shop has answered
}

// people are all of them.
type people struct {
	sale
	url   string
	began time.Time
	all   []person

	joined, admitted, polls, odd atomic.Int64
	meters                       atomic.Pointer[meters]
	whole                        meters // of the whole time
}

// meters are times since somebody looked last.
type meters struct {
	answer crowd.Meter // of polls
	late   crowd.Meter // how much later than told people asked, by the fault of this process
}

func newPeople(s sale, url string) *people {
	p := &people{sale: s, url: url, all: make([]person, s.people)}
	p.meters.Store(&meters{})
	return p
}

// newMeters hands out those of the time until now.
func (p *people) newMeters() *meters { return p.meters.Swap(&meters{}) }

// run lets everybody come and returns when all have been to the shop.
func (p *people) run(ctx context.Context) error {
	p.began = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	failed := make([]error, queues)
	for i := range queues {
		all.Go(func() {
			if failed[i] = p.serve(ctx, i); failed[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// serve is one connection: the people whose number leaves the same rest, each when
// it is their time.
func (p *people) serve(ctx context.Context, first int) error {
	w, err := dial(ctx, p.url)
	if err != nil {
		return err
	}
	defer w.close()
	var due [wheel][]int32
	next, left := first, (len(p.all)-first+queues-1)/queues
	for at := 0; left > 0; at++ {
		moment := time.Duration(at) * slot
		if wait := moment - time.Since(p.began); wait > 0 && !rest(ctx, wait) || ctx.Err() != nil {
			return ctx.Err()
		}
		for ; next < len(p.all) && p.comes(next) <= moment; next += queues {
			due[at%wheel] = append(due[at%wheel], int32(next))
		}
		for _, i := range due[at%wheel] {
			again, err := p.step(w, &p.all[i], moment)
			if err != nil {
				return fmt.Errorf("person %d after %s: %w", i, time.Since(p.began).Round(time.Second), err)
			}
			if again == 0 {
				left--
				continue
			}
			then := max(at+1, int((time.Since(p.began)+again)/slot)+1)
			due[then%wheel] = append(due[then%wheel], i)
		}
		due[at%wheel] = due[at%wheel][:0]
	}
	return nil
}

// comes is when a person joins.
func (p *people) comes(i int) time.Duration {
	return time.Duration(float64(i) / float64(p.rate) * float64(time.Second))
}

// step is what one person does next: join, ask, and when it is their turn go to the
// shop. It tells after what time they ask again; 0 when they are done.
func (p *people) step(w *wire, who *person, due time.Duration) (again time.Duration, err error) {
	method, path, joins := http.MethodGet, statusPath, who.ticket == ""
	if joins {
		method, path = http.MethodPost, joinPath
	}
	sent := time.Since(p.began)
	h, err := w.ask(method, path, ticketName, who.ticket)
	if err != nil {
		return 0, err
	}
	got := time.Since(p.began)
	if h.code != http.StatusOK || bytes.Contains(h.body, []byte(`"room_state":"degraded"`)) {
		p.odd.Add(1)
		return retry, nil
	}
	if joins {
		who.sent, who.got, who.ahead = sent, got, 1<<62
		p.joined.Add(1)
	} else {
		if who.polls++; who.here == 0 {
			who.here = got
		}
		who.late = who.late || sent-due > lateness
		p.polls.Add(1)
		for _, m := range []*meters{p.meters.Load(), &p.whole} {
			m.answer.Note(got - sent)
			m.late.Note(sent - due)
		}
	}
	if ticket := field(h.body, "ticket", '"'); ticket != "" {
		who.ticket = ticket
	}
	switch status := field(h.body, "status", '"'); status {
	case "waiting":
		who.waited = sent
		return p.waits(who, h.body)
	case "ready", "active":
		return p.enters(w, who, field(h.body, "entry_token", '"'))
	default:
		return 0, fmt.Errorf("is %q after %d polls: %s", status, who.polls, h.body)
	}
}

// waits takes in what somebody is told who waits on.
func (p *people) waits(who *person, body []byte) (time.Duration, error) {
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
	return min(time.Duration(ms)*time.Millisecond, (wheel-1)*slot), nil
}

// enters goes to the shop with a pass.
func (p *people) enters(w *wire, who *person, raw string) (time.Duration, error) {
	pass, ok := crowd.ReadPass(raw)
	if !ok {
		return 0, fmt.Errorf("a pass that is none: %q", raw)
	}
	h, err := w.ask(http.MethodGet, shopPath, "Accept", "application/json", passName, raw)
	if err != nil {
		return 0, err
	}
	if h.code != http.StatusOK || h.get("X-Robots-Tag") != "" {
		p.odd.Add(1)
		return retry, nil
	}
	who.place, who.granted, who.in = pass.Place, pass.Granted(), true
	p.admitted.Add(1)
	return 0, nil
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
