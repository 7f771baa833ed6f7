// Command bench measures what the gate costs, on this machine and on loopback:
// each figure is a ratio of two programs that took turns in one run. It needs
// Linux, a built gate, redis-server, wrk, nginx, haproxy and Caddy; make bench
// brings them. Its table is README's; nothing of it is a test that could fail on
// a slow machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitOK      = 0
	exitRuntime = 1 // something could not be measured
	exitUsage   = 2
)

// usageError marks what exits with exitUsage.
type usageError struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program; only main exits.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := command(ctx, args, stdout, stderr)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		_, _ = fmt.Fprintln(stderr, "bench:", usage.Error())
		return exitUsage
	default:
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return exitRuntime
	}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "peer" {
		return servePeer(ctx, args[1:], stdout)
	}
	raiseDescriptors()
	if len(args) > 0 && args[0] == "million" {
		return replay(ctx, args[1:], stdout, stderr)
	}
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	return measure(ctx, o, stdout, stderr)
}

// raiseDescriptors allows this process and those it starts as many open files as
// the machine lets it have: a stream takes one at each end.
func raiseDescriptors() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}

// parseOptions reads the command line.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	short := flags.Bool("short", false, "fewer, shorter rounds and smaller crowds: 90 s, and figures that scatter more")
	tiny := flags.Bool("tiny", false, "only show that everything runs: the figures say nothing")
	o := options{}
	flags.StringVar(&o.gate, "gate", "bin/queuegate", "the gate's program")
	flags.StringVar(&o.caddy, "caddy", "", "Caddy's program; without it its row stays empty")
	flags.StringVar(&o.lineTest, "line", "", "the compiled tests of package queue, which measure the cost of long lines")
	flags.StringVar(&o.out, "out", "build/bench", "where table.md and chart.svg go")
	flags.StringVar(&o.only, "only", "", "only these, separated by commas: "+familyNames())
	flags.StringVar(&o.readme, "readme", "", "a file whose table between the marks is replaced by this run's")
	rounds := flags.Int("rounds", 0, "how often each program has its turn")
	length := flags.Duration("for", 0, "how long each turn is")
	if err := flags.Parse(args); err != nil {
		return o, usageError{err}
	}
	if flags.NArg() > 0 {
		return o, usageError{fmt.Errorf("unknown argument %q", flags.Arg(0))}
	}
	o.size = fullSize()
	switch {
	case *tiny:
		o.size = tinySize()
	case *short:
		o.size = shortSize()
	}
	if *rounds > 0 {
		o.rounds = *rounds
	}
	if *length > 0 {
		o.turn = *length
	}
	return o, o.check()
}
