package main

import (
	"fmt"
	"io"
	"strings"
)

// The chart's measures, in pixels.
const (
	chartWidth  = 720
	panelHeight = 118
	chartHead   = 54
	labelWidth  = 150
	barHeight   = 20
	barRoom     = 440 // of the longest bar
)

// colours are those of the ways; they can be told apart without seeing red or green.
func colours() map[string]string {
	return map[string]string{wayNaive: "#b3541e", wayAtomic: "#6b7280", wayGate: "#14599f"}
}

// writeChart draws the rows that have a value, a panel each, with a bar for each way.
func writeChart(w io.Writer, visitors, stock int, all map[string]figures) error {
	var drawn []row
	for _, r := range rows() {
		if r.value != nil {
			drawn = append(drawn, r)
		}
	}
	var b strings.Builder
	height := chartHead + panelHeight*len(drawn)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="14">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, `<title>%d visitors, %d in stock, three ways</title>`+"\n", visitors, stock)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	fmt.Fprintf(&b, `<text x="16" y="32" font-size="19" font-weight="600" fill="#111827">%d visitors, %d in stock</text>`+"\n", visitors, stock)
	for i, r := range drawn {
		writePanel(&b, chartHead+i*panelHeight, r, stock, all)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// writePanel draws one row at y. The first one is marked with what there was to sell.
func writePanel(b *strings.Builder, y int, r row, stock int, all map[string]figures) {
	longest := 1.0
	for _, way := range ways() {
		longest = max(longest, r.value(all[way]))
	}
	fmt.Fprintf(b, `<text x="16" y="%d" font-weight="600" fill="#111827">%s</text>`+"\n", y+16, r.name)
	for i, way := range ways() {
		top := y + 26 + i*(barHeight+6)
		width := r.value(all[way]) / longest * barRoom
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#374151">%s</text>`+"\n", labelWidth-8, top+15, titles()[way])
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/>`+"\n",
			labelWidth, top, max(1, width), barHeight, colours()[way])
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="#111827">%s</text>`+"\n", labelWidth+width+8, top+15, r.text(all[way]))
	}
	if r.name != rows()[0].name {
		return
	}
	x := labelWidth + float64(stock)/longest*barRoom
	fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#111827" stroke-dasharray="3 3"/>`+"\n",
		x, x, y+20, y+26+3*(barHeight+6))
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#374151">- - there were %d</text>`+"\n", chartWidth-16, y+16, stock)
}
