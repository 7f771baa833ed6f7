package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// table is the outcome of a run.
type table struct {
	head  string // on what it was measured
	rows  []row
	found map[rowID]figure
	only  func(family string) bool
}

// markdown is the table as README has it.
func (t table) markdown() string {
	var text strings.Builder
	text.WriteString(t.head + "\n\n| what | median | least to most | bar | met | in numbers |\n|---|---:|---:|---:|---|---|\n")
	for _, r := range t.rows {
		if !t.only(r.family) {
			continue
		}
		f, ok := t.found[r.id]
		if !ok {
			fmt.Fprintf(&text, "| %s | – | – | %s | not measured | |\n", r.what, r.bar)
			continue
		}
		met := ""
		switch {
		case r.bar.side == none:
		case r.bar.met(f):
			met = "yes"
		default:
			met = "**no**"
		}
		spread := ""
		if f.least != f.most {
			spread = digits(f.least, r.bar.unit) + " to " + digits(f.most, r.bar.unit)
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", r.what, number(f.median, r.bar.unit), spread, r.bar, met, f.beside)
	}
	return text.String()
}

// save writes the table and its chart, and the table into a README that has marks
// for it.
func (t table) save(o options) error {
	if err := errors.Join(o.write("table.md", t.markdown()), o.write("chart.svg", t.chart())); err != nil {
		return err
	}
	if o.readme == "" {
		return nil
	}
	raw, err := os.ReadFile(o.readme)
	if err != nil {
		return err
	}
	text, err := between(string(raw), markBegin, "\n"+t.markdown(), markEnd)
	if err != nil {
		return fmt.Errorf("%s: %w", o.readme, err)
	}
	return os.WriteFile(o.readme, []byte(text), 0o600)
}

const (
	markBegin = "<!-- make bench -->\n"
	markEnd   = "\n<!-- end of make bench -->"
)

// between replaces what stands between two marks.
func between(text, begin, with, end string) (string, error) {
	head, rest, found := strings.Cut(text, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("no lines %q and %q to put the figures between", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return head + begin + with + end + tail, nil
}

// describe says on what a run was made.
func describe(ctx context.Context, o options, took time.Duration) string {
	parts := []string{
		fmt.Sprintf("%s, %d processors with the load generator on them, %d connections", runtime.GOOS+"/"+runtime.GOARCH, runtime.NumCPU(), connections),
		fmt.Sprintf("%d rounds of %s a side", o.rounds, o.turn),
		runtime.Version(), version(ctx, "redis-server", "--version"), version(ctx, "wrk", "-v"),
		version(ctx, "nginx", "-v"), version(ctx, "haproxy", "-v"),
	}
	if o.caddy != "" {
		parts = append(parts, filepath.Base(filepath.Dir(o.caddy))) // built by go install it does not know
	}
	return fmt.Sprintf("%s: %s; %s.", o.name, strings.Join(parts, "; "), took.Round(time.Second))
}

// version is the first few words of what a program says of itself.
func version(ctx context.Context, program string, arg string) string {
	cmd := exec.CommandContext(ctx, lookup(program), arg)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // wrk -v ends with 1
	words := strings.Fields(out.String())
	for i, w := range words {
		if strings.ContainsAny(w, "0123456789") && strings.Contains(w, ".") {
			if i == 0 {
				return w
			}
			return program + " " + w[strings.LastIndexAny(w, "=/")+1:]
		}
	}
	return program
}
