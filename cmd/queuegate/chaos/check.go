package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
)

const (
	// decision is the time that a gate may take for an answer of its own, twenty times
	// what Redis gets of it in these runs: a gate that waits for Redis takes longer.
	decision = 5 * time.Second
	// beside is how near two faults are that may have met.
	beside = 5 * time.Second
	// aftermath is how long connections that a gate's death, a fault of the shop or a lack
	// of descriptors broke may still tell of it.
	aftermath = time.Second
)

// stall is by how much this machine was late around a time: the slowest answer of a
// server that nothing is done to. Such calls are made all the time, so that one which is
// under way now says that nothing works at all.
func (e *Evidence) stall(from, to At) (worst time.Duration) {
	for _, c := range e.Calls {
		if c.What == Direct && over(c.Sent, c.Got, from, to) {
			worst = max(worst, c.Got-c.Sent)
		}
	}
	return worst
}

// excused tells whether a fault of these lanes, at this gate where it is one of gates,
// was on during a call or just before it.
func (e *Evidence) excused(c Call, lanes ...Lane) bool {
	for _, f := range e.Faults {
		switch {
		case !slices.Contains(lanes, f.Lane), !over(f.Began, f.Ended+aftermath, c.Sent, c.Got):
		case f.Lane == Gates && !slices.Contains(f.Gates, c.Gate):
		default:
			return true
		}
	}
	return false
}

// checkUnprotected: unprotected routes are served at all times, whatever Redis does.
func (e *Evidence) checkUnprotected() (found []crowd.Finding) {
	for _, c := range e.Calls {
		if c.What != Open || e.excused(c, Gates, Shop) {
			continue
		}
		if late := c.Got - c.Sent; c.Code != 200 || late > decision+2*e.stall(c.Sent, c.Got) {
			found = append(found, crowd.Finding{Promise: Unprotected, Story: "a route that no room protects was not served in time\n  " + c.String()})
		}
	}
	return found
}

// checkBounded: the answer to somebody in line comes in bounded time, whatever Redis
// does, and is never an error.
func (e *Evidence) checkBounded() (found []crowd.Finding) {
	for _, c := range e.Calls {
		if c.What != Status || e.excused(c, Gates) {
			continue
		}
		if late := c.Got - c.Sent; c.Code == 0 || late > decision+2*e.stall(c.Sent, c.Got) {
			found = append(found, crowd.Finding{Promise: Bounded, Story: "a gate did not tell somebody in line where they stand, in time\n  " + c.String()})
		}
	}
	return found
}

// checkRecovered: every gate speaks for Redis again, without a restart, soon after the
// last fault of Redis or of that gate has gone.
func (e *Evidence) checkRecovered() (found []crowd.Finding) {
	healed := map[int]At{}
	gates := map[int]bool{}
	for _, c := range e.Calls {
		if c.What == Status {
			gates[c.Gate] = true
		}
	}
	for gate := range gates {
		for _, f := range e.Faults {
			if f.Lane == Redis || f.Lane == Gates && slices.Contains(f.Gates, gate) {
				healed[gate] = max(healed[gate], f.Ended)
			}
		}
	}
	for gate, since := range healed {
		calls := slices.DeleteFunc(slices.Clone(e.Calls), func(c Call) bool { return c.What != Status || c.Gate != gate || c.Sent < since })
		slices.SortFunc(calls, func(x, y Call) int { return cmp.Compare(x.Got, y.Got) })
		well := slices.IndexFunc(calls, func(c Call) bool { return c.Code == 200 && !c.Degraded })
		switch {
		case well < 0 && len(calls) > 0 && calls[len(calls)-1].Got-since > e.Recovery:
			found = append(found, crowd.Finding{Promise: Recovered, Story: fmt.Sprintf("gate %d does not speak for Redis again after the last fault\n  %.3f s the last fault is over\n  %s", gate, since.Seconds(), calls[len(calls)-1])})
		case well >= 0 && calls[well].Got-since > e.Recovery+2*e.stall(since, calls[well].Got):
			found = append(found, crowd.Finding{Promise: Recovered, Story: fmt.Sprintf("gate %d speaks for Redis again only %.1f s after the last fault\n  %.3f s the last fault is over\n  %s", gate, (calls[well].Got - since).Seconds(), since.Seconds(), calls[well])})
		}
	}
	return found
}

