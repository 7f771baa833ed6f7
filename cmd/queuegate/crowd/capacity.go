package crowd

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// span is a time in which one admission certainly held a slot.
type span struct {
	from, to int64
	of       *admission
}

// crowded returns the most spans that hold one moment together, and which they
// are. A span does not hold its end.
func crowded(spans []span) (most []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var open []span
	for _, s := range spans {
		open = slices.DeleteFunc(open, func(o span) bool { return o.to <= s.from })
		if s.to > s.from {
			open = append(open, s)
		}
		if len(open) > len(most) {
			most = slices.Clone(open)
		}
	}
	return most
}

// liveByTokens are the times, in room time, for which tokens were given out. Of a
// pass that its holder gave back, or that the shop may have ended, it is the time
// that room time had certainly reached when that was not so yet.
func (e *Evidence) liveByTokens(all []*admission) (spans []span) {
	readings := e.clock(all)
	for _, a := range all {
		if a.granted == 0 {
			continue
		}
		to := a.end
		if a.givenBack > 0 {
			to = min(to, readClock(readings, a.givenBack))
		}
		if e.Honoured > 0 && a.used {
			to = min(to, readClock(readings, a.last-e.Honoured))
		}
		spans = append(spans, span{a.granted, to, a})
	}
	return spans
}

// clockStep is by how much room time may get ahead of the time of this process at a step of
// a clock, when it counts longer than it should.
const clockStep = time.Second

// liveByUse are the times of this process in which an admission was certainly held.
// One that was used: from the moment somebody knew of it to the sending of the last
// request that the shop got by it, or to the moment its holder began to give it back;
// from then on it may be honoured a little longer elsewhere. One that nobody took up:
// from then for as long as its token says, for room time is not the faster clock.
func (e *Evidence) liveByUse(all []*admission) (spans []span) {
	for _, a := range all {
		to := a.last - e.Honoured
		if !a.used && a.granted > 0 {
			to = a.after + time.Duration(a.end-a.granted)*time.Millisecond - clockStep
		}
		if a.givenBack > 0 {
			to = min(to, a.givenBack)
		}
		if to > a.known {
			spans = append(spans, span{int64(a.known), int64(to), a})
		}
	}
	return spans
}

// checkCapacity: never more than total_active_users admissions at any instant, while
// Redis keeps its history.
func (e *Evidence) checkCapacity(all []*admission) (found []Finding) {
	if e.Slots == 0 {
		return nil
	}
	for by, spans := range map[string][]span{"by the tokens given out": e.liveByTokens(all), "by what reached the shop": e.liveByUse(all)} {
		for _, within := range byEpoch(spans) {
			most := crowded(within)
			if int64(len(most)) <= e.Slots {
				continue
			}
			found = append(found, Finding{Capacity, told(most, fmt.Sprintf("%d admissions at once %s, %d allowed:", len(most), by, e.Slots))})
		}
	}
	return found
}

// byEpoch parts the spans by the history of Redis that their admissions belong to.
func byEpoch(spans []span) map[int64][]span {
	parts := map[int64][]span{}
	for _, s := range spans {
		parts[s.of.epoch] = append(parts[s.of.epoch], s)
	}
	return parts
}

// told lists some spans behind a sentence.
func told(spans []span, story string) string {
	const most = 12
	for i, s := range spans {
		if i == most {
			return fmt.Sprintf("%s\n  and %d more", story, len(spans)-most)
		}
		story += "\n  " + s.of.String()
	}
	return story
}

// unproven are the times, in room time, for which clients that brought nothing back
// held the admission of their first request.
func (e *Evidence) unproven(all []*admission) (spans []span) {
	for _, a := range all {
		if a.granted > 0 && a.atJoin && a.person != nil && a.person.Manner == string(Bot) {
			spans = append(spans, span{a.granted, a.end, a})
		}
	}
	return spans
}

// checkQuarter: clients that bring nothing back hold at most a quarter of the slots,
// at least one.
func (e *Evidence) checkQuarter(all []*admission) (found []Finding) {
	if e.Slots == 0 {
		return nil
	}
	allowed := max(1, e.Slots/4)
	if most := crowded(e.unproven(all)); int64(len(most)) > allowed {
		found = append(found, Finding{Quarter, told(most, fmt.Sprintf("%d slots held by clients that bring nothing back, %d allowed:", len(most), allowed))})
	}
	return found
}

