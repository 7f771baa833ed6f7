package main

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	crowdMaxBody = 1 << 20 // bytes read of any answer
	// crowdMinRetry is the least time between a failure, or an answer that is no place in the line, and the next
	// attempt.
	crowdMinRetry = time.Second
	crowdMaxRetry = time.Minute
	// crowdMinPoll keeps a gate that asks for polls without a pause from getting them.
	crowdMinPoll = 50 * time.Millisecond
	// crowdMaxFailures in a row and the person goes home.
	crowdMaxFailures = 8
)

// crowdPerson is one simulated visitor with a browser of their own.
type crowdPerson struct {
	base   string
	client *http.Client
	rng    *rand.Rand
	counts *crowdCounts

	patience time.Duration // how long they stand in line before they vanish; 0 = as long as it takes
	reloads  bool          // presses reload now and then
	failures int           // in a row
}

// newCrowdPerson draws a person: one in ten runs out of patience, one in five presses reload.
func newCrowdPerson(base string, transport http.RoundTripper, rng *rand.Rand, counts *crowdCounts) *crowdPerson {
	jar, _ := cookiejar.New(nil) // never fails without options
	p := &crowdPerson{
		base:   strings.TrimSuffix(base, "/"),
		rng:    rng,
		counts: counts,
		client: &http.Client{
			Transport: transport,
			Jar:       jar,
			Timeout:   2 * time.Minute,
			// The gate never redirects; a shop that does is not followed out of the line.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if rng.IntN(10) == 0 {
		p.patience = crowdBetween(rng, 5*time.Second, time.Minute)
	}
	p.reloads = rng.IntN(5) == 0
	return p
}

// crowdAnswer is what one request came to: what the person does next, and after how long.
type crowdAnswer struct {
	next crowdNext
	wait time.Duration
}

type crowdNext int

const (
	crowdPoll   crowdNext = iota // in line: ask again
	crowdOpen                    // let in, or out of the line: open the checkout
	crowdGoIn                    // the shop answered
	crowdGoHome                  // nothing works
)

// visit is one person's whole way: into the line, into the shop, out again.
func (p *crowdPerson) visit(ctx context.Context) {
	p.counts.arrived.Add(1)
	if p.enter(ctx) {
		p.shop(ctx)
	}
}

// enter opens the checkout and stands in line until the shop answers. It reports false when the person gave up, in
// which case they vanish without a word, or when the context ended.
func (p *crowdPerson) enter(ctx context.Context) bool {
	p.counts.waiting.Add(1)
	defer p.counts.waiting.Add(-1)
	began := time.Now()
	next := crowdOpen
	for ctx.Err() == nil {
		var answer crowdAnswer
		if next == crowdOpen {
			answer = p.openCheckout(ctx)
		} else {
			answer = p.poll(ctx)
		}
		switch answer.next {
		case crowdGoIn:
			return true
		case crowdGoHome:
			if ctx.Err() == nil {
				p.counts.gaveUp.Add(1)
			}
			return false
		}
		wait := answer.wait
		if p.patience > 0 {
			wait = min(wait, p.patience-time.Since(began))
		}
		if !crowdSleep(ctx, wait) {
			return false
		}
		if p.patience > 0 && time.Since(began) >= p.patience {
			p.counts.gaveUp.Add(1)
			return false
		}
		next = answer.next
		if next == crowdPoll && p.reloads && p.rng.IntN(10) == 0 {
			next = crowdOpen
		}
	}
	return false
}

// openCheckout is a navigation: the shop's page, or the queue page in its place.
func (p *crowdPerson) openCheckout(ctx context.Context) crowdAnswer {
	reply, err := p.do(ctx, http.MethodGet, crowdCheckout, "", crowdNavigation())
	switch {
	case err != nil:
		return p.failed(0, crowdOpen)
	case reply.code >= 200 && reply.code < 300:
		p.failures = 0
		return crowdAnswer{next: crowdGoIn}
	case reply.code == http.StatusTooManyRequests:
		p.failures = 0
		return crowdAnswer{next: crowdPoll, wait: max(crowdMinRetry, reply.retryAfter)}
	default:
		return p.failed(reply.retryAfter, crowdOpen)
	}
}

// poll asks for the place in the line, as the queue page's script does.
func (p *crowdPerson) poll(ctx context.Context) crowdAnswer {
	reply, err := p.do(ctx, http.MethodGet, crowdPrefix+"/status", "", crowdScript())
	if err != nil {
		return p.failed(0, crowdPoll)
	}
	var status struct {
		Status    string `json:"status"`
		PollAfter int64  `json:"poll_after_ms"`
	}
	tooFast := reply.code == http.StatusTooManyRequests // its body still carries the last answer
	if reply.code != http.StatusOK && !tooFast {
		return p.failed(reply.retryAfter, crowdPoll)
	}
	if json.Unmarshal(reply.body, &status) != nil || (status.Status == "" && !tooFast) {
		return p.failed(reply.retryAfter, crowdPoll)
	}
	p.failures = 0
	wait := time.Duration(min(status.PollAfter, crowdMaxRetry.Milliseconds())) * time.Millisecond
	switch {
	case tooFast:
		return crowdAnswer{next: crowdPoll, wait: max(crowdMinRetry, wait, reply.retryAfter)}
	case status.Status == "waiting" && status.PollAfter > 0:
		return crowdAnswer{next: crowdPoll, wait: max(crowdMinPoll, wait)}
	case status.Status == "waiting":
		return crowdAnswer{next: crowdPoll, wait: crowdMinRetry}
	case status.Status == "ready", status.Status == "active":
		return crowdAnswer{next: crowdOpen}
	default:
		// Out of the line for whatever reason: the page offers to come back in, and a person presses that.
		return crowdAnswer{next: crowdOpen, wait: max(crowdMinRetry, wait, reply.retryAfter)}
	}
}

// shop is what a person does once inside: thinks, orders, looks at the confirmation and leaves.
func (p *crowdPerson) shop(ctx context.Context) {
	p.counts.inside.Add(1)
	defer p.counts.inside.Add(-1)
	if !crowdSleep(ctx, crowdBetween(p.rng, 5*time.Second, 30*time.Second)) {
		return
	}
	for {
		reply, err := p.do(ctx, http.MethodPost, crowdOrders, url.Values{"quantity": {"1"}}.Encode(), crowdNavigation())
		var answer crowdAnswer
		switch {
		case err != nil:
			answer = p.failed(0, crowdPoll)
		case reply.code >= 200 && reply.code < 300:
			p.counts.ordered.Add(1)
			answer.next = crowdGoIn
		case reply.code < 500:
			p.counts.refused.Add(1) // sold out, or the pass ended while they were thinking
			answer.next = crowdGoIn
		default:
			answer = p.failed(reply.retryAfter, crowdPoll)
		}
		if answer.next != crowdPoll {
			break
		}
		if !crowdSleep(ctx, answer.wait) {
			return
		}
	}
	if !crowdSleep(ctx, crowdBetween(p.rng, time.Second, 4*time.Second)) {
		return
	}
	// What this answers changes nothing for somebody on the way out.
	_, _ = p.do(ctx, http.MethodPost, crowdPrefix+"/release", "", crowdScript())
}

// failed is what to do after no answer or a bad one: try the same again, later each time and never before the time
// the server asked for, and go home after too many in a row.
func (p *crowdPerson) failed(retryAfter time.Duration, again crowdNext) crowdAnswer {
	p.counts.failed.Add(1)
	p.failures++
	if p.failures >= crowdMaxFailures {
		return crowdAnswer{next: crowdGoHome}
	}
	wait := max(min(crowdMinRetry<<(p.failures-1), crowdMaxRetry/2), retryAfter)
	return crowdAnswer{next: again, wait: wait + crowdBetween(p.rng, 0, wait)}
}

// crowdReply is as much of an answer as a person cares about.
type crowdReply struct {
	code       int
	retryAfter time.Duration // 0 without one
	body       []byte
}

// crowdManner is one of the two ways a browser asks.
type crowdManner struct{ accept, mode, dest string }

func crowdNavigation() crowdManner {
	return crowdManner{"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "navigate", "document"}
}

func crowdScript() crowdManner { return crowdManner{"application/json", "cors", "empty"} }

// do sends one request and reads the answer, so that the connection can be used again.
func (p *crowdPerson) do(ctx context.Context, method, path, form string, manner crowdManner) (crowdReply, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.base+path, strings.NewReader(form))
	if err != nil {
		return crowdReply{}, err
	}
	request.Header.Set("Accept", manner.accept)
	request.Header.Set("Sec-Fetch-Mode", manner.mode)
	request.Header.Set("Sec-Fetch-Dest", manner.dest)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	request.Header.Set("User-Agent", "queuegate-demo-crowd")
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := p.client.Do(request)
	if err != nil {
		return crowdReply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, crowdMaxBody))
	return crowdReply{code: response.StatusCode, retryAfter: crowdRetryAfter(response.Header), body: body}, err
}

// crowdRetryAfter reads the header of that name, in seconds or as a date; 0 without one, at most five minutes.
func crowdRetryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(seconds, 300)) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), 5*time.Minute)
}
