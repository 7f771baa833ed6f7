package main_test

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/proxy/admin"
	"github.com/queuegate/queuegate/queue"
)

// operate runs one command of the operator against a gate.
func operate(t *testing.T, g *gate, args ...string) string {
	t.Helper()
	cmd := exec.Command(binary(t), append(append([]string{"rooms"}, args...), "--admin", g.admin, "--by", "ana")...)
	cmd.Env = []string{}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, "queuegate rooms %s: %s", strings.Join(args, " "), errs.String())
	return string(out)
}

// showRoom is what `rooms show` says of the room.
func showRoom(t *testing.T, g *gate) admin.RoomView {
	t.Helper()
	var v admin.RoomView
	require.NoError(t, json.Unmarshal([]byte(operate(t, g, "show", "checkout", "-o", "json")), &v))
	return v
}

// follow waits until all gates show the room as wanted.
func (s *sale) follow(what string, wanted func(admin.RoomView) bool) {
	s.t.Helper()
	for _, g := range s.gates {
		require.Eventually(s.t, func() bool { return wanted(showRoom(s.t, g)) }, patience, lookIn, what) // each look is a process
	}
}

// sale is a day of a sale: a fleet, and the people in line in the order of their joins.
type sale struct {
	*fleet
	t    *testing.T
	line []*app
	in   []*app
}

// nextIn polls for all until the first of the line is in, and returns the room time
// of that admission.
func (s *sale) nextIn() int64 {
	s.t.Helper()
	first := s.line[0]
	require.Eventually(s.t, func() bool {
		got, err := first.poll(s.gates[0])
		if err != nil || got.doc.Status != "ready" {
			return false
		}
		for _, a := range s.line[1:] {
			_, err = a.poll(s.gates[1])
			require.NoError(s.t, err)
		}
		return true
	}, patience, lookIn, "it is never the turn of the first")
	s.line, s.in = s.line[1:], append(s.in, first)
	pass := passOf(s.t, first.pass)
	_, moment, _ := strings.Cut(pass.Admission, ".")
	at, err := strconv.ParseInt(moment, 10, 64)
	require.NoError(s.t, err)
	return at
}

// inOrder wants everybody in line to be there, in the order of their joins.
func (s *sale) inOrder() {
	s.t.Helper()
	last := int64(0)
	for i, a := range s.line {
		position := *a.waits(s.t, s.gates[i%2]).doc.Position
		require.Greater(s.t, position, last, "the order of the joins")
		last = position
	}
}

// A whole sale, by the operator's commands alone.
func TestASaleIsRunFromTheCommandLine(t *testing.T) {
	t.Parallel()
	s := &sale{t: t, fleet: startFleet(t, plan{
		gates: 2, rooms: room("total_active_users: 50, new_users_per_minute: 60, burst: 1, presence_window: 5m"),
	})}
	operate(t, s.gates[0], "pause", "checkout")
	s.follow("the room is paused", func(v admin.RoomView) bool { return v.State == "paused" })
	for i := range 9 {
		a := newApp(t)
		_, err := a.join(s.gates[i%2], nil)
		require.NoError(t, err)
		require.Equal(t, "paused", a.waits(t, s.gates[i%2]).doc.RoomState)
		s.line = append(s.line, a)
	}
	s.inOrder()
	require.Contains(t, operate(t, s.gates[1], "admit", "checkout", "2"), "Let in 2 of 2; now 7 waiting, 2 active.")
	for range 2 { // testers, before the doors open
		s.nextIn()
	}
	s.outage()

	operate(t, s.gates[1], "resume", "checkout")
	s.follow("the room is open", func(v admin.RoomView) bool { return v.State == "open" })
	before := s.nextIn()
	for range 2 {
		at := s.nextIn()
		require.GreaterOrEqual(t, at-before, int64(1000), "no burst after the pause, one a second")
		before = at
	}
	operate(t, s.gates[0], "set", "checkout", "new_users_per_minute=30", "message=We have slowed down", "remaining_stock=40")
	s.follow("the rate is halved", func(v admin.RoomView) bool {
		rate := v.Settings[queue.SettingPerMinute]
		return rate.Value == 30. && rate.File == 60. && rate.Live.By == "ana"
	})
	before = s.nextIn()
	require.GreaterOrEqual(t, s.nextIn()-before, int64(2000), "half the rate")
	told, err := s.line[0].poll(s.gates[1]) // whose turn may have come meanwhile
	require.NoError(t, err)
	require.Contains(t, string(told.body), `"message":"We have slowed down"`)
	require.EqualValues(t, 40, *told.doc.Stock)

	s.oneVisitor()
	s.end()
}

