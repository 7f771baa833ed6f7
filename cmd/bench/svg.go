package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// chart draws each row that has a bar by how much better than the bar it is: the
// line in the middle is the bar, to its right is better, twice as good at the edge.
func (t table) chart() string {
	const (
		width, left, step, top = 1100, 690, 26, 40
		middle, half           = 890, 190
		doubled                = 4 // the edge is so many times as good
	)
	x := func(better float64) float64 {
		better = min(max(better, 1.0/doubled), doubled)
		return middle + half*math.Log(better)/math.Log(doubled)
	}
	var body strings.Builder
	y := top
	for _, r := range t.rows {
		f, ok := t.found[r.id]
		if !ok || r.bar.side == none || r.bar.limit == 0 || !t.only(r.family) {
			continue
		}
		better := func(value float64) float64 {
			if r.bar.side == atMost {
				return r.bar.limit / max(value, r.bar.limit/1000)
			}
			return value / r.bar.limit
		}
		colour := "#2e7d4f"
		if !r.bar.met(f) {
			colour = "#b3401f"
		}
		from, to := x(1), x(better(f.median))
		fmt.Fprintf(&body, `<text x="%d" y="%d" text-anchor="end">%s</text>`, left, y+4, html.EscapeString(shorten(r.what)+"  "+number(f.median, r.bar.unit)))
		fmt.Fprintf(&body, `<rect x="%.1f" y="%d" width="%.1f" height="14" fill="%s"/>`, min(from, to), y-7, max(1, math.Abs(to-from)), colour)
		fmt.Fprintf(&body, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#333"/>`+"\n", x(better(f.least)), x(better(f.most)), y, y)
		y += step
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="%d" y="18" text-anchor="middle" fill="#333">the bar (left: missed; right edge: %d times as good; thin line: least to most)</text>
%s<line x1="%d" x2="%d" y1="26" y2="%d" stroke="#333" stroke-dasharray="4 3"/>
</svg>
`, width, y+10, middle-150, doubled, body.String(), middle, middle, y)
}

// shorten keeps what fits beside a bar.
func shorten(what string) string {
	const most = 92
	if r := []rune(what); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return what
}
