package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// turn is somebody's who has heard that it has come.
type turn struct {
	at   time.Time
	pass string
	err  error
}

// measureDelay has one slot go from hand to hand: each visitor gives it back as soon
// as they have it, and the time runs from that request until the next in line reads
// of their pass on the stream.
func (b *bench) measureDelay(ctx context.Context) error {
	shop, err := b.startPeer(ctx, "shop")
	if err != nil {
		return err
	}
	store, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	g, err := b.startGate(ctx, gateConfig{shop: shop.url, redis: store, room: "total_active_users: 1\n    presence_window: 10m"})
	if err != nil {
		return err
	}
	w, err := dial(ctx, g.url)
	if err != nil {
		return err
	}
	defer w.close()
	first, err := w.stand("")
	if err != nil || first.Pass == "" {
		return errors.Join(err, fmt.Errorf("the first is not let in: %+v", first))
	}
	people, err := standInLine(ctx, g.url, b.turns)
	if err != nil {
		return err
	}
	turns := make(chan turn, len(people))
	wires := make([]*wire, len(people))
	defer func() { (&streams{wires: wires}).close() }()
	for i, p := range people {
		if wires[i], err = dial(ctx, g.url); err != nil {
			return err
		}
		if err := wires[i].open(eventsPath, ticketName, p.Ticket); err != nil {
			return err
		}
		go func() { turns <- awaitTurn(wires[i]) }()
	}
	pass := first.Pass
	took := make([]float64, 0, len(people))
	for range people {
		began := time.Now()
		h, err := w.ask(http.MethodPost, "/_queue/"+room+"/release", passName, pass)
		if err != nil || h.code != http.StatusOK {
			return errors.Join(err, fmt.Errorf("a pass is not taken back: %d: %s", h.code, h.body))
		}
		select {
		case t := <-turns:
			if t.err != nil {
				return t.err
			}
			pass = t.pass
			took = append(took, t.at.Sub(began).Seconds()*1e3)
		case <-time.After(updatePatience):
			return fmt.Errorf("nobody is told after %d turns", len(took))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	slices.Sort(took)
	b.note(delayNext, exactly(took[len(took)*99/100]), "median %.1f ms, longest %.1f, of %d", took[len(took)/2], took[len(took)-1], len(took))
	return nil
}

// awaitTurn reads a stream until it says that it is the visitor's turn.
func awaitTurn(w *wire) turn {
	ready := false
	for {
		line, err := w.r.ReadSlice('\n')
		if err != nil {
			return turn{err: err}
		}
		switch {
		case bytes.HasPrefix(line, []byte("event: closed")):
			return turn{err: errors.New("a stream was closed")}
		case bytes.HasPrefix(line, []byte("event: ready")):
			ready = true
		case ready && bytes.HasPrefix(line, []byte("data: ")):
			t := turn{at: time.Now()}
			var s standing
			t.err = json.Unmarshal(bytes.TrimPrefix(line, []byte("data: ")), &s)
			t.pass = s.Pass
			return t
		}
	}
}
