package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/queuegate/queuegate/cmd/queuegate/chaos"
	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
)

// sec is a moment of a run.
func sec(s float64) chaos.At { return chaos.At(s * float64(time.Second)) }

// call is one call of a watcher, answered well.
func call(what chaos.What, gate int, sent, got float64) chaos.Call {
	return chaos.Call{What: what, Gate: gate, Sent: sec(sent), Got: sec(got), Code: 200}
}

// fault is a trouble as it came.
func fault(lane chaos.Lane, kind chaos.Kind, began, ended float64, gates ...int) chaos.Fault {
	return chaos.Fault{Event: chaos.Event{Lane: lane, Kind: kind}, Gates: gates, Began: sec(began), Ended: sec(ended)}
}

// calm is a run in which Redis was frozen from 10 to 16 s and everything was as
// promised.
func calm() *chaos.Evidence {
	e := &chaos.Evidence{Recovery: 5 * time.Second, Faults: []chaos.Fault{fault(chaos.Redis, chaos.RedisFrozen, 10, 16)}}
	for at := 0.0; at < 30; at++ {
		e.Calls = append(e.Calls, call(chaos.Direct, -1, at, at+0.01))
		for gate := range 2 {
			status := call(chaos.Status, gate, at, at+0.2)
			status.Degraded = at >= 10 && at < 18
			e.Calls = append(e.Calls, call(chaos.Open, gate, at, at+0.01), status)
		}
	}
	e.Orders = []chaos.Order{{Person: 7, Admission: "1.1", Begin: sec(5), End: sec(5.1)}}
	e.Sold = []chaos.Sold{{Admission: "1.1", Gate: 1, Sent: sec(4.9), Got: sec(5.2)}}
	e.Logs = []chaos.Log{{Gate: 0, Text: "listening\nrequest visitor 1234\n"}}
	e.Secrets = []string{"tick.et"}
	return e
}

