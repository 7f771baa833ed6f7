package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

//go:embed wrk.lua
var wrkScript string

const (
	// connections are open at once where nothing else is said; threads send over them.
	connections = 64
	threads     = 2
	// throng is how many ask at once where it is about a crowd that has just come.
	throng = 256
)

// errNoAnswer is returned when a turn was over before anything was answered.
var errNoAnswer = errors.New("no answer")

// load is what wrk sends to one side.
type load struct {
	url, method, path string
	headers           string // for all requests, as wrk.lua reads them
	header, values    string // one that differs, and the file with its values; or empty
	refusals          bool   // answers of 400 and above are what is wanted
	connections       int    // open at once; 0 for as many as elsewhere
}

// shot is what came of one turn.
type shot struct {
	requests float64
	rate     float64 // a second
	p99      float64 // seconds
	bytes    float64 // of an answer
	metered  float64 // what the side's meter moved
	wall     float64 // seconds between its two readings
}

// fire runs wrk for the length of a turn. An answer of another kind than is wanted
// is an error: a side that refuses is fast.
func fire(ctx context.Context, script string, l load, turn time.Duration) (shot, error) {
	cmd := exec.CommandContext(ctx, "wrk", "-t", strconv.Itoa(threads), "-c", strconv.Itoa(cmp.Or(l.connections, connections)), "-d", "60s",
		"--timeout", "30s", "--latency", "-s", script, l.url, "--", l.method, l.path, l.headers, l.header, l.values)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return shot{}, err
	}
	if err := interruptAfter(ctx, cmd.Process, turn); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return shot{}, fmt.Errorf("wrk: %w: %s", err, out.String())
	}
	if err := cmd.Wait(); err != nil {
		return shot{}, fmt.Errorf("wrk: %w: %s", err, out.String())
	}
	return readShot(out.String(), l)
}

// interruptAfter ends wrk some time after it began to send, which takes it a moment
// with many values: it says by its signal mask that it has begun.
func interruptAfter(ctx context.Context, p *os.Process, turn time.Duration) error {
	caught := regexp.MustCompile(`(?m)^SigCgt:\s*([0-9a-f]+)$`)
	for begun := false; !begun; {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid))
		if err != nil {
			return err
		}
		if m := caught.FindSubmatch(status); m != nil {
			mask, err := strconv.ParseUint(string(m[1]), 16, 64)
			begun = err == nil && mask&(1<<(syscall.SIGINT-1)) != 0
		}
		if strings.Contains(string(status), "\nState:\tZ") {
			return fmt.Errorf("it has ended")
		}
		if !rest(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
	if !rest(ctx, turn) {
		return ctx.Err()
	}
	return p.Signal(os.Interrupt)
}

// rest waits and reports whether the context is still alive.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func readShot(text string, l load) (shot, error) {
	at := strings.LastIndex(text, "wrk ")
	var requests, micros, latency, refused, failed, read float64
	if at < 0 {
		return shot{}, fmt.Errorf("wrk said nothing of its requests: %s", text)
	}
	if _, err := fmt.Sscanf(text[at:], "wrk %g %g %g %g %g %g", &requests, &micros, &latency, &refused, &failed, &read); err != nil {
		return shot{}, fmt.Errorf("wrk: %w: %s", err, text)
	}
	switch {
	case failed > 0:
		return shot{}, fmt.Errorf("%s%s: %g requests of %g failed", l.url, l.path, failed, requests)
	case requests == 0:
		return shot{}, fmt.Errorf("%s%s: %w", l.url, l.path, errNoAnswer)
	case l.refusals && refused != requests, !l.refusals && refused > 0:
		return shot{}, fmt.Errorf("%s%s: %g answers of %g are refusals", l.url, l.path, refused, requests)
	}
	return shot{requests: requests, rate: requests / micros * 1e6, p99: latency / 1e6, bytes: read / requests}, nil
}