// checkOrders: a pass whose order succeeded, as far as a gate knew that lived on, has no
// other order at the shop. Where the gate died, or nobody was told, the shop's own
// idempotency decides.
func (e *Evidence) checkOrders() (found []crowd.Finding) {
	for _, s := range e.Sold {
		for _, o := range e.Orders {
			if o.Admission != s.Admission || o.Begin <= s.Got || e.died(s.Gate, s.Sent, o.Begin) {
				continue
			}
			found = append(found, crowd.Finding{Promise: OrderOnce, Story: fmt.Sprintf(
				"the pass %s was used up, and ordered again\n  %.3f s-%.3f s an order at gate %d succeeds\n  %.3f s-%.3f s the shop takes another one of person %d",
				s.Admission, s.Sent.Seconds(), s.Got.Seconds(), s.Gate, o.Begin.Seconds(), o.End.Seconds(), o.Person)})
		}
	}
	return found
}

// died tells whether a gate was ended between two moments.
func (e *Evidence) died(gate int, from, to At) bool {
	return slices.ContainsFunc(e.Faults, func(f Fault) bool {
		return f.ends() && slices.Contains(f.Gates, gate) && over(f.Began, f.Ended, from, to)
	})
}

// Alone tells whether a gate may not have heard from Redis at a moment since it was
// started: it was in the middle of a trouble of Redis. Such a gate knows of no room time,
// and judges a pass by its exp and its own clock.
func (e *Evidence) Alone(gate int, at At) bool {
	for _, f := range e.Faults {
		if !f.ends() || !slices.Contains(f.Gates, gate) || at < f.Began {
			continue
		}
		for _, r := range e.Faults {
			if r.Lane == Redis && r.Began <= f.Ended && over(r.Began, r.Ended+e.Recovery, f.Began, f.Ended) && at <= r.Ended+e.Recovery {
				return true
			}
		}
	}
	return false
}

// Forgot tells whether history of Redis was lost, or may have been, between two moments.
func (e *Evidence) Forgot(from, to At) bool {
	return slices.ContainsFunc(e.Faults, func(f Fault) bool { return f.Lost && over(f.Began, f.Ended, from, to) })
}

// checkSecrets: no log of a gate has a ticket or a pass in it. A log is read once,
// however many there are: they are known by their ends, which are the most random.
func (e *Evidence) checkSecrets() (found []crowd.Finding) {
	if len(e.Secrets) == 0 {
		return nil
	}
	end := 16
	for _, s := range e.Secrets {
		end = min(end, len(s))
	}
	ending := map[string][]string{}
	for _, s := range e.Secrets {
		ending[s[len(s)-end:]] = append(ending[s[len(s)-end:]], s)
	}
	for _, log := range e.Logs {
		for i := end; i <= len(log.Text); i++ {
			if slices.ContainsFunc(ending[log.Text[i-end:i]], func(s string) bool { return strings.HasSuffix(log.Text[:i], s) }) {
				line := log.Text[strings.LastIndex(log.Text[:i], "\n")+1:]
				line, _, _ = strings.Cut(line, "\n")
				found = append(found, crowd.Finding{Promise: NoSecrets, Story: fmt.Sprintf("gate %d wrote a ticket or a pass into its log\n  %s", log.Gate, line)})
				break
			}
		}
	}
	return found
}

// CheckLosses: over a loss of history, too, there are never more passes alive than
// slots as long as one gate remembers. When all gates were ended around a loss, nobody
// does, and the slots are given out once more. Nor do those that had no answer since an
// older copy was made, and one of them may be the first to call when it comes back.
func CheckLosses(room string, had crowd.Tally, slots int64, faults []Fault) (found []crowd.Finding) {
	if slots == 0 {
		return nil
	}
	allowed := slots
	for _, loss := range faults {
		if !loss.Lost {
			continue
		}
		if loss.Kind == RedisOlder {
			allowed += slots
			continue
		}
		for _, f := range faults {
			if f.Kind == GatesKilled && over(loss.Began-beside, loss.Ended+beside, f.Began, f.Ended) {
				allowed += slots
				break
			}
		}
	}
	judge := func(most int, by, which string) {
		if int64(most) > allowed {
			found = append(found, crowd.Finding{Promise: AllTold, Story: fmt.Sprintf("%d passes of %s alive at once %s over all the run, %d allowed%s", most, room, by, allowed, which)})
		}
	}
	judge(had.MostByTokens, "by the tokens given out", had.ByTokens)
	judge(had.MostByUse, "by what reached the shop", had.ByUse)
	return found
}
