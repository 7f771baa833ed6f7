package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxBody = 1 << 20 // bytes read of any answer
	// maxAnswer is how long somebody waits for an answer.
	maxAnswer = 30 * time.Second
	// maxOut is how long a gate that took no connection is left alone while there are
	// others, as behind a balancer.
	maxOut = time.Second
)

// world is what all people of a crowd have in common.
type world struct {
	Options
	start   time.Time
	counts  *Counts
	meters  *Meters
	sockets chan struct{}  // one for each request under way
	out     []atomic.Int64 // by gate: not before this moment again, since start
}

func newWorld(o Options) *world {
	return &world{
		Options: o, start: time.Now(), counts: o.Counts, meters: o.Meters,
		sockets: make(chan struct{}, o.Connections), out: make([]atomic.Int64, len(o.Gates)),
	}
}

// since is the time of the run.
func (w *world) since() At { return time.Since(w.start) }

// sleep waits and reports whether the context is still alive. That this process is
// late with it is noted.
func (w *world) sleep(ctx context.Context, d time.Duration) bool {
	due := time.Now().Add(d)
	if !sleep(ctx, d) {
		return false
	}
	w.meters.Late.Note(time.Since(due))
	return true
}

// sleep waits and reports whether the context is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// style is one of the two ways a browser asks.
type style struct{ accept, mode, dest string }

func navigation() style {
	return style{"text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", "navigate", "document"}
}

func script() style { return style{"application/json", "cors", "empty"} }

// reply is as much of an answer as a person cares about.
type reply struct {
	code       int
	retryAfter time.Duration // 0 without one
	body       []byte
	heard      Heard
}

// status is what the gate tells of the place in line.
type status struct {
	Status    string `json:"status"`
	RoomState string `json:"room_state"`
	Ahead     *int64 `json:"ahead"`
	Wait      *int64 `json:"estimated_wait_seconds"`
	PollAfter int64  `json:"poll_after_ms"`
}

