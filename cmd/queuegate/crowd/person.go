package crowd

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

const (
	// minRetry is the least time between a failure, or an answer that is no place in the
	// line, and the next attempt.
	minRetry = time.Second
	maxRetry = time.Minute
	// minPoll keeps a gate that asks for polls without a pause from getting them.
	minPoll = 50 * time.Millisecond
	// maxFailures in a row and the person goes home.
	maxFailures = 8
	// pageLoads is how long a queue page takes, at most, until it polls for the first
	// time.
	pageLoads = 300 * time.Millisecond
	// unanswered for so long at the end of a run, and somebody is lost.
	unanswered = 30 * time.Second
	// longestAway is how long whoever closes the page stays away at most: no room that
	// people wait in forgets them so soon.
	longestAway = 45 * time.Second
	// farewell bounds the giving back of passes and places after the run.
	farewell = 10 * time.Second
)

// Outcomes of those whose visit the end of the run cut off.
const (
	StillWaiting = "in line when the run ended"
	StillInside  = "inside when the run ended"
)

// Person is one simulated visitor with a browser of their own.
type Person struct {
	History
	world   *world
	rng     *rand.Rand
	manner  Manner
	cookies map[string]string

	patience time.Duration // how long they stand in line before they vanish; 0 = as long as it takes
	failures int           // in a row
	stay     int           // Heard.Stay
	placed   bool          // the line knows of them, as far as they were told
	holds    Pass          // zero: none
	trouble  At            // since when no answer was worth anything, 0: the last one was
	shownAt  int64         // the number ahead when the last wait was noted
	tabs     [2]time.Time  // when each tab polls, of whoever has two
}

// newPerson draws a person.
func newPerson(w *world, n int, rng *rand.Rand) *Person {
	p := &Person{world: w, rng: rng, cookies: map[string]string{}, manner: w.People.draw(rng)}
	p.Person, p.Manner = n, string(p.manner)
	p.Began = w.since()
	if p.manner == Vanisher {
		p.patience = between(rng, 5*time.Second, time.Minute)
	}
	p.Faithful = p.manner != Vanisher && p.manner != Leaver && p.manner != Bot && p.manner != NoShow
	return p
}

// between draws a duration from low up to high.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

// next is what one request came to: what the person does next, and after how long.
type next struct {
	step step
	wait time.Duration
}

type step int

const (
	poll   step = iota // in line: ask again
	open               // let in, or out of the line: open the page
	goIn               // the shop answered
	goHome             // nothing works, or nothing is left to want
)

// visit is one person's whole way: into the line, into the shop, out again.
func (p *Person) visit(ctx context.Context) {
	p.world.counts.Arrived.Add(1)
	if p.manner == Bot {
		p.hammer(ctx)
		return
	}
	if p.enter(ctx) {
		p.world.counts.Admitted.Add(1)
		p.shop(ctx)
	}
	if p.Outcome == "" {
		p.Outcome = StillWaiting
	}
	if ctx.Err() != nil && p.world.Farewell {
		p.sayGoodbye(ctx)
	}
}

// sayGoodbye gives back what somebody has whom the end of the run cut off, so that
// nobody waits for them afterwards.
func (p *Person) sayGoodbye(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	switch {
	case p.holds.Admission != "":
		p.release(ctx)
	case p.placed && p.Outcome == StillWaiting:
		_, _ = p.ask(ctx, Leave, http.MethodDelete, p.world.reserved(""), "", script())
	}
}

// enter opens the page and stands in line until the shop answers. It reports false
// when the person gave up, in which case they vanish without a word, or when the
// context ended.
func (p *Person) enter(ctx context.Context) bool {
	p.world.counts.Waiting.Add(1)
	defer p.world.counts.Waiting.Add(-1)
	began, polls := time.Now(), 0
	most := 1 + p.rng.IntN(5) // polls before a leaver leaves and a returner closes the page, once
	now := next{step: open}
	for ctx.Err() == nil {
		if now.step == open {
			now = p.open(ctx)
		} else {
			now = p.poll(ctx)
			polls++
		}
		switch {
		case now.step == goIn:
			return true
		case now.step == goHome:
			return p.giveUp(ctx)
		case now.step == open && now.wait == 0 && p.manner == NoShow:
			p.Outcome = "did not take the pass up"
			p.holds = Pass{}
			return false
		case polls == most && now.step == poll && p.manner == Leaver:
			return p.leave(ctx)
		case polls == most && now.step == poll && p.manner == Returner:
			most = 0
			// Asking first tells whoever stayed away for too long that the place is gone.
			now = next{step: poll, wait: between(p.rng, min(p.world.StayMost, longestAway/3), min(3*p.world.StayMost, longestAway))}
		}
		if !p.pause(ctx, began, now.wait) {
			return false
		}
		if now.step == poll && p.manner == Reloader && p.rng.IntN(10) == 0 {
			now.step = open
		}
	}
	return false
}

