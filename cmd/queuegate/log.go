package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
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
	return slog.New(slog.NewJSONHandler(plain{w}, opts)), nil
}

// plain writes lines of JSON in which nothing is left that a terminal could act on:
// encoding/json escapes the control characters of ASCII, but not those of Unicode, nor
// what turns the direction of text. The text format quotes all of these by itself.
type plain struct{ w io.Writer }

// Write writes one record.
func (p plain) Write(line []byte) (int, error) {
	text := bytes.TrimSuffix(line, []byte("\n"))
	if !bytes.ContainsFunc(text, unprintable) {
		return p.w.Write(line)
	}
	var b []byte
	for _, r := range string(text) {
		if !unprintable(r) {
			b = utf8.AppendRune(b, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	if _, err := p.w.Write(append(b, '\n')); err != nil {
		return 0, err
	}
	return len(line), nil
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
