package crowd

import (
	"fmt"
	"time"
)

// Judgement is what can be said of one promise.
type Judgement string

// The judgements.
const (
	Kept      Judgement = "ok"
	Broken    Judgement = "FAILED"
	NotJudged Judgement = "not judged"
)

// Verdict is the judgement of one promise and what it rests on.
type Verdict struct {
	Name      string    `json:"name"`
	Judgement Judgement `json:"judgement"`
	Seen      string    `json:"seen"`            // in a few words
	Story     string    `json:"story,omitempty"` // of a promise that was broken: who was told what, when
	Times     int       `json:"times,omitempty"` // how often it was
}

// The names of the verdicts.
const (
	OverCapacity = "over capacity"
	OverRate     = "over rate"
	Inversions   = "order inversions"
	Lost         = "lost visitors"
	PlaceGrew    = "place grew"
	PlaceChanged = "one place each"
	BotSlots     = "slots of bots"
	PastTheEnd   = "passes past the end"
)

// Lateness is how late the people of a run were by the fault of this process.
type Lateness struct {
	P99, Most time.Duration
}

// Late is how much lateness at the worst hundredth leaves a verdict fair that depends
// on people doing as told: below it a poll still counts, a pass is taken up in time.
const Late = time.Second

// Stated are the limits of the room that a run is judged by, and what is known of
// it from elsewhere.
type Stated struct {
	Slots, PerMinute, Burst int64 // 0: not known or none, by the three fields below
	SlotsKnown, RateKnown   bool  // the limits are known, also that there is none
	BurstKnown              bool
	Numberless              bool  // the room told nobody a number: places are drawn by lot
	MostActive              int64 // the most slots taken that the gates' own count told; 0 not asked
	Lowered                 bool  // the limit fell during the run: those inside may stay
	Admitted                int64 // let in by the operator's hand, beside the rate
	Reset                   bool  // an operator reset the room, or ended stays
}

// Verdicts judges the evidence by what is stated.
func (e *Evidence) Verdicts(stated Stated, late Lateness) []Verdict {
	judged := *e
	judged.Slots, judged.PerMinute, judged.Burst = stated.Slots, stated.PerMinute, stated.Burst
	judged.Lottery = stated.Numberless
	found := map[string][]Finding{}
	for _, f := range judged.Audit() {
		found[f.Promise] = append(found[f.Promise], f)
	}
	had := judged.Tally()
	return []Verdict{
		judged.capacity(stated, had, found[Capacity]),
		judged.rate(stated, had, found[Rate]),
		judged.order(had, found[InOrder], late),
		verdict(PlaceChanged, append(append(append(found[OnePlace], found[OneVisitor]...), found[OneHolder]...), found[OneSlot]...),
			fmt.Sprintf("%d admissions, each with one place and one holder", had.Admissions), had.Admissions == 0, "nobody was admitted"),
		judged.lost(stated, had, found[NobodyLost], late),
		verdict(PlaceGrew, found[Numbers], "the number ahead of nobody grew", stated.Numberless, "the room tells nobody a number"),
		verdict(PastTheEnd, found[TheGate], "no pass was good past its end", had.MostByUse == 0, "no pass was used twice"),
		verdict(BotSlots, found[Quarter], fmt.Sprintf("%d at once by clients that bring nothing back, %d allowed", had.MostAtJoin, max(1, stated.Slots/4)),
			had.MostAtJoin == 0 || stated.Slots == 0, "no such client was let in, or the room has no slots"),
	}
}

// verdict is the usual one: broken where something was found.
func verdict(name string, found []Finding, seen string, blind bool, why string) Verdict {
	switch {
	case len(found) > 0:
		shortest := found[0]
		for _, f := range found {
			if len(f.Story) < len(shortest.Story) {
				shortest = f
			}
		}
		return Verdict{Name: name, Judgement: Broken, Seen: fmt.Sprintf("%d times", len(found)), Story: shortest.Story, Times: len(found)}
	case blind:
		return Verdict{Name: name, Judgement: NotJudged, Seen: why}
	default:
		return Verdict{Name: name, Judgement: Kept, Seen: seen}
	}
}

