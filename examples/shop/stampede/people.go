package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// What became of a person.
const (
	bought      = "bought"
	soldOut     = "told sold out by the shop"
	soldOutLine = "told sold out in line"
	gaveUp      = "gave up after errors"
)

// How people behave.
const (
	rush     = 2 * time.Second // in which all of them arrive
	patience = 5 * time.Second // for one page
	tries    = 3               // of a page of the shop that does not come
	retries  = 10              // of the line in a row: its page asks again by itself
	longest  = 2 * time.Minute // for all of it
)

// seen is what one person saw, one line of the people's log.
type seen struct {
	Visitor string  `json:"visitor"`
	Outcome string  `json:"outcome"`
	Seconds float64 `json:"seconds"` // until they knew
	Errors  int     `json:"errors"`  // pages that did not come, or said 5xx
}

// person is one visitor.
type person struct {
	base   string
	gated  bool
	client *http.Client
	name   string
	ticket string
	pass   string
	errors int
}

// stampede sends so many visitors at once and writes what each of them saw.
func stampede(ctx context.Context, base string, gated bool, visitors int, log io.Writer) error {
	transport := &http.Transport{MaxIdleConnsPerHost: visitors, MaxIdleConns: visitors}
	defer transport.CloseIdleConnections()
	var mu sync.Mutex
	var failed error
	var everybody sync.WaitGroup
	for n := range visitors {
		p := &person{
			base: base, gated: gated, name: fmt.Sprintf("visitor-%04d", n),
			client: &http.Client{Transport: transport, Timeout: patience},
		}
		everybody.Go(func() {
			if !wait(ctx, rand.N(rush)) { //nolint:gosec // when somebody comes, not a secret
				return
			}
			began := time.Now()
			outcome := p.visit(ctx)
			line, err := json.Marshal(seen{p.name, outcome, time.Since(began).Seconds(), p.errors})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				_, err = log.Write(append(line, '\n'))
			}
			if err != nil {
				failed = err
			}
		})
	}
	everybody.Wait()
	return failed
}

// visit is a person's whole way.
func (p *person) visit(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if p.gated {
		if outcome := p.standInLine(ctx); outcome != "" {
			return outcome
		}
	}
	if code, _ := p.page(ctx, http.MethodGet, "/checkout"); code == 0 {
		return gaveUp
	}
	wait(ctx, 200*time.Millisecond+rand.N(300*time.Millisecond)) //nolint:gosec // reading, not a secret
	code, body := p.page(ctx, http.MethodPost, "/orders")
	switch code {
	case http.StatusCreated:
		return bought
	case http.StatusAccepted:
		return p.follow(ctx, body)
	case http.StatusConflict:
		return soldOut
	default:
		return gaveUp
	}
}

// page asks until an answer comes that is none of 5xx, as often as people do.
func (p *person) page(ctx context.Context, method, path string) (int, []byte) {
	for range tries {
		code, body, err := p.ask(ctx, method, path)
		if err == nil && code < 500 {
			return code, body
		}
		p.errors++
		if !wait(ctx, time.Second) {
			break
		}
	}
	return 0, nil
}

// standInLine returns "" once it is the person's turn.
func (p *person) standInLine(ctx context.Context) string {
	method, path := http.MethodPost, "/_queue/checkout/join"
	for failures := 0; failures < retries; {
		code, body, err := p.ask(ctx, method, path)
		var told struct {
			Status    string `json:"status"`
			RoomState string `json:"room_state"`
			PollAfter int    `json:"poll_after_ms"`
			Ticket    string `json:"ticket"`
			Pass      string `json:"entry_token"`
		}
		if err == nil {
			err = json.Unmarshal(body, &told)
		}
		switch {
		case err != nil || code >= 500:
			p.errors++
			failures++
			told.PollAfter = 1000 + rand.IntN(1000) //nolint:gosec // as above
		case told.Status == "ready" || told.Status == "active":
			p.pass = told.Pass
			return ""
		case told.RoomState == "sold_out":
			return soldOutLine
		}
		if err == nil && code < 500 {
			failures = 0
		}
		if told.Ticket != "" {
			p.ticket = told.Ticket
			method, path = http.MethodGet, "/_queue/checkout/status"
		}
		if !wait(ctx, time.Duration(max(100, told.PollAfter))*time.Millisecond) {
			break
		}
	}
	return gaveUp
}

// follow asks how far an order is until it is decided.
func (p *person) follow(ctx context.Context, receipt []byte) string {
	var order struct {
		URL string `json:"status_url"`
	}
	if err := json.Unmarshal(receipt, &order); err != nil {
		return gaveUp
	}
	for {
		var standing struct{ Status string }
		if _, body, err := p.ask(ctx, http.MethodGet, order.URL); err == nil {
			_ = json.Unmarshal(body, &standing) // an empty status asks again
		}
		switch standing.Status {
		case "confirmed":
			return bought
		case "sold_out", "failed":
			return soldOut
		}
		if !wait(ctx, time.Second) {
			return gaveUp
		}
	}
}

func (p *person) ask(ctx context.Context, method, path string) (int, []byte, error) {
	var body io.Reader = http.NoBody
	if path == "/orders" {
		body = strings.NewReader(`{"product_id": "lantern", "quantity": 1}`)
	}
	r, err := http.NewRequestWithContext(ctx, method, p.base+path, body)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	if path == "/orders" {
		r.Header.Set("Idempotency-Key", "order-of-"+p.name)
	}
	if p.gated {
		set(r.Header, "X-Queue-Ticket", p.ticket)
		set(r.Header, "X-Entry-Token", p.pass)
	} else {
		r.Header.Set("X-Queuegate-Visitor", p.name) // who they are, which a gate says otherwise
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if renewed := answer.Header.Get("X-Entry-Token"); renewed != "" {
		p.pass = renewed
	}
	return answer.StatusCode, text, err
}

func set(h http.Header, name, value string) {
	if value != "" {
		h.Set(name, value)
	}
}

// wait waits and reports whether the context is still alive.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
