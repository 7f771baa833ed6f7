package chaos

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
)

// moment is how every line of a story writes a time.
var moment = regexp.MustCompile(`(\d+\.\d{3}) s`)

// around is how much of the troubles before and after belongs to a story.
const around = 2 * time.Second

// Tell is a finding's story with the troubles that were on at the time in it, in the
// order of time. Lines that tell no time stay at the head.
func Tell(f crowd.Finding, faults []Fault) string {
	type line struct {
		at   At
		text string
	}
	var head []string
	var lines []line
	from, to := At(1<<62), At(0)
	for text := range strings.Lines(f.Story) {
		text = strings.TrimSpace(text)
		found := moment.FindAllStringSubmatch(text, -1)
		for _, m := range found {
			at := toAt(m[1])
			from, to = min(from, at), max(to, at)
		}
		if loc := moment.FindStringIndex(text); loc != nil && loc[0] == 0 {
			lines = append(lines, line{toAt(found[0][1]), text})
		} else {
			head = append(head, text)
		}
	}
	for _, fault := range faults {
		if over(fault.Began, fault.Ended, from-around, to+around) {
			lines = append(lines, line{fault.Began, fault.String() + "  <- trouble"})
		}
	}
	slices.SortStableFunc(lines, func(x, y line) int { return cmp.Compare(x.at, y.at) })
	text := f.Promise + ": " + strings.Join(head, "\n  ")
	for _, l := range lines {
		text += "\n    " + l.text
	}
	return text
}

// toAt reads a number of seconds that moment has found.
func toAt(text string) At {
	n, _ := strconv.ParseFloat(text, 64) // digits, a point and digits
	return At(n * float64(time.Second))
}

// Shortest tells of each promise that was broken how often it was, and the shortest
// story.
func Shortest(found []crowd.Finding, faults []Fault) (stories []string) {
	count := map[string]int{}
	shortest := map[string]crowd.Finding{}
	for _, f := range found {
		count[f.Promise]++
		if s, known := shortest[f.Promise]; !known || len(f.Story) < len(s.Story) {
			shortest[f.Promise] = f
		}
	}
	for _, f := range shortest {
		stories = append(stories, fmt.Sprintf("broken %d times, the shortest story: %s", count[f.Promise], Tell(f, faults)))
	}
	slices.Sort(stories)
	return stories
}
