package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/queuegate/queuegate/cmd/queuegate/crowd"
	"github.com/queuegate/queuegate/queue"
)

// honoured is for how long a pass that the shop has ended may still be good at
// another gate.
const honoured = time.Second

// loadReport is what a run ends with.
type loadReport struct {
	Gates       []string        `json:"gates"`
	Room        string          `json:"room"`
	Path        string          `json:"path"`
	Seed        uint64          `json:"seed"`
	Visitors    int             `json:"visitors"`
	Seconds     float64         `json:"seconds"`
	Interrupted bool            `json:"interrupted"`
	Verdicts    []crowd.Verdict `json:"verdicts"`
	People      loadPeople      `json:"people"`
	Waits       loadWaits       `json:"waits_shown"`
	Requests    loadRequests    `json:"requests"`
	Join        loadTimes       `json:"join"`
	Status      loadTimes       `json:"status"`
	Through     loadTimes       `json:"pass_through"`
	Tool        loadTool        `json:"tool"`
	Used        []gateUse       `json:"gate_use,omitempty"`
	RedisCalls  float64         `json:"redis_calls_per_second,omitempty"`
}

type loadPeople struct {
	Came    int64 `json:"came"`
	LetIn   int64 `json:"let_in"`
	Ordered int64 `json:"ordered"`
	Refused int64 `json:"orders_refused"`
	GaveUp  int64 `json:"gave_up"`
	Waiting int64 `json:"waiting_at_the_end"`
	Inside  int64 `json:"inside_at_the_end"`
}

type loadWaits struct {
	Inside  int `json:"inside"`
	Shorter int `json:"shorter"`
	Longer  int `json:"longer"`
	Open    int `json:"open"`
}

type loadRequests struct {
	All       int64   `json:"all"`
	PerSecond float64 `json:"per_second"`
	Polls     float64 `json:"polls_per_second"`
	Failed    int64   `json:"failed"`
}

type loadTimes struct {
	N   int64   `json:"n"`
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

type loadTool struct {
	LateP99     float64 `json:"late_p99_ms"`
	LateMost    float64 `json:"late_most_ms"`
	CPUSeconds  float64 `json:"cpu_seconds"`
	MemoryBytes int64   `json:"memory_bytes"` // at most
}

// newLoadReport judges a run.
func newLoadReport(o *loadFlags, opts crowd.Options, histories []*crowd.History, w *loadWatch, took time.Duration, interrupted bool) *loadReport {
	evidence := &crowd.Evidence{People: histories, Honoured: honoured}
	late := crowd.Lateness{P99: opts.Meters.Late.Quantile(0.99), Most: opts.Meters.Late.Most()}
	waits := evidence.Waits()
	counts := opts.Counts
	r := &loadReport{
		Gates: o.gates, Room: o.room, Path: o.path, Seed: o.seed, Visitors: o.visitors, Seconds: took.Seconds(), Interrupted: interrupted,
		Verdicts: evidence.Verdicts(o.stated(w, evidence.Numberless()), late),
		People: loadPeople{
			Came: counts.Arrived.Load(), LetIn: counts.Admitted.Load(), Ordered: counts.Ordered.Load(), Refused: counts.Refused.Load(),
			GaveUp: counts.GaveUp.Load(),
		},
		Waits: loadWaits{Inside: waits.Inside, Shorter: waits.Shorter, Longer: waits.Longer, Open: waits.Open},
		Requests: loadRequests{
			All: counts.Requests.Load(), PerSecond: float64(counts.Requests.Load()) / took.Seconds(),
			Polls: float64(counts.Polls.Load()) / took.Seconds(), Failed: counts.Failed.Load(),
		},
		Join: timesOf(&opts.Meters.Join), Status: timesOf(&opts.Meters.Status), Through: timesOf(&opts.Meters.Through),
		Tool: loadTool{LateP99: milliseconds(late.P99), LateMost: milliseconds(late.Most)},
		Used: w.gates,
	}
	for _, h := range histories {
		switch h.Outcome {
		case crowd.StillWaiting:
			r.People.Waiting++
		case crowd.StillInside:
			r.People.Inside++
		}
	}
	for _, g := range w.gates {
		r.RedisCalls += g.RedisCalls / took.Seconds()
	}
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		r.Tool.CPUSeconds = time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
		r.Tool.MemoryBytes = used.Maxrss * 1024
	}
	return r
}

// stated is by what the run is judged: what the flags say, else what the gates do.
func (o *loadFlags) stated(w *loadWatch, numberless bool) crowd.Stated {
	s := crowd.Stated{
		Slots: o.active, PerMinute: o.perMinute, Burst: o.burst,
		SlotsKnown: o.activeSaid, RateKnown: o.perMinuteSaid, BurstKnown: o.burstSaid,
		Numberless: numberless, MostActive: w.active, Admitted: w.by, Reset: w.reset,
	}
	if w.method != "" {
		s.Numberless = w.method == "random"
	}
	for name, by := range map[queue.Setting]struct {
		limit *int64
		known *bool
	}{
		queue.SettingSlots: {&s.Slots, &s.SlotsKnown}, queue.SettingPerMinute: {&s.PerMinute, &s.RateKnown}, queue.SettingBurst: {&s.Burst, &s.BurstKnown},
	} {
		if limit, ok := w.highest[name]; ok && !*by.known {
			*by.limit, *by.known = limit, true
		}
	}
	s.Lowered = w.highest[queue.SettingSlots] != w.lowest[queue.SettingSlots]
	return s
}

