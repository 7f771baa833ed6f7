package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

// told is one message of a stream.
type told struct {
	event string
	retry string // of SSE
	doc   document
	raw   string
}

// stream is an open stream, read to its end.
type stream struct {
	messages chan told // closed when the stream ends
}

// next waits for a message of one of the events and returns it.
func (s *stream) next(t testing.TB, events ...string) told {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case m, open := <-s.messages:
			require.True(t, open, "the stream ended before any of %v", events)
			for _, event := range events {
				if m.event == event {
					return m
				}
			}
		case <-limit:
			require.FailNow(t, "no message", "of %v", events)
		}
	}
}

// ends waits for the end of the stream.
func (s *stream) ends(t testing.TB) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case _, open := <-s.messages:
			if !open {
				return
			}
		case <-limit:
			require.FailNow(t, "the stream does not end")
		}
	}
}

// events follows the line as EventSource does: on each ping it shows that it is
// there.
func (a *app) events(t testing.TB, g *gate) *stream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", g.url+"/_queue/"+a.room+"/events", nil)
	require.NoError(t, err)
	r.Header.Set("X-Queue-Ticket", a.ticket)
	r.Header.Set("Accept", "text/event-stream")
	resp, err := (&http.Client{Transport: a.client.Transport}).Do(r)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
	s := &stream{messages: make(chan told, 1000)}
	go func() {
		defer close(s.messages)
		defer resp.Body.Close()
		var m told
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				m.event = value
			case "retry":
				m.retry = value
			case "data":
				m.raw = value
				_ = json.Unmarshal([]byte(value), &m.doc)
			case "":
				if m.event == "ping" {
					_, _ = send(a.client, request{method: "GET", url: g.url + "/_queue/" + a.room + "/status", header: map[string]string{"X-Queue-Ticket": a.ticket}})
				}
				select {
				case s.messages <- m:
				case <-t.Context().Done():
					return
				}
				m = told{}
			}
		}
	}()
	return s
}

