package main

import (
	"fmt"
	"io"
	"log/slog"
)

// newLog is the program's log: one record a line on stderr.
func newLog(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log.level %q: want debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: least}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, opts)), nil
	}
	return slog.New(slog.NewJSONHandler(w, opts)), nil
}