// ask sends one request to a gate, reads the answer, so that the connection can be
// used again, and writes both down.
func (p *Person) ask(ctx context.Context, kind Kind, method, path, form string, by style) (reply, error) {
	if !p.lag(ctx) {
		return reply{}, ctx.Err()
	}
	wanted := time.Now()
	select {
	case p.world.sockets <- struct{}{}:
		defer func() { <-p.world.sockets }()
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
	p.world.meters.Late.Note(time.Since(wanted))

	h := Heard{Kind: kind, Ahead: -1, Stay: p.stay, With: p.holds}
	h.Sent = p.world.since()
	r, header, err := p.send(ctx, &h, method, path, form, by)
	h.Got = p.world.since()
	p.world.counts.Requests.Add(1)
	if err == nil {
		h.Code = r.code
		p.keep(&h, header)
		h.Inside = r.code < 500 && r.code != http.StatusTooManyRequests && (kind == Page || kind == Use || kind == Order) && !gates(header, h)
		p.read(&h, r.body)
	}
	if ctx.Err() == nil || err == nil { // what the end of the run cut off says nothing
		p.note(h)
		if err != nil || r.code >= 500 {
			p.world.counts.Failed.Add(1)
		}
	}
	r.heard = h
	return r, err
}

// gates tells whether an answer is the gate's own and not the shop's.
func gates(header http.Header, h Heard) bool {
	if len(h.Passes) > 0 && h.Passes[len(h.Passes)-1].Stage == "active" {
		return false
	}
	own := header.Get("X-Robots-Tag") == "noindex" && strings.Contains(header.Get("Cache-Control"), "no-store")
	return own || strings.HasPrefix(header.Get("Content-Type"), "application/problem+json")
}

// send sends one request. While there are several gates it goes past those that took
// no connection a moment ago, and on to the next when one takes none.
func (p *Person) send(ctx context.Context, h *Heard, method, path, form string, by style) (r reply, header http.Header, err error) {
	w := p.world
	first := p.rng.IntN(len(w.Gates))
	for try := range w.Gates {
		h.Gate = (first + try) % len(w.Gates)
		if w.out[h.Gate].Load() > int64(w.since()) && try < len(w.Gates)-1 {
			continue
		}
		r, header, err = p.sendTo(ctx, w.Gates[h.Gate], method, path, form, by)
		var dial *net.OpError
		if err == nil || !errors.As(err, &dial) || dial.Op != "dial" {
			return r, header, err
		}
		w.out[h.Gate].Store(int64(w.since() + maxOut))
	}
	return r, header, err
}

func (p *Person) sendTo(ctx context.Context, base, method, path, form string, by style) (reply, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, maxAnswer)
	defer cancel()
	var body io.Reader
	if form != "" {
		body = strings.NewReader(form)
	}
	request, err := http.NewRequestWithContext(ctx, method, base+path, body)
	if err != nil {
		return reply{}, nil, err
	}
	request.Header.Set("Accept", by.accept)
	request.Header.Set("Sec-Fetch-Mode", by.mode)
	request.Header.Set("Sec-Fetch-Dest", by.dest)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	request.Header.Set("User-Agent", p.world.Agent)
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if p.manner != Bot {
		for name, value := range p.cookies {
			request.AddCookie(&http.Cookie{Name: name, Value: value})
		}
	}
	// The transport itself follows no redirect: nobody leaves the gates that were named.
	response, err := p.world.Transport.RoundTrip(request)
	if err != nil {
		return reply{}, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	return reply{code: response.StatusCode, retryAfter: retryAfter(response.Header), body: raw}, response.Header, err
}

// keep takes in the cookies of an answer.
func (p *Person) keep(h *Heard, header http.Header) {
	for _, c := range (&http.Response{Header: header}).Cookies() {
		if c.MaxAge < 0 || c.Value == "" {
			delete(p.cookies, c.Name)
		} else if len(p.cookies) < 50 {
			p.cookies[c.Name] = c.Value
		}
		if strings.HasPrefix(strings.TrimPrefix(c.Name, "__Host-"), "queuegate_entry_") {
			p.holds = Pass{}
			if s, ok := ReadPass(c.Value); ok && c.MaxAge >= 0 {
				p.holds = s
				h.Passes = append(h.Passes, s)
			}
		}
	}
}

// read takes in what an answer says of the line.
func (p *Person) read(h *Heard, body []byte) {
	var s status
	if h.Kind != Poll || json.Unmarshal(body, &s) != nil {
		return
	}
	h.Status, h.Degraded = s.Status, s.RoomState == "degraded"
	h.Next = time.Duration(min(max(0, s.PollAfter), maxRetry.Milliseconds())) * time.Millisecond
	if s.Ahead != nil {
		h.Ahead = *s.Ahead
	}
	if s.Wait != nil && h.Status == "waiting" && !h.Degraded {
		p.toldWait(h.Got, h.Ahead, time.Duration(*s.Wait)*time.Second)
	}
}

// toldWait notes a wait that was shown: the first, and then each time that half of
// those ahead are gone.
func (p *Person) toldWait(now At, ahead int64, wait time.Duration) {
	if !p.world.Record || len(p.Shown) > 0 && ahead > p.shownAt/2 || len(p.Shown) >= 8 {
		return
	}
	from, to := shownRange(wait)
	p.Shown, p.shownAt = append(p.Shown, Shown{now, from, to}), ahead
}

// note writes an answer down, and how long it took.
func (p *Person) note(h Heard) {
	m := p.world.meters
	switch {
	case h.Code == 0:
	case h.Kind == Poll:
		m.Status.Note(h.Got - h.Sent)
		p.world.counts.Polls.Add(1)
	case h.Inside:
		m.Through.Note(h.Got - h.Sent)
	case h.Kind == Page:
		m.Join.Note(h.Got - h.Sent)
	}
	if p.world.Record && (p.manner != Bot || len(h.Passes) > 0) {
		p.Add(h, true)
	}
}

// retryAfter reads the header of that name, in seconds or as a date; 0 without one, at
// most five minutes.
func retryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		wait = time.Duration(min(seconds, 300)) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), 5*time.Minute)
}