func timesOf(m *crowd.Meter) loadTimes {
	return loadTimes{N: m.Count(), P50: milliseconds(m.Quantile(0.5)), P99: milliseconds(m.Quantile(0.99))}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// verdict is the error that the run ends with: nil when every promise that could be
// judged was kept, and at least one could.
func (r *loadReport) verdict() error {
	var broken []string
	judged := 0
	for _, v := range r.Verdicts {
		if v.Judgement == crowd.Broken {
			broken = append(broken, v.Name)
		}
		if v.Judgement != crowd.NotJudged {
			judged++
		}
	}
	switch {
	case len(broken) > 0:
		return fmt.Errorf("load: broken: %s", strings.Join(broken, ", "))
	case judged == 0 || r.People.LetIn == 0 && r.Status.N == 0:
		return fmt.Errorf("load: nothing could be judged: %d requests, %d failed", r.Requests.All, r.Requests.Failed)
	default:
		return nil
	}
}

// write prints the report.
func (r *loadReport) write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	end := ""
	if r.Interrupted {
		end = ", interrupted: what was seen so far"
	}
	fmt.Fprintf(w, "room %s, %s%s: %d people, seed %d, %.0f s%s\n\n", shown(r.Room), strings.Join(r.Gates, " "), r.Path, r.Visitors, r.Seed, r.Seconds, end)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, v := range r.Verdicts {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", v.Name, v.Judgement, v.Seen)
	}
	fmt.Fprintln(table)
	for _, line := range r.figures() {
		fmt.Fprintf(table, "  %s\t%s\n", line[0], line[1])
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, v := range r.Verdicts {
		if v.Story != "" {
			fmt.Fprintf(w, "\n%s, %d times; the shortest story:\n  %s\n", v.Name, v.Times, v.Story)
		}
	}
	return nil
}

// figures are what is measured and no promise.
func (r *loadReport) figures() [][2]string {
	lines := [][2]string{
		{"people", fmt.Sprintf("%d came, %d let in, %d ordered (%d refused), %d gave up; at the end %d waiting, %d inside",
			r.People.Came, r.People.LetIn, r.People.Ordered, r.People.Refused, r.People.GaveUp, r.People.Waiting, r.People.Inside)},
		{"waits shown", r.waits()},
		{"requests", fmt.Sprintf("%d, %.0f a second; %.0f polls a second; %d failed", r.Requests.All, r.Requests.PerSecond, r.Requests.Polls, r.Requests.Failed)},
		{"join", r.Join.String()}, {"status", r.Status.String()}, {"pass-through", r.Through.String()},
		{"the tool", fmt.Sprintf("late by %.0f ms (p99; %.0f ms at most), %.1f s of CPU, %s", r.Tool.LateP99, r.Tool.LateMost, r.Tool.CPUSeconds, megabytes(float64(r.Tool.MemoryBytes)))},
	}
	if r.Tool.LateP99 > milliseconds(crowd.Late) {
		lines = append(lines, [2]string{"", "people did as told too late for much to be certain: more --connections, fewer --visitors, or a machine of its own"})
	}
	for _, g := range r.Used {
		lines = append(lines, [2]string{"gate " + g.Admin, fmt.Sprintf("%.1f s of CPU (%.0f %%), %s, %.0f open files",
			g.CPUSeconds, 100*g.CPUSeconds/r.Seconds, megabytes(g.MemoryBytes), g.Files)})
	}
	if len(r.Used) > 0 {
		lines = append(lines, [2]string{"Redis", fmt.Sprintf("%.0f calls a second", r.RedisCalls)})
	}
	return lines
}

func (r *loadReport) waits() string {
	judged := r.Waits.Inside + r.Waits.Shorter + r.Waits.Longer
	if judged == 0 {
		return fmt.Sprintf("none could be compared (%d open)", r.Waits.Open)
	}
	share := func(n int) float64 { return 100 * float64(n) / float64(judged) }
	return fmt.Sprintf("%.0f %% inside the range shown, %.0f %% shorter, %.0f %% longer (of %d; %d open)",
		share(r.Waits.Inside), share(r.Waits.Shorter), share(r.Waits.Longer), judged, r.Waits.Open)
}

func (t loadTimes) String() string {
	if t.N == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %.1f ms, p99 %.1f ms (%d)", t.P50, t.P99, t.N)
}

func megabytes(n float64) string { return fmt.Sprintf("%.0f MB", n/(1<<20)) }