// checkRate: in any window of t seconds fewer than burst + r*t admissions, in 60 at
// most new_users_per_minute. Admissions whose moment nobody was told are not
// counted, which can only make the figure smaller. Without a burst only the second
// is judged.
func (e *Evidence) checkRate(all []*admission) (found []Finding) {
	if e.PerMinute == 0 {
		return nil
	}
	granted := grants(all)
	report := func(i, j int) {
		found = append(found, Finding{Rate, fmt.Sprintf("%d admissions in %d ms of room time, burst %d, %d a minute:\n  first %s\n  last %s",
			j-i+1, granted[j].granted-granted[i].granted, e.Burst, e.PerMinute, granted[i], granted[j])})
	}
	first := 0
	for j, a := range granted {
		for a.granted-granted[first].granted > 60_000 {
			first++
		}
		if int64(j-first+1) > e.PerMinute {
			report(first, j)
		}
	}
	if e.Burst == 0 {
		return found
	}
	// At each admission the credit is what the bucket gained less what was taken; how far
	// it may fall below where it ever stood earlier is the burst.
	const minute = 60_000
	gain := e.PerMinute - e.Burst + 1
	best, bestAt := int64(math.MaxInt64), 0
	for i := 0; i < len(granted); {
		j := i
		for j < len(granted) && granted[j].granted == granted[i].granted {
			j++
		}
		spent := int64(j)*minute - gain*(granted[i].granted-granted[0].granted)
		switch {
		case best != math.MaxInt64 && spent-best >= e.Burst*minute:
			report(bestAt, j-1)
		case int64(j-i) > e.Burst:
			report(i, j-1)
		}
		if before := int64(i)*minute - gain*(granted[i].granted-granted[0].granted); before < best {
			best, bestAt = before, i
		}
		i = j
	}
	return found
}

// grants are the admissions whose moment is known, in its order.
func grants(all []*admission) []*admission {
	known := slices.DeleteFunc(slices.Clone(all), func(a *admission) bool { return a.granted == 0 })
	slices.SortStableFunc(known, func(x, y *admission) int { return cmp.Compare(x.granted, y.granted) })
	return known
}

// busiestMinute is the greatest number of admissions in 60 s of room time.
func busiestMinute(all []*admission) (most int) {
	granted := grants(all)
	first := 0
	for j, a := range granted {
		for a.granted-granted[first].granted > 60_000 {
			first++
		}
		most = max(most, j-first+1)
	}
	return most
}

// reading is the room time that somebody had been told of by a moment.
type reading struct {
	by       At
	roomTime int64
	told     string // by what
}

// clock lists the readings in the order of their moments, each the highest so
// far: room time never goes back.
func (e *Evidence) clock(all []*admission) (readings []reading) {
	for _, a := range all {
		readings = append(readings, reading{a.known, a.granted, "the admission " + a.id})
	}
	for _, p := range e.People {
		for _, h := range p.Heard {
			if h.RoomTime > 0 {
				readings = append(readings, reading{h.Got, h.RoomTime, fmt.Sprintf("the ticket of person %d", p.Person)})
			}
		}
	}
	slices.SortFunc(readings, func(x, y reading) int { return cmp.Compare(x.by, y.by) })
	for i := 1; i < len(readings); i++ {
		if last := readings[i-1]; last.roomTime >= readings[i].roomTime {
			readings[i].roomTime, readings[i].told = last.roomTime, last.told
		}
	}
	return readings
}

// readClock is the room time that had certainly come by a moment.
func readClock(readings []reading, moment At) int64 {
	return lastReading(readings, moment).roomTime
}

// lastReading is the latest that was told by a moment.
func lastReading(readings []reading, moment At) reading {
	i, _ := slices.BinarySearchFunc(readings, moment, func(r reading, m At) int {
		if r.by <= m {
			return -1
		}
		return 1
	})
	if i == 0 {
		return reading{}
	}
	return readings[i-1]
}
