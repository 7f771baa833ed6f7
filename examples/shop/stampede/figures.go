package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The three ways, in the order of the table. Their names are those of the logs.
const (
	wayNaive  = "naive"
	wayAtomic = "atomic"
	wayGate   = "gate"
)

func ways() []string { return []string{wayNaive, wayAtomic, wayGate} }

// titles are what the ways are called in front of people.
func titles() map[string]string {
	return map[string]string{wayNaive: "nothing in front", wayAtomic: "atomic stock", wayGate: "the gate"}
}

// figures are what one way came to, all of it from the logs.
type figures struct {
	// From the shop's log.
	Sold     int // orders confirmed
	Twice    int // visitors with more than one
	Requests int
	Peak     int           // requests at once
	Errors   int           // answers of 5xx
	P99      time.Duration // of the requests
	Writes   int           // transactions in the busiest second
	// From the people's log.
	People map[string]int // by what they saw
	Failed int            // pages that did not come, or said 5xx
	Median time.Duration  // until they knew
}

// shopRecord is what is read of one line of the shop's log.
type shopRecord struct {
	Time     time.Time `json:"time"`
	Msg      string    `json:"msg"`
	Route    string    `json:"route"`
	Status   any       `json:"status"` // of a request a number, of an order a word
	Duration float64   `json:"duration_s"`
	AtOnce   int       `json:"at_once"`
	Visitor  string    `json:"visitor"`
}

// readFigures computes the figures of one way from the logs in dir.
func readFigures(dir, way string) (figures, error) {
	f := figures{People: map[string]int{}}
	var durations []float64
	writes, orders := map[int64]int{}, map[string]int{}
	err := eachLine(filepath.Join(dir, way+".shop.log"), func(line []byte) error {
		var r shopRecord
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		switch {
		case r.Msg == "write":
			writes[r.Time.Unix()]++
		case r.Msg == "order decided" && r.Status == "confirmed":
			f.Sold++
			orders[r.Visitor]++
		case r.Msg == "request" && !strings.HasSuffix(r.Route, "/healthz"):
			f.Requests++
			f.Peak = max(f.Peak, r.AtOnce)
			durations = append(durations, r.Duration)
			if status, ok := r.Status.(float64); ok && status >= 500 {
				f.Errors++
			}
		}
		return nil
	})
	if err != nil {
		return f, err
	}
	for _, n := range writes {
		f.Writes = max(f.Writes, n)
	}
	for _, n := range orders {
		if n > 1 {
			f.Twice++
		}
	}
	f.P99 = quantile(durations, 0.99)
	var waits []float64
	err = eachLine(filepath.Join(dir, way+".people.log"), func(line []byte) error {
		var s seen
		if err := json.Unmarshal(line, &s); err != nil {
			return err
		}
		f.People[s.Outcome]++
		f.Failed += s.Errors
		waits = append(waits, s.Seconds)
		return nil
	})
	f.Median = quantile(waits, 0.5)
	return f, err
}

// quantile is the smallest value that so large a share of them does not exceed.
func quantile(seconds []float64, share float64) time.Duration {
	if len(seconds) == 0 {
		return 0
	}
	slices.Sort(seconds)
	at := int(math.Ceil(share*float64(len(seconds)))) - 1
	return time.Duration(seconds[max(0, at)] * float64(time.Second))
}

func eachLine(name string, read func([]byte) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if err := read(lines.Bytes()); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return lines.Err()
}

// row is one line of the table and, with a value, one panel of the chart.
type row struct {
	name  string
	value func(figures) float64 // nil: not drawn
	text  func(figures) string
}

// rows are the lines of the table.
func rows() []row {
	number := func(name string, value func(figures) int) row {
		return row{name, func(f figures) float64 { return float64(value(f)) }, func(f figures) string { return fmt.Sprint(value(f)) }}
	}
	people := func(outcome string) row {
		return row{"people: " + outcome, nil, func(f figures) string { return fmt.Sprint(f.People[outcome]) }}
	}
	plain := func(r row) row { return row{name: r.name, text: r.text} }
	return []row{
		number("orders sold", func(f figures) int { return f.Sold }),
		plain(number("visitors with two orders", func(f figures) int { return f.Twice })),
		number("requests at once at the shop, most", func(f figures) int { return f.Peak }),
		plain(number("requests at the shop", func(f figures) int { return f.Requests })),
		plain(number("errors (5xx) of the shop", func(f figures) int { return f.Errors })),
		{
			"slowest 1 % of the shop's answers, ms", func(f figures) float64 { return f.P99.Seconds() * 1000 },
			func(f figures) string { return fmt.Sprintf("%.0f", f.P99.Seconds()*1000) },
		},
		number("database writes in the busiest second", func(f figures) int { return f.Writes }),
		people(bought), people(soldOut), people(soldOutLine), people(gaveUp),
		plain(number("people: pages that failed or did not come in 5 s", func(f figures) int { return f.Failed })),
		{"people: seconds until they knew, median", nil, func(f figures) string { return fmt.Sprintf("%.1f", f.Median.Seconds()) }},
	}
}

// writeTable draws the figures as a table in Markdown.
func writeTable(w io.Writer, visitors, stock int, all map[string]figures) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| %d visitors, %d in stock |", visitors, stock)
	for _, way := range ways() {
		b.WriteString(" " + titles()[way] + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", len(ways())) + "\n")
	for _, r := range rows() {
		b.WriteString("| " + r.name + " |")
		for _, way := range ways() {
			b.WriteString(" " + r.text(all[way]) + " |")
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
