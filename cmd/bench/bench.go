package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// bench is one run.
type bench struct {
	options
	*stage
	script string // of wrk
	self   string // this program, which the peers are as well
	secret string // of all gates of the run
	out    io.Writer
	found  map[rowID]figure
}

// family are measurements that are made together.
type family struct {
	name    string
	measure func(*bench, context.Context) error
}

func families() []family {
	return []family{
		{"pass", (*bench).measurePass},
		{"status", (*bench).measureStatus},
		{"join", (*bench).measureJoin},
		{"page", (*bench).measurePage},
		{"line", (*bench).measureLine},
		{"streams", (*bench).measureStreams},
		{"delay", (*bench).measureDelay},
	}
}

// measure runs all that was asked for and writes what came of it. What could not be
// measured stays empty in the table and makes the error; the rest goes on.
func measure(ctx context.Context, o options, stdout, stderr io.Writer) error {
	for _, program := range []string{o.gate, "wrk", "redis-server"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w; make bench brings what is missing", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench{options: o, self: self, secret: newSecret(), out: stderr, found: map[rowID]figure{}}
	failed := 0
	began := time.Now()
	for _, f := range families() {
		if !o.wants(f.name) || ctx.Err() != nil {
			continue
		}
		start := time.Now()
		err := b.onStage(func() error { return f.measure(b, ctx) })
		_, _ = fmt.Fprintf(stderr, "%-8s %s\n", f.name, time.Since(start).Round(time.Second/10))
		if err != nil {
			failed++
			_, _ = fmt.Fprintf(stderr, "%s: %v\n", f.name, err)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t := table{rows: rows(), found: b.found, only: o.wants, head: describe(ctx, o, time.Since(began))}
	if err := t.save(o); err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, t.markdown()); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of the families could not be measured", failed)
	}
	return nil
}

func newSecret() string { return rand.Text() + rand.Text() }

// onStage gives each family a folder and processes of its own.
func (b *bench) onStage(measure func() error) error {
	s, err := newStage()
	if err != nil {
		return err
	}
	defer s.clear()
	b.stage = s
	if b.script, err = s.file("wrk.lua", wrkScript); err != nil {
		return err
	}
	return measure()
}

// note keeps a figure for the table.
func (b *bench) note(id rowID, f figure, beside string, args ...any) {
	f.beside = fmt.Sprintf(beside, args...)
	b.found[id] = f
	_, _ = fmt.Fprintf(b.out, "  %-14s %.3g (%.3g-%.3g) %s\n", id, f.median, f.least, f.most, f.beside)
}

// remark adds something to what stands beside a figure.
func (b *bench) remark(id rowID, words string) {
	f := b.found[id]
	f.beside += words
	b.found[id] = f
}

// write puts a file into the folder of results.
func (o options) write(name, text string) error {
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, name), []byte(text), 0o600)
}