// capacity judges what the people held, and what the gates themselves count.
func (e *Evidence) capacity(stated Stated, had Tally, found []Finding) Verdict {
	held := max(had.MostByTokens, had.MostByUse)
	seen := fmt.Sprintf("%d held at once by these people, %d allowed", held, stated.Slots)
	if stated.MostActive > 0 {
		seen = fmt.Sprintf("%d held at once by these people, %d by the gates' own count, %d allowed", held, stated.MostActive, stated.Slots)
	}
	if stated.Slots > 0 && stated.MostActive > stated.Slots && !stated.Lowered {
		found = append(found, Finding{Capacity, fmt.Sprintf("the gates themselves counted %d slots taken, %d allowed", stated.MostActive, stated.Slots)})
	}
	v := verdict(OverCapacity, found, seen, held == 0, "nobody was admitted")
	switch {
	case !stated.SlotsKnown:
		return Verdict{Name: OverCapacity, Judgement: NotJudged, Seen: fmt.Sprintf("the limit is not known (%d held at once): state it, or name the admin address", held)}
	case stated.Slots == 0:
		return Verdict{Name: OverCapacity, Judgement: NotJudged, Seen: "the room has no total_active_users"}
	case v.Judgement == Broken:
		v.Seen = seen
	}
	return v
}

// rate judges the moments at which passes were given.
func (e *Evidence) rate(stated Stated, had Tally, found []Finding) Verdict {
	seen := fmt.Sprintf("%d in the busiest minute, %d allowed", had.BusiestMinute, stated.PerMinute)
	if stated.BurstKnown {
		seen += fmt.Sprintf("; burst %d", stated.Burst)
	} else {
		seen += "; the burst is not known and not judged"
	}
	v := verdict(OverRate, found, seen, had.BusiestMinute == 0, "nobody was admitted")
	switch {
	case !stated.RateKnown:
		return Verdict{Name: OverRate, Judgement: NotJudged, Seen: fmt.Sprintf("the limit is not known (%d in the busiest minute): state it, or name the admin address", had.BusiestMinute)}
	case stated.PerMinute == 0:
		return Verdict{Name: OverRate, Judgement: NotJudged, Seen: "the room has no new_users_per_minute"}
	case stated.Admitted > 0:
		return Verdict{Name: OverRate, Judgement: NotJudged, Seen: fmt.Sprintf("an operator let in %d by hand, beside the rate", stated.Admitted)}
	case v.Judgement == Broken:
		v.Seen = seen
	}
	return v
}

// order judges who was let in before whom.
func (e *Evidence) order(had Tally, found []Finding, late Lateness) Verdict {
	switch {
	case e.Lottery:
		return Verdict{Name: Inversions, Judgement: NotJudged, Seen: "the room tells nobody a number: places are drawn by lot"}
	case len(found) == 0 && had.Watched == 0 && late.P99 > Late:
		return Verdict{Name: Inversions, Judgement: NotJudged, Seen: fmt.Sprintf("the tool ran late by %v (one in a hundred): nobody polled as told", late.P99)}
	default:
		return verdict(Inversions, found, fmt.Sprintf("nobody who was here was overtaken, at %d of %d admissions", had.Watched, had.Admissions),
			had.Watched == 0, "nobody was let in while somebody else was here and waiting")
	}
}

// lost judges whether everybody who polled as told was told where they stand. That
// holds for people who do as told: where this process was late, they did not.
func (e *Evidence) lost(stated Stated, had Tally, found []Finding, late Lateness) Verdict {
	v := verdict(Lost, found, fmt.Sprintf("of %d", had.People), had.Answers == 0, "nobody was answered")
	switch {
	case len(found) > 0 && stated.Reset:
		return Verdict{Name: Lost, Judgement: NotJudged, Seen: fmt.Sprintf("%d were told that their stay was over, but an operator ended stays during the run", len(found))}
	case len(found) > 0 && late.P99 > Late:
		return Verdict{Name: Lost, Judgement: NotJudged, Seen: fmt.Sprintf("the tool ran late by %v (one in a hundred, %v at most), and %d may have been lost by that", late.P99, late.Most, len(found))}
	case len(found) > 0:
		v.Seen = fmt.Sprintf("%d of %d", len(found), had.People)
	}
	return v
}

// Numberless tells whether most people were told no number when they were in line, as
// where places are drawn by lot.
func (e *Evidence) Numberless() bool {
	with, without := 0, 0
	for _, p := range e.People {
		for _, h := range p.Heard {
			if h.Kind != Poll || h.Status != "waiting" || h.Degraded {
				continue
			}
			if h.Ahead >= 0 {
				with++
			} else {
				without++
			}
			break
		}
	}
	return without > with
}
