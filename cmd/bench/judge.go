package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"
)

// judge says whether the gate kept its word: everybody got in once, in the order of
// the places, and the places are in the order of the joins; visits is what the shop
// has counted. The error names what is broken.
func (p *people) judge(visits int) (verdict string, broken error) {
	lost, few, grew, unknown, late := 0, 0, 0, 0, 0
	least, polls := int32(1<<30), int64(0)
	for i := range p.all {
		who := &p.all[i]
		if !who.in {
			lost++
		}
		if int(who.polls) < p.sale.polls {
			few++
		}
		if who.behind > 0 {
			grew++
		}
		if who.in && who.granted == 0 {
			unknown++
		}
		if who.late {
			late++
		}
		least, polls = min(least, who.polls), polls+int64(who.polls)
	}
	overtaken, turned := p.overtaken(), p.outOfTurn()
	var text strings.Builder
	say := func(ok bool, format string, args ...any) {
		word := "yes"
		if !ok {
			word = "**no**"
			broken = errors.Join(broken, fmt.Errorf(format, args...))
		}
		fmt.Fprintf(&text, "- %s: %s\n", word, fmt.Sprintf(format, args...))
	}
	say(lost == 0 && visits == len(p.all), "nobody lost: of %d people %d did not get in, and the shop counted %d visits", len(p.all), lost, visits)
	say(overtaken == 0 && unknown == 0, "order exact: %d were let in before somebody with an earlier place who was here, %d passes do not tell", overtaken, unknown)
	say(turned == 0, "places in the order of the joins: %d have one in front of somebody who had theirs before they asked", turned)
	say(few == 0, "everybody asked %d times or more, each when told: %d did not; least %d, on average %.1f", p.sale.polls, few, least, float64(polls)/float64(len(p.all)))
	say(grew == 0, "the number ahead never grew: it did for %d", grew)
	most := p.mostInAMinute()
	say(most <= p.perMinute(), "rate kept: at most %d were let in within 60 s, of %d allowed", most, p.perMinute())
	text.WriteString(p.schedule())
	fmt.Fprintf(&text, "- %d answers said to ask again later because the gate could not tell\n", p.odd.Load())
	fmt.Fprintf(&text, "- polls were answered within %.1f ms (99 %%), %.1f ms (99.9 %%); people were late by %.1f ms (99 %%), which is this machine's doing, and %d of them by so much that they counted as gone\n",
		p.whole.answer.Quantile(0.99).Seconds()*1e3, p.whole.answer.Quantile(0.999).Seconds()*1e3, p.whole.late.Quantile(0.99).Seconds()*1e3, late)
	return text.String(), broken
}

// mostInAMinute is how many at most were let in within 60 s, by the moments that the
// passes tell.
func (p *people) mostInAMinute() (most int) {
	moments := make([]int64, len(p.all))
	for i := range p.all {
		moments[i] = p.all[i].granted
	}
	slices.Sort(moments)
	first := sort.Search(len(moments), func(i int) bool { return moments[i] > 0 })
	for last := first; last < len(moments); last++ {
		for moments[last]-moments[first] >= 60_000 {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// schedule tells how far the sale fell behind its plan, which says something about
// the machine, not about the gate's word.
func (p *people) schedule() string {
	var late, over time.Duration
	early, last := int64(math.MaxInt64), int64(0)
	for i := range p.all {
		who := &p.all[i]
		late, over = max(late, who.sent-p.comes(i)), max(over, who.over)
		if who.granted > 0 {
			early, last = min(early, who.granted), max(last, who.granted)
		}
	}
	let := time.Duration(max(0, last-early)) * time.Millisecond
	return fmt.Sprintf("- the plan: they joined %.1f s late at most, were let in over %.1f s of %.1f planned, and the last of them was in the shop after %.1f s of %.0f allowed\n",
		late.Seconds(), let.Seconds(), p.comes(len(p.all)-1).Seconds(), over.Seconds(), p.bound.Seconds())
}

// overtaken counts those who were let in before somebody with an earlier place who
// was here: had been heard from before the other was last told to wait, and never
// late since.
func (p *people) overtaken() (n int) {
	byPlace, byHere := p.sorted(func(a, b *person) int { return cmp.Compare(a.place, b.place) }), make([]time.Duration, 0, len(p.all))
	for i := range p.all {
		byHere = append(byHere, p.all[i].here)
	}
	slices.Sort(byHere)
	latest := make(highest, len(byHere)+1)
	for _, who := range byPlace {
		before, _ := slices.BinarySearch(byHere, who.waited+1)
		if who.granted > 0 && who.granted < latest.of(before) {
			n++
		}
		if rank, _ := slices.BinarySearch(byHere, who.here); !who.late && who.polls > 0 {
			latest.put(rank+1, who.granted)
		}
	}
	return n
}

// highest is a binary indexed tree: it knows the highest of the first so many values.
type highest []int64

func (h highest) put(rank int, value int64) {
	for ; rank < len(h); rank += rank & -rank {
		h[rank] = max(h[rank], value)
	}
}

func (h highest) of(first int) (value int64) {
	for ; first > 0; first -= first & -first {
		value = max(value, h[first])
	}
	return value
}

func (p *people) sorted(by func(a, b *person) int) []*person {
	list := make([]*person, len(p.all))
	for i := range p.all {
		list[i] = &p.all[i]
	}
	slices.SortFunc(list, by)
	return list
}

// outOfTurn counts those who have a place in front of somebody who had the answer to
// their join before the other was sent.
func (p *people) outOfTurn() (n int) {
	bySent := p.sorted(func(a, b *person) int { return cmp.Compare(a.sent, b.sent) })
	byGot := p.sorted(func(a, b *person) int { return cmp.Compare(a.got, b.got) })
	next, last := 0, int64(0)
	for _, who := range bySent {
		for ; byGot[next].got < who.sent; next++ {
			last = max(last, byGot[next].place)
		}
		if who.place > 0 && who.place < last {
			n++
		}
	}
	return n
}
