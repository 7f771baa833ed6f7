package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// watch writes down, now and then, what the processes used and what the people did.
type watch struct {
	people  *people
	watched []watched
	out     io.Writer
	lines   []string
	began   time.Time
	took    time.Duration
}

// watched is a process and what it used: at the beginning, at the last line of the
// table, and at most.
type watched struct {
	pid         int
	first, last use
	most        use // of processors at once, and of memory
}

// use is what a process has used so far and holds now: seconds on a processor, and
// bytes.
type use struct{ cpu, memory float64 }

// watchedNames are the processes in the order of newWatch.
func watchedNames() []string { return []string{"gate", "Redis", "shop", "people"} }

const tableHead = `| s | joined | polls/s | let in | in line | gate: processors | gate: MB | Redis: processors | Redis: MB | shop: processors | people: processors | poll p99, ms | late p99, ms |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
`

// newWatch watches the processes of watchedNames; nil is this one.
func newWatch(p *people, processes []*process, out io.Writer) *watch {
	w := &watch{people: p, out: out, began: time.Now()}
	for _, process := range processes {
		pid := os.Getpid()
		if process != nil {
			pid = process.cmd.Process.Pid
		}
		now := usedBy(pid)
		w.watched = append(w.watched, watched{pid: pid, first: now, last: now})
	}
	return w
}

// run writes a line each time, and takes the last look when ctx ends.
func (w *watch) run(ctx context.Context, every time.Duration) {
	_, _ = io.WriteString(w.out, tableHead)
	last, polls := time.Duration(0), int64(0)
	for on := true; on; {
		on = rest(ctx, every-time.Since(w.began)%every)
		now := time.Since(w.began)
		span := (now - last).Seconds()
		cpu := w.look(span)
		w.took = now
		if !on && span < 1 {
			return
		}
		p, times, asked := w.people, w.people.newMeters(), w.people.polls.Load()
		joined, admitted := p.joined.Load(), p.admitted.Load()
		line := fmt.Sprintf("| %.0f | %d | %.0f | %d | %d | %.2f | %.0f | %.2f | %.0f | %.2f | %.2f | %.1f | %.1f |\n",
			now.Seconds(), joined, float64(asked-polls)/span, admitted, joined-admitted,
			cpu[0], w.watched[0].last.memory/1e6, cpu[1], w.watched[1].last.memory/1e6, cpu[2], cpu[3],
			times.answer.Quantile(0.99).Seconds()*1e3, times.late.Quantile(0.99).Seconds()*1e3)
		_, _ = io.WriteString(w.out, line)
		w.lines = append(w.lines, line)
		last, polls = now, asked
	}
}

// look takes in what the processes have used, and returns how many processors each
// had in the seconds since the last look.
func (w *watch) look(seconds float64) []float64 {
	cpu := make([]float64, len(w.watched))
	for i := range w.watched {
		p := &w.watched[i]
		now := usedBy(p.pid)
		cpu[i] = (now.cpu - p.last.cpu) / seconds
		if seconds >= 1 {
			p.most.cpu = max(p.most.cpu, cpu[i])
		}
		p.most.memory = max(p.most.memory, now.memory)
		p.last = now
	}
	return cpu
}

// figures are what came of it, in words.
func (w *watch) figures(s sale, verdict string) string {
	var used strings.Builder
	for i, p := range w.watched {
		cpu := p.last.cpu - p.first.cpu
		fmt.Fprintf(&used, "- %s: %.0f s on a processor in %.0f s, %.2f ms a person; at most %.2f processors, and %.0f MB\n",
			watchedNames()[i], cpu, w.took.Seconds(), cpu*1e3/float64(s.people), p.most.cpu, p.most.memory/1e6)
	}
	return fmt.Sprintf("%d people, %d a second; the doors open after %s. One gate, one Redis, the shop and the people share %d processors.\n\n%s%s",
		s.people, s.rate, s.hold, runtime.NumCPU(), verdict, used.String())
}

func (w *watch) table() string { return tableHead + strings.Join(w.lines, "") }

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