func TestEveryRuleSaysYesAndNo(t *testing.T) {
	t.Parallel()
	late := func(what chaos.What, sent, got float64) func(*chaos.Evidence) {
		return func(e *chaos.Evidence) { e.Calls = append(e.Calls, call(what, 0, sent, got)) }
	}
	failed := func(what chaos.What, gate, code int, at float64) func(*chaos.Evidence) {
		return func(e *chaos.Evidence) {
			c := call(what, gate, at, at+0.1)
			c.Code, c.Why = code, "refused"
			e.Calls = append(e.Calls, c)
		}
	}
	and := func(all ...func(*chaos.Evidence)) func(*chaos.Evidence) {
		return func(e *chaos.Evidence) {
			for _, spoil := range all {
				spoil(e)
			}
		}
	}
	add := func(f chaos.Fault) func(*chaos.Evidence) {
		return func(e *chaos.Evidence) { e.Faults = append(e.Faults, f) }
	}
	again := func(e *chaos.Evidence) {
		e.Orders = append(e.Orders, chaos.Order{Person: 7, Admission: "1.1", Begin: sec(9), End: sec(9.1)})
	}
	degradedUntil := func(second float64) func(*chaos.Evidence) {
		return func(e *chaos.Evidence) {
			for i := range e.Calls {
				if c := &e.Calls[i]; c.What == chaos.Status && c.Gate == 1 && c.Sent >= sec(10) && c.Sent < sec(second) {
					c.Degraded = true
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		spoil func(*chaos.Evidence)
		want  string // "" is yes
	}{
		"all is well": {func(*chaos.Evidence) {}, ""},

		"an unprotected route waits for redis":                {late(chaos.Open, 10, 16), chaos.Unprotected},
		"an unprotected route fails":                          {failed(chaos.Open, 0, 503, 12), chaos.Unprotected},
		"an unprotected route is not answered":                {failed(chaos.Open, 0, 0, 12), chaos.Unprotected},
		"an unprotected route is late on a machine that is":   {and(late(chaos.Open, 10, 16), late(chaos.Direct, 11, 15)), ""},
		"an unprotected route of a gate that is killed":       {and(failed(chaos.Open, 1, 0, 12), add(fault(chaos.Gates, chaos.GateKilled, 11, 13, 1))), ""},
		"an unprotected route of a gate beside one so killed": {and(failed(chaos.Open, 0, 0, 12), add(fault(chaos.Gates, chaos.GateKilled, 11, 13, 1))), chaos.Unprotected},
		"an unprotected route while the shop refuses":         {and(failed(chaos.Open, 0, 502, 12), add(fault(chaos.Shop, chaos.ShopRefuses, 11, 13))), ""},

		"a decision waits for redis":                {late(chaos.Status, 10, 16), chaos.Bounded},
		"a decision is not made":                    {failed(chaos.Status, 0, 0, 12), chaos.Bounded},
		"the shop is no excuse for a decision":      {and(failed(chaos.Status, 0, 0, 12), add(fault(chaos.Shop, chaos.ShopRefuses, 11, 13))), chaos.Bounded},
		"a decision of a gate that stands still":    {and(late(chaos.Status, 10, 16), add(fault(chaos.Gates, chaos.GateFrozen, 10, 15, 0))), ""},
		"a decision is late on a machine that is":   {and(late(chaos.Status, 10, 16), late(chaos.Direct, 11, 15)), ""},
		"a gate takes five seconds to come back":    {degradedUntil(20), ""},
		"a gate takes ten seconds to come back":     {degradedUntil(26), chaos.Recovered},
		"a gate never comes back":                   {degradedUntil(99), chaos.Recovered},
		"one that is killed later has longer":       {and(degradedUntil(26), add(fault(chaos.Gates, chaos.GateKilled, 22, 23, 1))), ""},
		"a used pass orders again":                  {again, chaos.OrderOnce},
		"the gate that knew of the order was ended": {and(again, add(fault(chaos.Gates, chaos.GateKilled, 6, 7, 1))), ""},
		"another gate was ended":                    {and(again, add(fault(chaos.Gates, chaos.GateKilled, 6, 7, 0))), chaos.OrderOnce},
		"the gate was ended when all was over":      {and(again, add(fault(chaos.Gates, chaos.GateKilled, 12, 13, 1))), chaos.OrderOnce},
		"a ticket stands in a log":                  {func(e *chaos.Evidence) { e.Logs[0].Text += "ticket=tick.et\n" }, chaos.NoSecrets},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := calm()
			tc.spoil(e)
			found := e.Audit()
			if tc.want == "" {
				require.Empty(t, found)
				return
			}
			require.NotEmpty(t, found)
			for _, f := range found {
				require.Equal(t, tc.want, f.Promise, "%s", f.Story)
			}
		})
	}
}

func TestALossOfHistoryIsKnownForItsTime(t *testing.T) {
	t.Parallel()
	flushed, killed := fault(chaos.Redis, chaos.RedisEmptied, 3, 4), fault(chaos.Redis, chaos.RedisKilled, 6, 7)
	flushed.Lost = true
	e := &chaos.Evidence{Faults: []chaos.Fault{flushed, killed}}
	for at, forgot := range map[float64]bool{1: false, 2.5: true, 4: true, 4.5: false, 6: false} {
		require.Equal(t, forgot, e.Forgot(sec(at), sec(at+1)), "%.1f s", at)
	}
}

func TestAGateIsAloneUntilRedisCouldTellItTheTime(t *testing.T) {
	t.Parallel()
	e := &chaos.Evidence{Recovery: 5 * time.Second, Faults: []chaos.Fault{
		fault(chaos.Redis, chaos.RedisFrozen, 10, 20),
		fault(chaos.Gates, chaos.GateKilled, 12, 13, 1),
		fault(chaos.Gates, chaos.GateFrozen, 14, 15, 0),
		fault(chaos.Gates, chaos.GateKilled, 40, 41, 0),
	}}
	for _, tc := range []struct {
		gate  int
		at    float64
		alone bool
	}{{1, 11, false}, {1, 13, true}, {1, 24, true}, {1, 26, false}, {0, 15, false}, {0, 42, false}, {2, 15, false}} {
		require.Equal(t, tc.alone, e.Alone(tc.gate, sec(tc.at)), "%+v", tc)
	}
}

func TestSlotsAreGivenOutOnceMoreOnlyWhenNobodyRemembers(t *testing.T) {
	t.Parallel()
	loss := fault(chaos.Redis, chaos.RedisEmptied, 20, 20)
	loss.Lost = true
	older := fault(chaos.Redis, chaos.RedisOlder, 20, 22)
	older.Lost = true
	for name, tc := range map[string]struct {
		alive  int
		faults []chaos.Fault
		broken bool
	}{
		"all within the slots":                    {4, []chaos.Fault{loss}, false},
		"one more though a gate remembers":        {5, []chaos.Fault{loss, fault(chaos.Gates, chaos.GateKilled, 20, 21, 1)}, true},
		"one more without any loss":               {5, nil, true},
		"one more though all died long before":    {5, []chaos.Fault{loss, fault(chaos.Gates, chaos.GatesKilled, 1, 2, 0, 1)}, true},
		"once more when nobody remembers":         {8, []chaos.Fault{loss, fault(chaos.Gates, chaos.GatesKilled, 19, 22, 0, 1)}, false},
		"not a third time":                        {9, []chaos.Fault{loss, fault(chaos.Gates, chaos.GatesKilled, 19, 22, 0, 1)}, true},
		"once more when an older copy comes back": {8, []chaos.Fault{older}, false},
		"an older copy is no excuse for more":     {9, []chaos.Fault{older}, true},
		"a redis that kept all of it is no loss":  {5, []chaos.Fault{fault(chaos.Redis, chaos.RedisKilled, 20, 21), fault(chaos.Gates, chaos.GatesKilled, 19, 22, 0, 1)}, true},
	} {
		found := chaos.CheckLosses("slots", crowd.Tally{MostByUse: tc.alive}, 4, tc.faults)
		require.Equal(t, tc.broken, len(found) > 0, name)
	}
	require.Empty(t, chaos.CheckLosses("rate", crowd.Tally{MostByUse: 100}, 0, nil), "a room without slots has no such bound")
}

func TestAStoryIsTheTroublesAndTheRequestsInOrder(t *testing.T) {
	t.Parallel()
	story := chaos.Tell(crowd.Finding{Promise: "order", Story: "somebody was overtaken\n  person 3:\n    12.500 s-12.600 s poll\n    10.100 s-10.200 s join"}, []chaos.Fault{
		fault(chaos.Redis, chaos.RedisFrozen, 11, 12), fault(chaos.Shop, chaos.ShopSlow, 1, 2), fault(chaos.Gates, chaos.GateKilled, 14, 15, 1),
	})
	at := -1
	for _, part := range []string{"order: somebody was overtaken", "person 3:", "10.100 s", "11.000 s-12.000 s redis frozen", "12.500 s", "14.000 s-15.000 s gate killed 1"} {
		next := strings.Index(story, part)
		require.Greater(t, next, at, "%s in\n%s", part, story)
		at = next
	}
	require.NotContains(t, story, "shop slow", "that was long before")
	short := chaos.Shortest([]crowd.Finding{{Promise: "order", Story: "a long one"}, {Promise: "order", Story: "short"}, {Promise: "gate", Story: "x"}}, nil)
	require.Equal(t, []string{"broken 1 times, the shortest story: gate: x", "broken 2 times, the shortest story: order: short"}, short)
}
