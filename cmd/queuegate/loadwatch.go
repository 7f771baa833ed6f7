package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/queue"
)

// loadWatch asks the admin listeners during a run.
type loadWatch struct {
	room    string
	clients []*operatorClient
	end     chan struct{} // closed to end it
	ended   chan struct{} // closed when it has

	began   time.Time
	first   *admin.RoomView
	highest map[queue.Setting]int64 // of each limit in force
	lowest  map[queue.Setting]int64
	active  int64 // the most slots taken
	reset   bool
	by      int64 // let in by hand
	method  string
	gates   []gateUse
}

// gateUse is what one gate used during the run, by its own metrics.
type gateUse struct {
	Admin       string  `json:"admin"`
	CPUSeconds  float64 `json:"cpu_seconds"`
	MemoryBytes float64 `json:"memory_bytes"` // at most
	Files       float64 `json:"open_files"`   // at most; connections are most of them
	RedisCalls  float64 `json:"redis_calls"`
	Asked       int     `json:"asked"` // how often it answered

	last map[string]float64
}

// limits are the settings that a verdict is judged by.
func limits() []queue.Setting {
	return []queue.Setting{queue.SettingSlots, queue.SettingPerMinute, queue.SettingBurst}
}

// watch begins to watch; without an admin address it sees nothing. That the first
// question is not answered is an error: better before the run than after it.
func (o *loadFlags) watch(ctx context.Context) (*loadWatch, error) {
	w := &loadWatch{
		room: o.room, end: make(chan struct{}), ended: make(chan struct{}), began: time.Now(),
		highest: map[queue.Setting]int64{}, lowest: map[queue.Setting]int64{},
	}
	for _, address := range o.admins {
		client, err := newOperatorClient(&operatorFlags{p: o.p, command: "queuegate load", admin: address, tokenFile: o.tokenFile})
		if err != nil {
			return nil, err
		}
		w.clients = append(w.clients, client)
		w.gates = append(w.gates, gateUse{Admin: client.base})
	}
	if len(w.clients) == 0 {
		close(w.ended)
		return w, nil
	}
	if err := w.look(ctx, w.clients[0]); err != nil {
		return nil, err
	}
	w.measure(ctx)
	go w.watch(context.WithoutCancel(ctx))
	return w, nil
}

// watch looks at the room every second and at the gates every five.
func (w *loadWatch) watch(ctx context.Context) {
	defer close(w.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-w.end:
			return
		case <-ticker.C:
		}
		for _, client := range w.clients {
			asked, done := context.WithTimeout(ctx, time.Second)
			err := w.look(asked, client)
			done()
			if err == nil {
				break
			}
		}
		if n%5 == 0 {
			w.measure(ctx)
		}
	}
}

// finish ends the watch and takes the last measures.
func (w *loadWatch) finish(ctx context.Context) {
	if len(w.clients) == 0 {
		return
	}
	close(w.end)
	<-w.ended
	for _, client := range w.clients {
		if w.look(ctx, client) == nil {
			break
		}
	}
	w.measure(ctx)
}

// look asks a gate for the room.
func (w *loadWatch) look(ctx context.Context, client *operatorClient) error {
	raw, err := client.ask(ctx, http.MethodGet, "/api/rooms/"+url.PathEscape(w.room), nil)
	if err != nil {
		return err
	}
	var room admin.RoomView
	if err := json.Unmarshal(raw, &room); err != nil {
		return fmt.Errorf("the answer of %s is not that of a gate's admin listener: %w", client.base, err)
	}
	if w.first == nil {
		w.first = &room
	}
	w.method = room.QueueingMethod
	w.reset = w.reset || room.Generation != w.first.Generation
	if room.Active != nil {
		w.active = max(w.active, *room.Active)
	}
	for _, name := range limits() {
		value, ok := room.Settings[name].Value.(float64)
		if !ok {
			continue
		}
		limit := int64(value)
		if _, known := w.highest[name]; !known {
			w.highest[name], w.lowest[name] = limit, limit
		}
		w.highest[name], w.lowest[name] = looser(w.highest[name], limit), min(w.lowest[name], limit)
	}
	w.byHand(room.History)
	return nil
}

// looser is the limit of two that allows more; 0 is none.
func looser(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

// byHand reads from the room's history what an operator did during the run.
func (w *loadWatch) byHand(history []admin.ChangeView) {
	w.by = 0
	for _, c := range history {
		if c.At.Before(w.began) {
			continue
		}
		switch c.What {
		case queue.ActionAdmit:
			if n, ok := c.New.(float64); ok {
				w.by += int64(n)
			}
		case queue.ActionReset, queue.ActionRelease:
			w.reset = true
		}
	}
}

// measure reads the metrics of every gate.
func (w *loadWatch) measure(ctx context.Context) {
	for i, client := range w.clients {
		asked, done := context.WithTimeout(ctx, 2*time.Second)
		now, err := readMetrics(asked, client)
		done()
		if err == nil {
			w.gates[i].take(now)
		}
	}
}

// The metrics that say what a gate uses.
const (
	metricCPU    = "process_cpu_seconds_total"
	metricMemory = "process_resident_memory_bytes"
	metricFiles  = "process_open_fds"
	metricCalls  = "queuegate_redis_script_duration_seconds_count"
)

// take adds what was used since the last time. A gate that was started again counts
// from zero.
func (g *gateUse) take(now map[string]float64) {
	since := func(name string) float64 {
		if now[name] < g.last[name] {
			return now[name]
		}
		return now[name] - g.last[name]
	}
	if g.last != nil {
		g.CPUSeconds += since(metricCPU)
		g.RedisCalls += since(metricCalls)
	}
	g.MemoryBytes, g.Files = max(g.MemoryBytes, now[metricMemory]), max(g.Files, now[metricFiles])
	g.last = now
	g.Asked++
}

// readMetrics reads the metrics of a gate, those of one name added up.
func readMetrics(ctx context.Context, client *operatorClient) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, client.base+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the metrics of %s: %s, %w", client.base, resp.Status, err)
	}
	sums := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, "#") || !ok {
			continue
		}
		name, _, _ = strings.Cut(name, "{")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			sums[name] += n
		}
	}
	return sums, lines.Err()
}
