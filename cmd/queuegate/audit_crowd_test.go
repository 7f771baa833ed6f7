package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
	"github.com/queuegate/queuegate/token"
)

const (
	// impatience is when a person gives a gate up and asks another one, as a
	// balancer would for them.
	impatience = 2 * time.Second
	// breath is how long a person waits after a request that was not answered.
	breath = 150 * time.Millisecond
)

// The requests of the crowd say who sent them and when; the shop notes it.
const (
	headerPerson = "X-Audit-Person"
	headerSent   = "X-Audit-Sent"
	headerShop   = "X-Audit-Shop"
)

// ledger is the shop: it writes down what reaches it.
type ledger struct {
	start time.Time
	// trouble answers instead of the shop and reports that it did; nil: none.
	trouble atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
	journal *json.Encoder // gets all that is written down, as it is; nil: none
	mu      sync.Mutex
	visits  []crowd.Visit
	orders  []chaos.Order
}

// serve takes every order after a moment.
func (l *ledger) serve(w http.ResponseWriter, r *http.Request) {
	v := crowd.Visit{
		Begin: time.Since(l.start), Method: r.Method, Path: r.URL.Path,
		Visitor: r.Header.Get("X-Queuegate-Visitor"), Admission: r.Header.Get("X-Queuegate-Admission"),
	}
	v.Person, _ = strconv.Atoi(r.Header.Get(headerPerson))
	sent, _ := strconv.ParseInt(r.Header.Get(headerSent), 10, 64)
	v.Sent = crowd.At(sent)
	_, _ = io.Copy(io.Discard, r.Body)
	defer func() {
		v.End = time.Since(l.start)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.visits = append(l.visits, v)
	}()
	l.tell(entry{Visit: &v})
	if trouble := l.trouble.Load(); trouble != nil && (*trouble)(w, r) {
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(time.Duration(v.Sent % crowd.At(60*time.Millisecond))):
	}
	w.Header().Set(headerShop, "1")
	_, _ = io.WriteString(w, "welcome")
	if r.Method == http.MethodPost {
		o := chaos.Order{Person: v.Person, Admission: v.Admission, Begin: v.Begin, End: time.Since(l.start)}
		l.tell(entry{Order: &o})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.orders = append(l.orders, o)
	}
}

// tell writes a line of the journal, where there is one.
func (l *ledger) tell(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.journal != nil {
		_ = l.journal.Encode(e) // the test's own folder
	}
}

// of lists what reached the protected path of a room.
func (l *ledger) of(path string) (visits []crowd.Visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range l.visits {
		if strings.HasPrefix(v.Path, path) {
			visits = append(visits, v)
		}
	}
	return visits
}

// manner is how somebody behaves.
type manner string

// The manners, and of how many in a hundred they are.
const (
	shops     manner = "shops"       // waits, makes a few requests, goes or gives the pass back
	neverCame manner = "never came"  // waits, and does not take the pass up
	leaves    manner = "leaves"      // gives the place up
	vanishes  manner = "vanishes"    // polls a few times and is not heard of again
	returns   manner = "returns"     // is away for a while and comes back
	overstays manner = "overstays"   // tries the pass after the session as well
	intrudes  manner = "pushes past" // knocks without a pass all the time
)

var manners = []struct {
	manner manner
	share  int
}{{shops, 46}, {neverCame, 9}, {leaves, 8}, {vanishes, 8}, {returns, 9}, {overstays, 18}, {intrudes, 2}}

func mannerOf(n int) manner {
	for _, m := range manners {
		if n -= m.share; n < 0 {
			return m.manner
		}
	}
	return shops
}

// roomPlan is one room of the audited fleet.
type roomPlan struct {
	name, limits             string
	slots, perMinute, burst  int64
	session                  time.Duration
	claimWindow, presence    time.Duration
	crowd                    int
	arriveWithin, silentMost time.Duration
	orders                   bool // people order, and an order uses the pass up
}

func (r roomPlan) yaml() string {
	more := ""
	if r.orders {
		more = fmt.Sprintf(", consume: {routes: [{paths: [/%s/order], methods: [POST]}]}", r.name)
	}
	return fmt.Sprintf("  - {name: %s, protect: [{paths: [/%s]}], %s, session_duration: %s, claim_window: %s, presence_window: %s%s}\n",
		r.name, r.name, r.limits, r.session, r.claimWindow, r.presence, more)
}

