// Command queuegate is a virtual waiting room in front of a web shop: a reverse
// proxy that lets people through to the protected routes only as fast as the
// shop can serve them, while everybody else waits in one fair line.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set when the binary is linked.
var version = "dev"

// Exit codes are part of what operators script against.
const (
	exitOK      = 0
	exitRuntime = 1 // it ran, and something failed
	exitUsage   = 2 // it did not run: the command line or the configuration is wrong
)

// process is what a command may use of the operating system.
type process struct {
	environ  []string
	stdin    io.Reader
	terminal bool // somebody sits at stdin
	stdout   io.Writer
	stderr   io.Writer
	// hangups has SIGHUP end the process no more, and tells of each instead.
	hangups func() <-chan os.Signal
}

// usageError marks what exits with exitUsage.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	ctx, stop := untilSignalled()
	code := run(ctx, os.Args[1:], process{
		environ: os.Environ(), stdin: os.Stdin, terminal: isTerminal(os.Stdin), stdout: os.Stdout, stderr: os.Stderr, hangups: hangups,
	})
	stop()
	os.Exit(code)
}

// untilSignalled ends with the first interrupt or SIGTERM. The second ends the process
// at once, whatever is in flight: somebody does not want to wait.
func untilSignalled() (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		fmt.Fprintf(os.Stderr, "queuegate: ended by a second signal (%v), with what was in flight\n", <-signals)
		os.Exit(exitRuntime)
	}()
	return ctx, stop
}

// hangups are the hangups from now on. One that is still to be dealt with stands for
// all that follow.
func hangups() <-chan os.Signal {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGHUP)
	return ch
}

// isTerminal tells whether somebody may sit at a file; at the null device nobody does.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// run is the whole program; only main exits.
func run(ctx context.Context, args []string, p process) int {
	cmd := newRoot(p)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintln(p.stderr, usage.Error())
		return exitUsage
	default:
		fmt.Fprintln(p.stderr, "queuegate:", err)
		return exitRuntime
	}
}
