package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	eventsPath = "/_queue/" + room + "/events"
	socketPath = "/_queue/" + room + "/ws"
	// updates are told to all streams, one after the other; each must arrive within
	// updatePatience.
	updates        = 5
	updatePatience = 30 * time.Second
)

// measureStreams holds streams at one gate, of one kind after the other, and tells
// all of them something.
func (b *bench) measureStreams(ctx context.Context) error {
	for _, kind := range []struct {
		path       string
		bytes, all rowID
		headers    []string
	}{
		{eventsPath, streamsSSE, streamsSSEAll, nil},
		{socketPath, streamsWS, streamsWSAll, []string{
			"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
		}},
	} {
		err := b.onStage(func() error {
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
			return b.holdStreams(ctx, g, kind.path, kind.headers, kind.bytes, kind.all)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) holdStreams(ctx context.Context, g *gate, path string, headers []string, bytesRow, allRow rowID) error {
	// All that the gate keeps of its visitors counts, not the streams alone.
	before, err := g.memory(ctx)
	if err != nil {
		return err
	}
	people, err := standInLine(ctx, g.url, b.streams)
	if err != nil {
		return err
	}
	opened, err := openStreams(ctx, g.url, path, people, headers)
	defer opened.close()
	if err != nil {
		return err
	}
	after, err := g.memory(ctx)
	if err != nil {
		return err
	}
	n := float64(len(people))
	b.note(bytesRow, exactly((after.heap-before.heap)/n/1000), "%d streams; the process grew by %.1f KB each", len(people), (after.resident-before.resident)/n/1000)
	var took, whole []float64
	for i := range updates {
		text := fmt.Sprintf("update number %d of this run", i)
		asked := time.Now()
		done := opened.await(ctx, text)
		if err := g.change(ctx, `{"message": "`+text+`"}`); err != nil {
			return err
		}
		t, err := done()
		if err != nil {
			return err
		}
		took, whole = append(took, t.last.Sub(t.first).Seconds()*1e3), append(whole, t.last.Sub(asked).Seconds()*1e3)
	}
	b.note(allRow, figureOf(took), "from the first to the last of %d; %.0f ms from the operator's call", len(people), figureOf(whole).median)
	return nil
}

// memory is what the gate holds after a collection.
type memory struct{ heap, resident float64 }

func (g *gate) memory(ctx context.Context) (memory, error) {
	if _, err := get(ctx, g.admin+"/debug/pprof/heap?gc=1"); err != nil {
		return memory{}, err
	}
	heap, errHeap := g.metric(ctx, "go_memstats_heap_inuse_bytes")
	stack, errStack := g.metric(ctx, "go_memstats_stack_inuse_bytes")
	resident, errRSS := g.metric(ctx, "process_resident_memory_bytes")
	return memory{heap + stack, resident}, errors.Join(errHeap, errStack, errRSS)
}

// change is what an operator sets.
func (g *gate) change(ctx context.Context, settings string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPatch, g.admin+"/api/rooms/"+room, strings.NewReader(settings))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := (&http.Client{}).Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("the operator's call: %s", a.Status)
	}
	return nil
}

// streams are many open at once, each with a reader.
type streams struct {
	wires  []*wire
	wanted atomic.Pointer[[]byte] // what the readers look for
	heard  chan time.Time
	lost   chan error
}

func openStreams(ctx context.Context, url, path string, people []standing, headers []string) (*streams, error) {
	s := &streams{wires: make([]*wire, len(people)), heard: make(chan time.Time, len(people)), lost: make(chan error, len(people))}
	s.wanted.Store(&[]byte{0})
	err := inLanes(ctx, url, lanes, len(people), func(_ *wire, i int) error {
		w, err := dial(ctx, url)
		if err != nil {
			return err
		}
		s.wires[i] = w
		return w.open(path, append([]string{ticketName, people[i].Ticket}, headers...)...)
	})
	if err != nil {
		return s, err
	}
	for _, w := range s.wires {
		go s.read(w)
	}
	return s, nil
}

// open asks for a stream and reads the head of the answer.
func (w *wire) open(path string, headers ...string) error {
	if err := w.send(http.MethodGet, path, headers...); err != nil {
		return err
	}
	h, err := w.readHead()
	if err == nil && h.code != http.StatusOK && h.code != http.StatusSwitchingProtocols {
		err = fmt.Errorf("%s: %d: %s", path, h.code, h.head)
	}
	return errors.Join(err, w.conn.SetDeadline(time.Time{}))
}

// read reports each time the text that is wanted comes by; a text is wanted once.
func (s *streams) read(w *wire) {
	var buf [2048]byte
	kept := 0
	var seen *[]byte
	for {
		n, err := w.r.Read(buf[kept:])
		if err != nil {
			s.lost <- err
			return
		}
		kept += n
		if wanted := s.wanted.Load(); wanted != seen && bytes.Contains(buf[:kept], *wanted) {
			seen = wanted
			s.heard <- time.Now()
		}
		const tail = 64 // longer than any text
		if kept > len(buf)/2 {
			copy(buf[:], buf[kept-tail:kept])
			kept = tail
		}
	}
}

// span is when the first has heard and when the last has.
type span struct{ first, last time.Time }

// await looks out for a text; the call that it returns waits until all have heard it.
func (s *streams) await(ctx context.Context, text string) func() (span, error) {
	wanted := []byte(text)
	s.wanted.Store(&wanted)
	return func() (span, error) {
		ctx, cancel := context.WithTimeout(ctx, updatePatience)
		defer cancel()
		var t span
		for i := range s.wires {
			select {
			case at := <-s.heard:
				if t.first.IsZero() || at.Before(t.first) {
					t.first = at
				}
				if at.After(t.last) {
					t.last = at
				}
			case err := <-s.lost:
				return t, fmt.Errorf("a stream has ended: %w", err)
			case <-ctx.Done():
				return t, fmt.Errorf("%d of %d streams have heard %q: %w", i, len(s.wires), text, ctx.Err())
			}
		}
		return t, nil
	}
}

func (s *streams) close() {
	for _, w := range s.wires {
		if w != nil {
			w.close()
		}
	}
}