// outage is the worst of a day: Redis loses everything, then a gate dies. What the
// operator has set stays, and so does the line.
func (s *sale) outage() {
	s.t.Helper()
	s.follow("both gates know of all that was done", func(v admin.RoomView) bool { return v.History[0].What == queue.ActionAdmit })
	s.redis.Restore(s.t, nil)
	still := func(v admin.RoomView) bool {
		return v.RedisUp && v.State == "paused" && v.Settings[queue.SettingState].Live.By == "ana" && v.History[0].What == queue.ActionAdmit
	}
	rdb := s.redis.Client(s.t)
	eventually(s.t, "the gates have written back what was set", func() bool {
		return rdb.HGet(s.t.Context(), "qg:{checkout}:room", "state").Val() == "paused"
	})
	s.follow("the room is still paused", still)
	for i, a := range s.line {
		a.waits(s.t, s.gates[i%2])
	}
	for _, a := range s.in {
		got, err := a.open(s.gates[0])
		require.NoError(s.t, err)
		require.Equal(s.t, 200, got.code, "%s", got.body)
	}
	require.NoError(s.t, rdb.HIncrBy(s.t.Context(), "qg:{checkout}:room", "now", 25_000).Err()) // while nobody is admitted
	s.gates[1].kill()
	s.gates[1].start(s.t)
	s.gates[1].waitReady(s.t)
	s.follow("the room is still paused", still)
	s.inOrder()
}

// oneVisitor looks somebody up and ends their stay.
func (s *sale) oneVisitor() {
	s.t.Helper()
	inside := s.in[len(s.in)-1]
	got, err := inside.open(s.gates[0])
	require.NoError(s.t, err)
	require.Equal(s.t, 200, got.code)
	id := s.shop.last(s.t, "/checkout").Header.Get("X-Queuegate-Visitor")
	var v admin.VisitorView
	require.NoError(s.t, json.Unmarshal([]byte(operate(s.t, s.gates[1], "visitor", "checkout", id, "-o", "json")), &v))
	require.Equal(s.t, "active", v.Status)
	operate(s.t, s.gates[1], "release", "checkout", id)
	eventually(s.t, "the pass is worth nothing", func() bool {
		got, err := inside.open(s.gates[0])
		return err == nil && got.code == 429
	})
	s.in = s.in[:len(s.in)-1]
}

// end sells out and clears the room.
func (s *sale) end() {
	s.t.Helper()
	operate(s.t, s.gates[0], "set", "checkout", "state=sold_out", "remaining_stock=0")
	s.follow("it is sold out", func(v admin.RoomView) bool { return v.State == "sold_out" })
	for _, a := range s.line {
		got, err := a.poll(s.gates[1])
		require.NoError(s.t, err)
		require.Equal(s.t, "sold_out", got.doc.RoomState)
		require.Contains(s.t, []any{"waiting", "ready"}, got.doc.Status, "places are kept, and turns that came before")
	}
	operate(s.t, s.gates[1], "reset", "checkout", "--yes")
	s.follow("the room was reset", func(v admin.RoomView) bool { return v.Generation > 0 && *v.Waiting == 0 && *v.Active == 0 })
	for i, a := range append(s.line, s.in...) {
		eventually(s.t, "tickets and passes of before are worth nothing", func() bool {
			got, err := a.open(s.gates[i%2])
			return err == nil && got.code != 200
		})
	}
	operate(s.t, s.gates[1], "set", "checkout", "--clear", "state")
	s.follow("it is open again", func(v admin.RoomView) bool { return v.State == "open" })
	for _, g := range s.gates {
		got, err := newApp(s.t).join(g, nil)
		require.NoError(s.t, err)
		require.Contains(s.t, []any{"waiting", "ready"}, got.doc.Status)
	}
	s.log()
}

// log wants the operator's deeds in the history and, each once, in the logs.
func (s *sale) log() {
	s.t.Helper()
	var deeds []string
	for _, c := range showRoom(s.t, s.gates[0]).History {
		require.Equal(s.t, "ana", c.By)
		deeds = append(deeds, string(c.What))
	}
	require.Equal(s.t, []string{
		"state", "reset", "state", "remaining_stock", "release", "remaining_stock", "new_users_per_minute", "message", "state", "admit", "state",
	}, deeds, "the newest first")
	log := s.gates[0].stderr.String() + s.gates[1].stderr.String()
	for _, record := range []string{
		`"what":"state","old":"open","new":"paused","by":"ana"`, `"what":"new_users_per_minute","old":"60","new":"30","by":"ana"`,
		`"what":"state","old":"open","new":"sold_out","by":"ana"`, `"what":"release","old":"active","new":"ended","by":"ana"`, `"what":"reset","old":"0"`,
	} {
		require.Equal(s.t, 1, strings.Count(log, record), record)
	}
}
