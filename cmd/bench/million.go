package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// sale is a great sale, as it is replayed: so many people join, evenly spread; the
// doors are shut at first, and then lets in as many a second as join.
type sale struct {
	gate, out string
	people    int
	rate      int           // joins a second, and admissions
	hold      time.Duration // until the doors open
	polls     int           // that each must have made, at least
	bound     time.Duration // of the whole
}

func parseSale(args []string, stderr io.Writer) (sale, error) {
	flags := flag.NewFlagSet("bench million", flag.ContinueOnError)
	flags.SetOutput(stderr)
	s := sale{bound: 12 * time.Minute}
	flags.StringVar(&s.gate, "gate", "bin/queuegate", "the gate's program")
	flags.StringVar(&s.out, "out", "build/bench", "where million.md goes")
	flags.IntVar(&s.people, "people", 1_000_000, "how many come")
	flags.IntVar(&s.rate, "rate", 2000, "how many join in a second, and how many are let in")
	flags.DurationVar(&s.hold, "hold", 110*time.Second, "until the doors open; everybody waits as long")
	flags.IntVar(&s.polls, "polls", 5, "how often each must have asked")
	if err := flags.Parse(args); err != nil {
		return s, usageError{err}
	}
	if s.people < 1 || s.rate < 1 || flags.NArg() > 0 {
		return s, usageError{errors.New("million: needs people and a rate above 0, and nothing else")}
	}
	return s, nil
}

// replay plays the sale in real time with one gate and one Redis on this machine.
// Every person joins over HTTP, asks again exactly when told, and goes to the shop
// once with the pass, which the shop gives back in its answer.
func replay(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parseSale(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench{options: options{gate: s.gate, out: s.out}, self: self, secret: newSecret(), out: stderr}
	return b.onStage(func() error { return b.replay(ctx, s, stdout) })
}

func (b *bench) replay(ctx context.Context, s sale, stdout io.Writer) error {
	shop, err := b.startPeer(ctx, "till")
	if err != nil {
		return err
	}
	store, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	g, err := b.startGate(ctx, gateConfig{
		shop: shop.url, redis: store,
		room: fmt.Sprintf("total_active_users: %d\n    new_users_per_minute: %d", 50*s.rate, 60*s.rate),
	})
	if err != nil {
		return err
	}
	if err := g.change(ctx, `{"state": "paused"}`); err != nil {
		return err
	}
	p := newPeople(s, g.url)
	watch := &watch{people: p, gate: g.process.cmd.Process.Pid, redis: store.process.cmd.Process.Pid, out: b.out}
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { watch.run(watching, s.every()); close(done) }()
	opened := make(chan error, 1)
	go func() {
		if !rest(ctx, s.hold) {
			opened <- ctx.Err()
			return
		}
		opened <- g.change(ctx, `{"state": null}`)
	}()
	failed := p.run(ctx)
	stop()
	<-done
	if err := errors.Join(failed, <-opened); err != nil {
		return err
	}
	served, err := get(ctx, shop.url+"/served")
	if err != nil {
		return err
	}
	visits, err := strconv.Atoi(served)
	if err != nil {
		return err
	}
	verdict, broken := p.judge(visits)
	text := watch.markdown(s, verdict)
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	return errors.Join(b.write("million.md", text), broken)
}

// every is how far apart the lines of the table are: about two dozen in all.
func (s sale) every() time.Duration {
	length := time.Duration(s.people/s.rate)*time.Second + s.hold
	return max(time.Second, (length / 24).Round(5*time.Second))
}

// watch writes down, now and then, what the processes used and what the people did.
type watch struct {
	people      *people
	gate, redis int // process ids
	out         io.Writer
	lines       []string
}

// use is what a process has used so far and holds now.
type use struct{ cpu, memory float64 }

const tableHead = `| s | joined | polls/s | let in | in line | gate: processors | gate: MB | Redis: processors | Redis: MB | poll p99, ms | late, ms |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
`

func (w *watch) run(ctx context.Context, every time.Duration) {
	began := time.Now()
	last, lastGate, lastRedis, lastPolls := began, usedBy(w.gate), usedBy(w.redis), int64(0)
	_, _ = io.WriteString(w.out, tableHead)
	for rest(ctx, every) {
		now, gate, redis, polls := time.Now(), usedBy(w.gate), usedBy(w.redis), w.people.polls.Load()
		span := now.Sub(last).Seconds()
		joined, admitted := w.people.joined.Load(), w.people.admitted.Load()
		times := w.people.newMeters()
		line := fmt.Sprintf("| %.0f | %d | %.0f | %d | %d | %.2f | %.0f | %.2f | %.0f | %.1f | %.1f |\n", now.Sub(began).Seconds(), joined,
			float64(polls-lastPolls)/span, admitted, joined-admitted, (gate.cpu-lastGate.cpu)/span, gate.memory/1e6,
			(redis.cpu-lastRedis.cpu)/span, redis.memory/1e6,
			times.answer.Quantile(0.99).Seconds()*1e3, times.late.Quantile(0.99).Seconds()*1e3)
		_, _ = io.WriteString(w.out, line)
		w.lines = append(w.lines, line)
		last, lastGate, lastRedis, lastPolls = now, gate, redis, polls
	}
}

func (w *watch) markdown(s sale, verdict string) string {
	return fmt.Sprintf("%d people, %d a second; the doors open after %s. One gate, one Redis, and the people on the same machine.\n\n%s%s\n%s",
		s.people, s.rate, s.hold, tableHead, strings.Join(w.lines, ""), verdict)
}

// usedBy reads what a process has used; zero when it is gone.
func usedBy(pid int) use {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return use{}
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	number := func(i int) float64 {
		if i >= len(fields) {
			return math.NaN()
		}
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return math.NaN()
		}
		return n
	}
	const user, system, resident, hertz = 11, 12, 21, 100 // fields behind the name; ticks a second on every Linux
	return use{(number(user) + number(system)) / hertz, number(resident) * float64(os.Getpagesize())}
}