// socket follows the line over a WebSocket. The client answers pings while it is
// read.
func (a *app) socket(t testing.TB, g *gate) *stream {
	t.Helper()
	c := a.dial(t, g, nil)
	s := &stream{messages: make(chan told, 1000)}
	go func() {
		defer close(s.messages)
		for {
			_, raw, err := c.Read(context.Background())
			if err != nil {
				return
			}
			m := told{raw: string(raw)}
			_ = json.Unmarshal(raw, &m.doc)
			m.event = m.doc.Type
			select {
			case s.messages <- m:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return s
}

func (a *app) dial(t testing.TB, g *gate, header http.Header) *websocket.Conn {
	t.Helper()
	if header == nil {
		header = http.Header{}
	}
	header.Set("X-Queue-Ticket", a.ticket)
	c, _, err := websocket.Dial(t.Context(), strings.Replace(g.url, "http", "ws", 1)+"/_queue/"+a.room+"/ws", &websocket.DialOptions{HTTPHeader: header})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// joined is a newcomer who waits.
func joined(t testing.TB, g *gate) *app {
	t.Helper()
	a := newApp(t)
	got, err := a.join(g, nil)
	require.NoError(t, err)
	require.Equal(t, "waiting", got.doc.Status, "%s", got.body)
	return a
}

func TestStreamsTellOfMovingUpAndOfOnesTurn(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room("total_active_users: 1")})
	holder := newApp(t)
	holder.enter(t, f.gates[0])

	first := joined(t, f.gates[0])
	events := first.events(t, f.gates[0])
	start := events.next(t, "update")
	require.Equal(t, int64(1), *start.doc.Position)
	require.NotEmpty(t, start.doc.Ticket)
	second := joined(t, f.gates[1])
	socket := second.socket(t, f.gates[1])
	require.Equal(t, int64(2), *socket.next(t, "update").doc.Position)
	require.NotNil(t, events.next(t, "ping").doc.PollAfterMS)
	renewed := socket.next(t, "update")
	for renewed.doc.Ticket == "" { // the numbers changed before a pong was recorded
		renewed = socket.next(t, "update")
	}
	require.Greater(t, ticketOf(t, renewed.doc.Ticket).Seen, ticketOf(t, second.ticket).Seen)

	_, err := holder.release(f.gates[1])
	require.NoError(t, err)
	turn := events.next(t, "ready")
	require.Equal(t, "ready", turn.doc.Status)
	require.Equal(t, "/checkout", turn.doc.ReturnTo)
	events.ends(t)
	for *socket.next(t, "update").doc.Position != 1 {
	}
	first.pass = turn.doc.EntryToken
	got, err := first.open(f.gates[0])
	require.NoError(t, err)
	require.Equal(t, 200, got.code)

	_, err = first.release(f.gates[0])
	require.NoError(t, err)
	second.pass = socket.next(t, "ready").doc.EntryToken
	socket.ends(t)
	got, err = second.open(f.gates[1])
	require.NoError(t, err)
	require.Equal(t, 200, got.code)
}

func TestAnOpenStreamIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1, presence_window: 8s")})
	g := f.gates[0]
	holder := newApp(t)
	holder.enter(t, g)
	silent := joined(t, g)
	open := silent.dial(t, g, nil) // never read, so no ping is answered
	answers := joined(t, g)
	socket := answers.socket(t, g)
	last := joined(t, g)
	eventually(t, "the silent one steps aside and the one who answers does not", func() bool {
		got, err := last.poll(g)
		return err == nil && got.doc.Ahead != nil && *got.doc.Ahead == 1
	})
	_, err := holder.release(g)
	require.NoError(t, err)
	require.NotEmpty(t, socket.next(t, "ready").doc.EntryToken)
	silent.waits(t, g) // back, and where they stood
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, _, err = open.Read(ctx)
	require.NoError(t, err, "the stream of the silent one was kept")
}

func TestStreamsEndWithTheStayAndWithTheGate(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), more: "shutdown: {drain_delay: 0s, grace: 80s}"})
	g := f.gates[0]
	newApp(t).enter(t, g)
	leaver, stayer := joined(t, g), joined(t, g)
	leaving, staying, socket := leaver.events(t, g), stayer.events(t, g), stayer.socket(t, g)
	leaving.next(t, "update")
	staying.next(t, "update")
	socket.next(t, "update")

	_, err := leaver.send(request{method: "DELETE", url: g.url + "/_queue/checkout"})
	require.NoError(t, err)
	require.Equal(t, "left", leaving.next(t, "closed").doc.Status)
	leaving.ends(t)

	require.NoError(t, g.cmd.Process.Signal(syscall.SIGTERM))
	bye := staying.next(t, "closed")
	require.Equal(t, "waiting", bye.doc.Status)
	require.NotEmpty(t, bye.retry)
	require.NotNil(t, bye.doc.PollAfterMS)
	require.Equal(t, "waiting", socket.next(t, "closed").doc.Status)
	staying.ends(t)
	socket.ends(t)
	require.Equal(t, 0, g.exit(t))
}

func TestStreamsTellThatRedisIsAway(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 1, rooms: room("total_active_users: 1"), timeout: "2s"})
	g := f.gates[0]
	newApp(t).enter(t, g)
	a := joined(t, g)
	events := a.events(t, g)
	events.next(t, "update")
	f.redis.Kill()
	gone := events.next(t, "state")
	require.Equal(t, "degraded", gone.doc.RoomState)
	require.Equal(t, "waiting", gone.doc.Status)
	require.Equal(t, int64(1), *gone.doc.Position)
	f.redis.Resume(t)
	require.Equal(t, "open", events.next(t, "state").doc.RoomState)
}

func TestAnOperatorsWordsReachTheStreamsOfAllGates(t *testing.T) {
	t.Parallel()
	f := startFleet(t, plan{gates: 2, rooms: room(ample)})
	newApp(t).enter(t, f.gates[0])
	var streams []*stream
	for _, g := range f.gates {
		streams = append(streams, joined(t, g).events(t, g), joined(t, g).socket(t, g))
	}
	for _, s := range streams {
		s.next(t, "update")
	}
	patched := mustSend(t, newClient(t), request{
		method: "PATCH", url: f.gates[0].admin + "/api/rooms/checkout", header: map[string]string{"Content-Type": "application/json"},
		body: `{"state":"paused","message":"Doors at nine.","remaining_stock":7}`,
	})
	require.Equal(t, 200, patched.code, "%s", patched.body)
	for _, s := range streams {
		for {
			told := s.next(t, "state")
			if told.doc.RoomState == "paused" && strings.Contains(told.raw, `"message":"Doors at nine."`) {
				require.EqualValues(t, 7, *told.doc.Stock)
				break
			}
		}
	}
}