// pause waits until the next request; false when patience or the run has ended.
func (p *Person) pause(ctx context.Context, began time.Time, wait time.Duration) bool {
	if p.manner == TwoTabs && p.placed {
		wait = p.otherTab(wait)
	}
	if p.patience > 0 {
		wait = min(wait, p.patience-time.Since(began))
	}
	if !p.world.sleep(ctx, wait) {
		p.Outcome = StillWaiting
		if silent := p.world.since() - p.trouble; p.trouble > 0 && silent > unanswered && p.Faithful {
			p.LostPlace = fmt.Sprintf("asked as told and had no answer for the last %s", seconds(silent))
		}
		return false
	}
	if p.patience > 0 && time.Since(began) >= p.patience {
		p.Outcome = "lost patience"
		p.world.counts.GaveUp.Add(1)
		return false
	}
	return true
}

// otherTab is the time until one of two tabs polls, of which the one that just did
// waits as told.
func (p *Person) otherTab(wait time.Duration) time.Duration {
	now := time.Now()
	asked := 0
	if p.tabs[1].Before(p.tabs[0]) {
		asked = 1
	}
	p.tabs[asked] = now.Add(wait)
	if p.tabs[1-asked].IsZero() { // opened a moment after the first
		p.tabs[1-asked] = now.Add(wait / 2)
	}
	if p.tabs[1-asked].Before(p.tabs[asked]) {
		return max(0, p.tabs[1-asked].Sub(now))
	}
	return wait
}

func (p *Person) giveUp(ctx context.Context) bool {
	if ctx.Err() == nil {
		p.world.counts.GaveUp.Add(1)
		if p.Outcome == "" {
			p.Outcome = "gave up"
		}
	}
	return false
}

// open is a navigation: the shop's page, or the queue page in its place.
func (p *Person) open(ctx context.Context) next {
	r, err := p.ask(ctx, Page, http.MethodGet, p.world.Path, "", navigation())
	switch {
	case err != nil:
		return p.failed(0, open)
	case r.heard.Inside && r.code >= 200 && r.code < 300:
		p.well()
		return next{step: goIn}
	case r.code == http.StatusTooManyRequests, r.code < 300 && !r.heard.Inside: // rooms may answer 200 as well
		p.well()
		return next{step: poll, wait: between(p.rng, minPoll, pageLoads)}
	default:
		return p.failed(r.retryAfter, open)
	}
}

// well notes that an answer was worth something.
func (p *Person) well() {
	p.failures, p.trouble = 0, 0
}

// poll asks for the place in the line, as the queue page's script does.
func (p *Person) poll(ctx context.Context) next {
	r, err := p.ask(ctx, Poll, http.MethodGet, p.world.reserved("/status"), "", script())
	if err != nil {
		return p.failed(0, poll)
	}
	var s status
	tooFast := r.code == http.StatusTooManyRequests // its body still carries the last answer
	if r.code != http.StatusOK && !tooFast {
		return p.failed(r.retryAfter, poll)
	}
	if json.Unmarshal(r.body, &s) != nil || (s.Status == "" && !tooFast) {
		return p.failed(r.retryAfter, poll)
	}
	p.well()
	wait := time.Duration(min(s.PollAfter, maxRetry.Milliseconds())) * time.Millisecond
	switch {
	case tooFast:
		return next{poll, max(minRetry, wait, r.retryAfter)}
	case s.Status == "waiting" && s.PollAfter > 0:
		p.placed = true
		return next{poll, max(minPoll, wait)}
	case s.Status == "waiting":
		p.placed = true
		return next{poll, minRetry}
	case s.Status == "ready", s.Status == "active":
		p.placed = true
		return next{step: open}
	default:
		return p.outside(s, max(minRetry, wait, r.retryAfter))
	}
}

