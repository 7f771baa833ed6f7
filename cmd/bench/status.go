package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// near is how many at the front are answered by Redis; front is how many stand there
// before those come whose polls are measured.
const (
	near  = 1000
	front = 1200
)

// measureStatus compares what the poll of somebody far back in line costs: at the
// gate, in a handler that only writes the same bytes, and in the usual way.
func (b *bench) measureStatus(ctx context.Context) error {
	shop, err := b.startPeer(ctx, "shop")
	if err != nil {
		return err
	}
	store, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	g, err := b.startGate(ctx, gateConfig{shop: shop.url, redis: store, room: waitingRoom})
	if err != nil {
		return err
	}
	if _, err := standInLine(ctx, g.url, front); err != nil {
		return err
	}
	usual, names, err := b.usualLine(ctx, b.tickets)
	if err != nil {
		return err
	}
	people, err := standInLine(ctx, g.url, b.tickets)
	if err != nil {
		return err
	}
	tickets, same, err := b.farAway(ctx, g.url, people)
	if err != nil {
		return err
	}
	poll := func(name, url, path, values string) side {
		return side{name: name, load: load{url: url, method: http.MethodGet, path: path, header: ticketName, values: values}}
	}
	sides := []side{
		poll("handler of the same bytes", same.url, statusPath, tickets),
		poll("gate", g.url, statusPath, tickets),
		poll("three commands", usual.url, "/status", names),
	}
	sides[0].meter, sides[1].meter = store.commands, store.commands
	shots, err := b.alternate(ctx, sides)
	if err != nil {
		return err
	}
	b.noteRate(statusEmpty, shots[1], shots[0])
	b.remark(statusEmpty, unlike(shots[1], shots[0]))
	b.noteRate(statusUsual, shots[1], shots[2])
	b.notePollCommands(shots[1], shots[0])
	return nil
}

// usualLine is a waiting room of the usual kind with as many people.
func (b *bench) usualLine(ctx context.Context, people int) (*peer, string, error) {
	store, err := b.startRedis(ctx)
	if err != nil {
		return nil, "", err
	}
	p, err := b.startPeer(ctx, "usual", store.url)
	if err != nil {
		return nil, "", err
	}
	var names strings.Builder
	const page = 5000
	for from := 0; from < people; from += page {
		_, err := store.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := from; i < min(people, from+page); i++ {
				name := fmt.Sprintf("visitor-%018d", i)
				names.WriteString(name + "\n")
				pipe.ZAdd(ctx, usualLine, redis.Z{Score: float64(i), Member: name})
				pipe.Set(ctx, usualBeat+name, 1, usualLife)
			}
			return nil
		})
		if err != nil {
			return nil, "", err
		}
	}
	file, err := b.file("names", names.String())
	return p, file, err
}

// farAway writes down the tickets and starts the peer that gives the answer to one
// of them again.
func (b *bench) farAway(ctx context.Context, url string, people []standing) (file string, same *peer, err error) {
	var lines strings.Builder
	for _, p := range people {
		if p.Status != "waiting" || p.Ahead == nil || *p.Ahead < near {
			return "", nil, fmt.Errorf("somebody is not far back in line: %+v", p)
		}
		lines.WriteString(p.Ticket + "\n")
	}
	if file, err = b.file("tickets", lines.String()); err != nil {
		return "", nil, err
	}
	w, err := dial(ctx, url)
	if err != nil {
		return "", nil, err
	}
	defer w.close()
	h, err := settled(ctx, w, people[len(people)/2].Ticket)
	if err != nil {
		return "", nil, err
	}
	answer, err := b.record("status.json", h)
	if err != nil {
		return "", nil, err
	}
	same, err = b.startPeer(ctx, "bytes", answer)
	return file, same, err
}

// settled is the answer to a poll from far back as it is from now on. Right after a
// crowd has come the gate may not have heard yet how long the line is, and the
// answer brings another ticket.
func settled(ctx context.Context, w *wire, ticket string) (heard, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		h, err := w.ask(http.MethodGet, statusPath, ticketName, ticket)
		if err != nil || h.code == http.StatusOK && h.get("Set-Cookie") == "" {
			return h, err
		}
		if !rest(ctx, time.Second/4) {
			return h, fmt.Errorf("no poll is answered without Redis: %w: %s", ctx.Err(), h.body)
		}
	}
}

// notePollCommands tells what polls cost Redis: what it did while they came, less
// what it did in as long a time while others had their turns, for the gate looks at
// the room twice a second by itself.
func (b *bench) notePollCommands(polled, idle []shot) {
	var commands, polls, without, time, rested float64
	for i := range polled {
		commands, polls, time = commands+polled[i].metered, polls+polled[i].requests, time+polled[i].wall
		without, rested = without+idle[i].metered, rested+idle[i].wall
	}
	without *= time / rested
	each := math.Round(max(0, commands-without)/polls*100) / 100
	b.note(statusRedis, exactly(each), "%.0f commands and %.0f polls; %.0f commands in the same time without", commands, polls, without)
}

// unlike says by how much the answers of two sides differ that are to be the same;
// empty when they do not.
func unlike(a, b []shot) string {
	size := func(s shot) float64 { return s.bytes }
	if x, y := median(a, size), median(b, size); math.Abs(x-y) > 0.05*y {
		return fmt.Sprintf(", but with answers of %.0f and %.0f bytes", x, y)
	}
	return ""
}
