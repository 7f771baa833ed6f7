package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// lineEnv tells BenchmarkLine of package queue how much to measure: people in the
// long line, calls of each kind, and the kinds, by a pattern.
const lineEnv = "QUEUEGATE_TEST_LINE"

// measureLine asks the benchmark of package queue what calls cost Redis with a long
// line and with a short one, by turns: it fills lines by hand and finds the scenes
// that are dearest.
func (b *bench) measureLine(ctx context.Context) error {
	if b.lineTest == "" {
		return errors.New("-line names no program: go test -c ./queue makes it")
	}
	program, err := filepath.Abs(b.lineTest) // it runs in a folder of its own
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-test.run", "^$", "-test.bench", "^BenchmarkLine$", "-test.benchtime", "1x", "-test.timeout", "9m")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d ^(join|touch|tick, admitting)$", lineEnv, b.long, b.calls))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	cmd.Dir = b.dir
	raw, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, raw)
	}
	for scene, id := range map[string]rowID{"join": lineJoin, "touch": lineTouch, "tick, admitting": lineAdmit} {
		few, many, err := meansOf(string(raw), scene)
		if err != nil {
			return err
		}
		b.note(id, exactly(many/few), "%.0f and %.0f µs a call of Redis, %d and %d waiting", many, few, b.long, min(b.long, shortLine))
	}
	found := regexp.MustCompile(`(?m)^` + strconv.Itoa(b.long) + ` waiting: (\d+) bytes each$`).FindStringSubmatch(string(raw))
	if found == nil {
		return fmt.Errorf("BenchmarkLine tells no bytes: %s", raw)
	}
	bytes, err := strconv.ParseFloat(found[1], 64)
	b.note(lineBytes, exactly(bytes), "%d waiting", b.long)
	return err
}

// shortLine is how many wait in the short line of BenchmarkLine.
const shortLine = 10_000

// meansOf finds a scene in the table of BenchmarkLine: mean, 99th percentile and
// longest with the short line, the same with the long one, and the ratio.
func meansOf(table, scene string) (few, many float64, err error) {
	found := regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(scene) + ` +(\d+) +\d+ +\d+ +(\d+) +\d+ +\d+ +[\d.]+ *$`).FindStringSubmatch(table)
	if found == nil {
		return 0, 0, fmt.Errorf("BenchmarkLine has no %q: %s", scene, table)
	}
	few, errFew := strconv.ParseFloat(found[1], 64)
	many, errMany := strconv.ParseFloat(found[2], 64)
	return few, many, errors.Join(errFew, errMany)
}