// outside deals with an answer that knows of no place. The page offers to come back
// in, and a person presses that.
func (p *Person) outside(s status, wait time.Duration) next {
	if p.placed && p.Faithful && p.manner != Returner && p.holds.Admission == "" && s.RoomState != "degraded" {
		p.LostPlace = fmt.Sprintf("polled as told and was answered %q", s.Status)
	}
	p.anew()
	return next{open, wait}
}

// anew is the end of a stay: what comes after is another one.
func (p *Person) anew() {
	p.stay++
	p.placed, p.holds = false, Pass{}
}

// leave gives the place up.
func (p *Person) leave(ctx context.Context) bool {
	p.GaveUp = p.world.since()
	_, _ = p.ask(ctx, Leave, http.MethodDelete, p.world.reserved(""), "", script())
	p.Outcome = "left"
	p.world.counts.GaveUp.Add(1)
	p.holds = Pass{}
	return false
}

// shop is what a person does once inside: thinks, looks around, orders, looks at the
// confirmation and leaves.
func (p *Person) shop(ctx context.Context) {
	p.world.counts.Inside.Add(1)
	defer p.world.counts.Inside.Add(-1)
	p.Outcome = StillInside
	thinks := between(p.rng, p.world.StayLeast, p.world.StayMost)
	for range p.world.Looks {
		if !p.world.sleep(ctx, thinks/time.Duration(p.world.Looks+1)) {
			return
		}
		if r, err := p.ask(ctx, Use, http.MethodGet, p.world.Path, "", script()); err == nil && r.code == http.StatusTooManyRequests {
			p.Outcome = "put out before the order"
			p.anew()
			return
		}
	}
	if !p.world.sleep(ctx, thinks/time.Duration(p.world.Looks+1)) {
		return
	}
	if p.world.Order != "" && !p.order(ctx) {
		return
	}
	if !p.world.sleep(ctx, between(p.rng, time.Second, 4*time.Second)) {
		return
	}
	if p.Outcome == StillInside {
		p.Outcome = "looked around"
	}
	p.release(ctx)
}

// order sends an order until the shop has taken or refused it; false when the run has
// ended.
func (p *Person) order(ctx context.Context) bool {
	for {
		r, err := p.ask(ctx, Order, http.MethodPost, p.world.Order, p.world.Form, navigation())
		var now next
		switch {
		case err != nil:
			now = p.failed(0, poll)
		case r.code >= 200 && r.code < 300:
			p.world.counts.Ordered.Add(1)
			p.Outcome = "ordered"
			return true
		case r.code < 500:
			p.Outcome = "was refused an order"
			p.world.counts.Refused.Add(1) // sold out, or the pass ended while they were thinking
			return true
		default:
			now = p.failed(r.retryAfter, poll)
		}
		if now.step == goHome {
			return true
		}
		if !p.world.sleep(ctx, now.wait) {
			return false
		}
	}
}

// release gives the pass back. What this answers changes nothing for somebody on the
// way out.
func (p *Person) release(ctx context.Context) {
	_, _ = p.ask(ctx, Release, http.MethodPost, p.world.reserved("/release"), "", script())
	p.holds = Pass{}
}

// hammer is what a program does that keeps nothing: it opens the page again and again.
func (p *Person) hammer(ctx context.Context) {
	for ctx.Err() == nil {
		p.anew()
		clear(p.cookies)
		_, _ = p.ask(ctx, Page, http.MethodGet, p.world.Path, "", navigation())
		if !p.world.sleep(ctx, between(p.rng, time.Second, 4*time.Second)) {
			return
		}
	}
}

// lag is the way of a request through a bad network; false when the run has ended.
func (p *Person) lag(ctx context.Context) bool {
	if p.manner != Slow {
		return true
	}
	return p.world.sleep(ctx, between(p.rng, 200*time.Millisecond, time.Second))
}

// failed is what to do after no answer or a bad one: try the same again, later each
// time and never before the time the server asked for, and go home after too many in a
// row that did not even ask for one.
func (p *Person) failed(retryAfter time.Duration, again step) next {
	if p.trouble == 0 {
		p.trouble = p.world.since()
	}
	if retryAfter > 0 {
		p.trouble = 0 // told why not
	} else if p.failures++; p.failures >= maxFailures {
		if p.Faithful {
			p.LostPlace = fmt.Sprintf("asked %d times and had no answer worth anything", maxFailures)
		}
		return next{step: goHome}
	}
	wait := max(min(minRetry<<max(0, p.failures-1), maxRetry/2), retryAfter)
	return next{step: again, wait: wait + between(p.rng, 0, wait)}
}