// person is one simulated visitor. Everything but the addresses of the gates is
// theirs alone.
type person struct {
	crowd.History
	room    roomPlan
	chance  *rand.Rand
	client  *http.Client
	cookies bool // keeps cookies and opens pages; else keeps ticket and pass and calls the API
	start   time.Time
	gates   []atomic.Pointer[string]
	tickets *token.Tickets
	arrives time.Duration

	ticket, pass string
	holds        crowd.Pass    // what pass says
	next         time.Duration // until the next poll, as told
	secrets      []string      // every ticket and pass they were handed
	sold         []chaos.Sold
	conflict     string // the kind of the last problem that they were told of
}

func newPerson(n int, seed uint64, room roomPlan, transport http.RoundTripper) *person {
	p := &person{room: room, chance: rand.New(rand.NewPCG(seed, uint64(n)))} //nolint:gosec // how people behave, not a secret
	p.Person, p.Manner = n, string(mannerOf(p.chance.IntN(100)))
	p.cookies = p.chance.IntN(2) == 0
	p.client = &http.Client{
		Transport: transport, Timeout: impatience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if p.cookies {
		p.client.Jar, _ = cookiejar.New(nil) // New never fails
	}
	p.Faithful = manner(p.Manner) == shops || manner(p.Manner) == neverCame || manner(p.Manner) == overstays || manner(p.Manner) == returns
	if p.chance.IntN(2) == 0 { // half of them come when the doors open
		p.arrives = p.between(0, room.arriveWithin)
	} else {
		p.arrives = p.between(0, time.Second)
	}
	return p
}

// between draws a duration.
func (p *person) between(least, most time.Duration) time.Duration {
	return least + time.Duration(p.chance.Int64N(int64(most-least+1)))
}

// pause lets time pass for this person; false when the run is over.
func (p *person) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// ask sends one request to any gate and writes down what was answered.
func (p *person) ask(kind crowd.Kind, method, path string, header map[string]string) crowd.Heard {
	gate := p.chance.IntN(len(p.gates))
	h := crowd.Heard{Kind: kind, Gate: gate, Ahead: -1, With: p.holds, Sent: time.Since(p.start)}
	all := map[string]string{
		"Accept": "application/json", headerPerson: strconv.Itoa(p.Person), headerSent: strconv.FormatInt(int64(h.Sent), 10),
	}
	if !p.cookies && p.ticket != "" {
		all["X-Queue-Ticket"] = p.ticket
	}
	if !p.cookies && p.pass != "" {
		all["X-Entry-Token"] = p.pass
	}
	for name, value := range header {
		all[name] = value
	}
	got, err := send(p.client, request{method: method, url: *p.gates[gate].Load() + path, header: all})
	h.Got = time.Since(p.start)
	switch {
	case err != nil && p.cookies:
		p.keepPasses(&h, setCookies(got.header, "queuegate_entry_")) // the jar took them, though the answer broke off
	case err != nil:
	case got.code < 500:
		h.Code = got.code
		h.Inside = got.header.Get(headerShop) != ""
		p.read(&h, got)
	default:
		h.Failed = got.code
		p.read(&h, got) // a pass is renewed though the shop is down
	}
	p.Heard = append(p.Heard, h)
	return h
}

// read takes in what an answer says and hands out.
func (p *person) read(h *crowd.Heard, got answer) {
	h.Status, _ = got.doc.Status.(string)
	p.conflict = got.doc.Type
	h.Degraded = got.doc.RoomState == "degraded"
	if got.doc.Ahead != nil {
		h.Ahead = *got.doc.Ahead
	}
	if got.doc.PollAfterMS != nil {
		p.next = time.Duration(*got.doc.PollAfterMS) * time.Millisecond
	}
	for _, raw := range append([]string{got.doc.Ticket, got.header.Get("X-Queue-Ticket")}, setCookies(got.header, "queuegate_ticket_")...) {
		if t, err := p.tickets.Open(p.room.name, raw); err == nil {
			p.ticket, h.Place, h.Visitor, h.RoomTime = raw, t.Place, t.Visitor, t.Seen
			p.secrets = append(p.secrets, raw)
		}
	}
	p.keepPasses(h, append([]string{got.doc.EntryToken, got.header.Get("X-Entry-Token")}, setCookies(got.header, "queuegate_entry_")...))
}

// setCookies are the values of the cookies whose name begins so.
func setCookies(header http.Header, prefix string) (values []string) {
	for _, c := range (&http.Response{Header: header}).Cookies() {
		if strings.HasPrefix(c.Name, prefix) {
			values = append(values, c.Value)
		}
	}
	return values
}

// keepPasses takes in the passes that an answer hands out.
func (p *person) keepPasses(h *crowd.Heard, passes []string) {
	for _, raw := range passes {
		if s, ok := crowd.ReadPass(raw); ok {
			p.pass, p.holds = raw, s
			p.secrets = append(p.secrets, raw)
			if len(h.Passes) == 0 || h.Passes[len(h.Passes)-1] != s {
				h.Passes = append(h.Passes, s)
			}
		}
	}
}

// browse are the headers of a person who opens a page, for those who do.
func (p *person) browse() map[string]string {
	if p.cookies {
		return browse()
	}
	return nil
}

// live is the whole of one visit.
func (p *person) live(ctx context.Context) {
	if !p.pause(ctx, p.arrives) {
		return
	}
	p.Began = time.Since(p.start)
	if manner(p.Manner) == intrudes {
		p.intrude(ctx)
		return
	}
	if !p.arrive(ctx) {
		return
	}
	switch manner(p.Manner) {
	case leaves:
		if p.poll(ctx, 1+p.chance.IntN(6)) && p.giveUp(ctx, crowd.Leave) {
			p.Outcome = "left"
		}
	case vanishes:
		if p.poll(ctx, p.chance.IntN(6)) {
			p.Outcome = "vanished"
		}
	case returns:
		if p.poll(ctx, 1+p.chance.IntN(5)) && p.holds.Admission == "" &&
			!p.pause(ctx, p.between(p.room.presence+2*time.Second, p.room.presence+p.room.silentMost)) {
			return
		}
		p.shop(ctx)
	default:
		p.shop(ctx)
	}
}

// arrive asks for a place, in the browser by opening the page. A call carries a
// key, so that one whose answer got lost does not stand in line twice.
func (p *person) arrive(ctx context.Context) bool {
	key := map[string]string{"Idempotency-Key": fmt.Sprintf("key-of-person-%06d", p.Person)}
	for {
		var h crowd.Heard
		if p.cookies {
			h = p.ask(crowd.Page, "GET", "/"+p.room.name, browse())
		} else {
			h = p.ask(crowd.Join, "POST", "/_queue/"+p.room.name+"/join", key)
		}
		if h.Place != 0 || len(h.Passes) > 0 {
			p.next = p.between(0, 200*time.Millisecond) // the page polls when it has loaded
			return true
		}
		if h.Code != 0 {
			p.LostPlace = "asked for a place and got none"
			return false
		}
		if !p.pause(ctx, breath) {
			return false
		}
	}
}

// poll asks as told until it is the turn or, when most is not 0, so many times.
// It reports false when there is nothing to wait for any more.
func (p *person) poll(ctx context.Context, most int) bool {
	wait := p.next
	for i := 0; most == 0 || i < most; {
		if !p.pause(ctx, wait) {
			return false
		}
		h := p.ask(crowd.Poll, "GET", "/_queue/"+p.room.name+"/status", nil)
		wait = breath
		switch {
		case h.Code == 0:
			continue
		case h.Status == "ready" || h.Status == "active":
			return true
		case h.Status == "waiting":
		case h.Code == http.StatusOK && h.Status == "expired" && p.holds.Admission != "":
			p.Outcome = "told: expired" // a pass that was not taken up three times
			return false
		default:
			p.LostPlace = fmt.Sprintf("polled as told and was answered %d %q", h.Code, h.Status)
			return false
		}
		i++
		wait = p.next
	}
	return true
}

// shop waits for the turn and uses it.
func (p *person) shop(ctx context.Context) {
	wanted := 2 + p.chance.IntN(6)
	for {
		if !p.poll(ctx, 0) {
			return
		}
		if manner(p.Manner) == neverCame {
			p.Outcome = "never came"
			return
		}
		used, ok := p.use(ctx, wanted)
		if !ok {
			return
		}
		if used > 0 {
			if p.room.orders && !p.order(ctx) {
				return
			}
			break
		}
		// The pass was over before it was taken up: back in the line.
	}
	if p.Outcome == "" {
		p.Outcome = "served"
	}
	switch {
	case p.room.orders:
	case manner(p.Manner) == overstays:
		p.overstay(ctx)
	case p.chance.IntN(2) == 0:
		if p.giveUp(ctx, crowd.Release) {
			p.Outcome = "served, gave the pass back"
		}
	}
}

// use makes up to wanted requests at the shop and tells how many reached it; it
// ends with the first that is refused.
func (p *person) use(ctx context.Context, wanted int) (used int, ok bool) {
	for used < wanted {
		h := p.ask(crowd.Use, "GET", "/"+p.room.name+"/step", p.browse())
		wait := p.between(200*time.Millisecond, time.Second)
		switch {
		case h.Inside:
			used++
		case h.Code == http.StatusTooManyRequests:
			return used, true
		case h.Code == 0:
			wait = breath
		default:
			p.LostPlace = fmt.Sprintf("came with a pass and was answered %d", h.Code)
			return used, false
		}
		if !p.pause(ctx, wait) {
			return used, false
		}
	}
	return used, true
}

// order orders until an answer says what became of it, and when it succeeded tries once
// more, which must not. It reports false when the run is over.
func (p *person) order(ctx context.Context) bool {
	for {
		with := p.holds
		h := p.ask(crowd.Order, "POST", "/"+p.room.name+"/order", nil)
		switch {
		case h.Inside:
			p.Outcome = "ordered"
			p.sold = append(p.sold, chaos.Sold{Admission: with.Admission, Gate: h.Gate, Sent: h.Sent, Got: h.Got})
			if len(p.sold) > 1 {
				return true
			}
		case h.Code == http.StatusConflict && len(p.sold) == 0 && p.conflict == underWay:
		case h.Code == http.StatusConflict:
			if p.Outcome == "" {
				p.Outcome = "ordered, and was not told" // the answer to one before got lost
			}
			return true
		case h.Code == http.StatusTooManyRequests: // the session was over, or the stay is
			if p.Outcome == "" {
				p.Outcome = "served"
			}
			return true
		case h.Code != 0:
			p.LostPlace = fmt.Sprintf("ordered with a pass and was answered %d", h.Code)
			return false
		}
		if !p.pause(ctx, breath) {
			return false
		}
	}
}

// overstay goes on with the pass, beyond its session: with requests that nobody
// waits for, which are refused without a place, and at last with one that joins
// again.
func (p *person) overstay(ctx context.Context) {
	over := min(p.room.session, 5*time.Second) // in a room of long sessions the pass stays good
	if !p.pause(ctx, p.between(0, over)) {
		return
	}
	for range 20 {
		p.ask(crowd.Asset, "GET", "/"+p.room.name+"/picture", map[string]string{"Sec-Fetch-Dest": "image", "Accept": "image/*"})
		if !p.pause(ctx, p.between(100*time.Millisecond, 400*time.Millisecond)) {
			return
		}
	}
	p.ask(crowd.Use, "GET", "/"+p.room.name+"/late", p.browse())
}

// intrude knocks at the protected route with nothing in hand.
func (p *person) intrude(ctx context.Context) {
	p.cookies, p.client.Jar = false, nil
	for range 15 {
		p.ask(crowd.Asset, "HEAD", "/"+p.room.name+"/door", nil)
		if !p.pause(ctx, p.between(300*time.Millisecond, 2*time.Second)) {
			return
		}
	}
	p.Outcome = "stayed outside"
}

// giveUp leaves or releases; it asks until it is answered.
func (p *person) giveUp(ctx context.Context, kind crowd.Kind) bool {
	p.GaveUp = time.Since(p.start)
	for {
		var h crowd.Heard
		if kind == crowd.Leave {
			h = p.ask(kind, "DELETE", "/_queue/"+p.room.name, nil)
		} else {
			h = p.ask(kind, "POST", "/_queue/"+p.room.name+"/release", nil)
		}
		if h.Code != 0 {
			return h.Code == http.StatusOK
		}
		if !p.pause(ctx, breath) {
			return false
		}
	}
}
