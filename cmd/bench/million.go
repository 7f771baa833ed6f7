package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// sale is a great sale, as it is replayed: so many people join, evenly spread; the
// doors are shut at first, and then let in as many a second as join. So everybody
// waits as long as the doors were shut, and the room's claim_window has all ask at
// least every 12 s: in 40 s five times, once right after they joined, three times on
// the way and once to be let in. A million at 1500 a second have joined after 667 s,
// the last is let in after 707 s and hears of it within 12 s more, inside the bound.
type sale struct {
	gate, out string
	readme    string // a file that gets the figures between the marks; "" for none
	people    int
	rate      int           // joins a second, and admissions
	hold      time.Duration // until the doors open
	polls     int           // that each must have made, at least
	bound     time.Duration // of the whole
}

// claimWindow is the room's: polls are a third of it apart at most, and a fifth more
// by chance.
const claimWindow = 30 * time.Second

const (
	saleBegin = "<!-- make bench-million -->\n"
	saleEnd   = "\n<!-- end of make bench-million -->"
)

func parseSale(args []string, stderr io.Writer) (sale, error) {
	flags := flag.NewFlagSet("bench million", flag.ContinueOnError)
	flags.SetOutput(stderr)
	s := sale{}
	flags.StringVar(&s.gate, "gate", "bin/queuegate", "the gate's program")
	flags.StringVar(&s.out, "out", "build/bench", "where million.md goes")
	flags.StringVar(&s.readme, "readme", "", "a file whose figures between the marks are replaced by this run's")
	flags.IntVar(&s.people, "people", 1_000_000, "how many come")
	flags.IntVar(&s.rate, "rate", 1500, "how many join in a second, and how many are let in")
	flags.DurationVar(&s.hold, "hold", 40*time.Second, "until the doors open; everybody waits as long")
	flags.DurationVar(&s.bound, "bound", 12*time.Minute, "how long it may take")
	flags.IntVar(&s.polls, "polls", 5, "how often each must have asked")
	if err := flags.Parse(args); err != nil {
		return s, usageError{err}
	}
	if s.people < 1 || s.rate < 1 || flags.NArg() > 0 {
		return s, usageError{errors.New("million: needs people and a rate above 0, and nothing else")}
	}
	return s, nil
}

// perMinute is the limit of the room: with a burst of one second's worth, steadily
// as many are let in as join.
func (s sale) perMinute() int { return 61*s.rate - 1 }

// replay plays the sale in real time with one gate and one Redis on this machine.
// Every person joins over HTTP, asks again exactly when told, and goes to the shop
// once with the pass, which the shop gives back in its answer.
func replay(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parseSale(args, stderr)
	if err != nil {
		return err
	}
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
		room: fmt.Sprintf("total_active_users: %d\n    new_users_per_minute: %d\n    burst: %d\n    claim_window: %s", 50*s.rate, s.perMinute(), s.rate, claimWindow),
	})
	if err != nil {
		return err
	}
	if err := g.change(ctx, `{"state": "paused"}`); err != nil {
		return err
	}
	p := newPeople(s)
	watch := newWatch(p, []*process{g.process, store.process, shop.process, nil}, b.out)
	failed := s.play(ctx, g, p, watch)
	// What came of it is told also when time is over.
	told, cancel := context.WithTimeout(context.WithoutCancel(ctx), startPatience)
	defer cancel()
	served, err := get(told, shop.url+"/served")
	if err != nil {
		return errors.Join(failed, err)
	}
	visits, err := strconv.Atoi(served)
	if err != nil {
		return errors.Join(failed, err)
	}
	verdict, broken := p.judge(visits)
	figures := watch.figures(s, verdict)
	text := figures + "\n" + watch.table()
	_, err = io.WriteString(stdout, text)
	return errors.Join(failed, err, b.write("million.md", text), s.publish(figures), broken)
}

// play has the people come, opens the doors when it is time, and returns when all
// are done or the time is over.
func (s sale) play(ctx context.Context, g *gate, p *people, w *watch) error {
	ctx, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { w.run(watching, s.every()); close(done) }()
	opened := make(chan error, 1)
	go func() {
		if !rest(ctx, s.hold) {
			opened <- ctx.Err()
			return
		}
		opened <- g.change(ctx, `{"state": null}`)
	}()
	failed := p.run(ctx, g.url)
	if stop(); failed != nil {
		cancel()
	}
	<-done
	return errors.Join(failed, <-opened)
}

// publish puts the figures where README has its own.
func (s sale) publish(figures string) error {
	if s.readme == "" {
		return nil
	}
	raw, err := os.ReadFile(s.readme)
	if err != nil {
		return err
	}
	text, err := between(string(raw), saleBegin, "\n"+figures, saleEnd)
	if err != nil {
		return fmt.Errorf("%s: %w", s.readme, err)
	}
	return os.WriteFile(s.readme, []byte(text), 0o600)
}

// every is how far apart the lines of the table are.
func (s sale) every() time.Duration {
	length := time.Duration(s.people/s.rate)*time.Second + s.hold
	return min(10*time.Second, max(time.Second, length/12))
}
