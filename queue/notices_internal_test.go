package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// told are the messages in a log so far.
func told(t *testing.T, log *bytes.Buffer) []string {
	t.Helper()
	messages := []string{}
	for line := range bytes.Lines(log.Bytes()) {
		var record struct{ Msg string }
		require.NoError(t, json.Unmarshal(line, &record))
		messages = append(messages, record.Msg)
	}
	log.Reset()
	return messages
}

// watched is a room looked at twice a second.
type watched struct {
	notices
	t    *testing.T
	log  bytes.Buffer
	now  time.Time
	most int64
}

// look looks at rooms one after another and returns what was logged.
func (w *watched) see(rooms ...Room) []string {
	for _, room := range rooms {
		w.now = w.now.Add(slowTick)
		w.look(context.Background(), slog.New(slog.NewJSONHandler(&w.log, nil)), w.now, room, w.most)
	}
	return told(w.t, &w.log)
}

// times is the same room n times.
func times(n int, room Room) []Room {
	list := make([]Room, n)
	for i := range list {
		list[i] = room
	}
	return list
}

const someMinutes = 240 // looks

func TestARoomThatStaysFullIsToldOnce(t *testing.T) {
	w := &watched{t: t}
	full, free := Room{State: Open, Limits: Limits{Slots: 2}, Holding: 2}, Room{State: Open, Limits: Limits{Slots: 2}, Holding: 1}
	require.Empty(t, w.see(times(3, free)...))
	require.Equal(t, []string{"the room is full: all slots are taken"}, w.see(times(someMinutes, full)...))
	for range someMinutes { // somebody leaves, the next one comes
		require.Empty(t, w.see(free, full, full))
	}
	require.Equal(t, []string{"the room has free slots again"}, w.see(times(someMinutes, free)...))
	require.Equal(t, []string{"the room is full: all slots are taken"}, w.see(full))
	require.Empty(t, (&watched{t: t}).see(times(someMinutes, Room{State: Open, Limits: Limits{PerMinute: 60}, Holding: 900})...),
		"a room without slots is never full")
}

func TestALineAndItsEndAreToldOnce(t *testing.T) {
	w := &watched{t: t, most: 20}
	room := func(waiting int64) Room { return Room{State: Open, Limits: Limits{PerMinute: 600}, Waiting: waiting} }
	require.Equal(t, []string{"a line has formed"}, w.see(times(someMinutes, room(5))...))
	require.Equal(t, []string{"the line is full: newcomers get no place"}, w.see(times(someMinutes, room(20))...))
	for range someMinutes { // one is let in, the next one comes
		require.Empty(t, w.see(room(19), room(20)))
	}
	require.Equal(t, []string{"the line has room for newcomers again"}, w.see(times(someMinutes, room(5))...))
	require.Equal(t, []string{"nobody waits any more"}, w.see(times(someMinutes, room(0))...))
}

func TestASurgeIsToldWhenItBeginsAndWhenItIsOver(t *testing.T) {
	w := &watched{t: t}
	room := func(waiting int64) Room { return Room{State: Open, Limits: Limits{PerMinute: 600}, Waiting: waiting} }
	require.Equal(t, []string{"a line has formed"}, w.see(times(someMinutes, room(10))...))
	for i := range int64(someMinutes) { // a hundred a second is nothing new after a minute and a half of it
		require.Empty(t, w.see(room(10+i*25)), "50 a second, 500 in ten")
	}
	var growing []Room
	for i := range int64(20) {
		growing = append(growing, room(6000+i*50))
	}
	require.Equal(t, []string{"a surge: more came in ten seconds than the room lets in in a minute"}, w.see(growing...))
	require.Equal(t, []string{"the surge is over"}, w.see(times(someMinutes, room(6950))...))
}

// After a loss of history everybody comes back within seconds, and nobody is new.
func TestALineThatComesBackAfterALossIsNoSurge(t *testing.T) {
	w := &watched{t: t}
	room := func(state RoomState, waiting int64, healing time.Duration) Room {
		return Room{State: state, Limits: Limits{PerMinute: 600}, Waiting: waiting, Healing: healing}
	}
	require.Equal(t, []string{"a line has formed"}, w.see(times(5, room(Open, 9000, 0))...))
	require.Empty(t, w.see(room(Unconfigured, 0, 24*time.Second)))
	for i := range int64(46) {
		require.Empty(t, w.see(room(Open, i*200, 24*time.Second)))
	}
	require.Empty(t, w.see(times(someMinutes, room(Open, 9000, 0))...))
}

func TestStateAndLimitsAreToldWhenTheyChange(t *testing.T) {
	w := &watched{t: t}
	open := Room{State: Open, Limits: Limits{Slots: 200, PerMinute: 600, Burst: 10}}
	paused, slower := open, open
	paused.State, slower.Limits.PerMinute = Paused, 300
	require.Empty(t, w.see(times(5, open)...), "how it is at the start is no change")
	require.Equal(t, []string{"the room's state changed"}, w.see(times(5, paused)...))
	require.Equal(t, []string{"the room's state changed"}, w.see(times(5, open)...))
	require.Equal(t, []string{"the room's limits changed"}, w.see(times(5, slower)...))
}

// A Redis that answers every other call is away, and is told to be away once.
func TestRedisThatComesAndGoesIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := &Line{}
		l.options.Store(&Options{Room: "sale", Log: slog.New(slog.NewJSONHandler(&text, nil))})
		var e events
		tick := func(err error) {
			time.Sleep(slowTick)
			e.tell(t.Context(), l, err)
		}
		tick(nil)
		require.Empty(t, told(t, &text))
		for range someMinutes {
			tick(errors.New("connection refused"))
			tick(nil)
		}
		require.Equal(t, []string{"redis lost: who is admitted goes on, who waits keeps the place, newcomers get none (on_redis_error)"}, told(t, &text))
		for range someMinutes {
			tick(nil)
		}
		require.Equal(t, []string{"redis back"}, told(t, &text))
	})
}
