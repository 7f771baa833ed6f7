package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/queuegate/queuegate/queue"
)

const (
	// maxLoggedPath bounds the path in a record.
	maxLoggedPath = 512
	// longWord is from how many characters on a word of what a client sent may be a
	// ticket or a pass, and is not shown. Tickets have about a hundred.
	longWord = 64
	// informedMost is how many 1xx answers of the shop to one request are passed
	// on; early hints come once or twice.
	informedMost = 64
)

// record is what the access log says of one request. Tokens, tickets, cookies
// and queries never come into it.
type record struct {
	id       string
	start    time.Time
	status   int // 0 while nothing was sent
	bytes    int64
	decision Decision
	would    Reason // what would have become of it in a room that diverts nobody; empty elsewhere
	upstream string // how the shop failed, or why its answer was broken off: timeout, unreachable, broke_off, client_gone, request_body, pass_ended, half_closed, stopping
	cause    error  // why there was no answer of the shop, or not to its end
	visitor  string
	redis    time.Duration // for which the request waited for the line

	// What else Observation tells.
	shop     ShopObservation
	asked    time.Time // when the shop was
	lasting  bool
	tookUp   bool
	waited   time.Duration
	joined   bool // the line was asked for a place
	denied   queue.Refusal
	rejected Rejection

	// last makes the answer the last one of its connection.
	last bool
	// informed counts the 1xx answers; beyond informedMost the request is given up.
	informed int
	trip     *trip
}

// level is that of the request in the access log. What repeats by itself while people
// wait is for those who look closely: a hundred thousand of them poll ten thousand
// times a second. Whoever gets a place or a pass, is refused, or goes to the shop is
// told of; Redis away is logged once, and not for everybody who waits.
func (x *exchange) level() slog.Level {
	rec := &x.record
	again := false
	switch d := rec.decision; d.Reason {
	case ReasonStatus, ReasonWaiting, ReasonStream, ReasonTooFast, ReasonPreflight:
		again = true
	case ReasonJoin, ReasonPage:
		again = !rec.joined
	case ReasonDegraded:
		again = d.Outcome == Answered || d.Outcome == Queued && x.ticket != nil
	}
	if again && !x.issued() {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// writeRecord writes the access record.
func (x *exchange) writeRecord() {
	rec, level := &x.record, x.level()
	if !x.g.log.Enabled(x.r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", rec.id),
		slog.String("method", printable(x.r.Method)),
		slog.String("host", printable(x.r.Host)),
		slog.String("path", loggedPath(x.r.RequestURI)),
		slog.String("room", rec.decision.Room),
		slog.String("decision", string(rec.decision.Outcome)),
		slog.String("reason", string(rec.decision.Reason)),
		slog.Int("status", rec.status),
		slog.Int64("bytes", rec.bytes),
		slog.Float64("duration_s", x.g.now().Sub(rec.start).Seconds()),
	}
	if rec.redis > 0 {
		attrs = append(attrs, slog.Float64("redis_s", rec.redis.Seconds()))
	}
	if x.client.IsValid() {
		attrs = append(attrs, slog.String("client_ip", x.client.String()))
	}
	if rec.visitor != "" {
		attrs = append(attrs, slog.String("visitor", hashed(rec.visitor)))
	}
	if rec.upstream != "" {
		attrs = append(attrs, slog.String("upstream", rec.upstream), slog.String("upstream_error", printable(fmt.Sprint(rec.cause))))
	}
	x.g.log.LogAttrs(x.r.Context(), level, "request", attrs...)
}

// hashed names a visitor in the log: the id itself is part of what a ticket
// proves.
func hashed(visitor string) string {
	sum := sha256.Sum256([]byte("queuegate log visitor " + visitor))
	return hex.EncodeToString(sum[:8])
}

// loggedPath is the path of a request target as it may stand in a log.
func loggedPath(uri string) string {
	path, _, _ := strings.Cut(uri, "?")
	path = concealed(path)
	if len(path) > maxLoggedPath {
		path = path[:maxLoggedPath] + "..."
	}
	return escaped(path)
}

// serverLog takes what net/http has to say, which may quote what it got.
func serverLog(to *slog.Logger, level slog.Level) *log.Logger {
	return log.New(lineWriter(func(line string) {
		to.Log(context.Background(), level, concealed(strings.TrimSuffix(line, "\n")))
	}), "", 0)
}

// lineWriter is called with each line that is written.
type lineWriter func(line string)

// Write implements io.Writer.
func (w lineWriter) Write(line []byte) (int, error) {
	w(string(line))
	return len(line), nil
}

// printable is foreign text as it may stand in a log.
func printable(s string) string { return escaped(concealed(s)) }

// concealed leaves out what may be a ticket or a pass: those belong in headers, and
// people put them elsewhere.
func concealed(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		n := strings.IndexFunc(s, notOfAToken)
		if n < 0 {
			n = len(s)
		}
		if n >= longWord {
			fmt.Fprintf(&b, "[%d characters]", n)
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
		n = strings.IndexFunc(s, func(r rune) bool { return !notOfAToken(r) })
		if n < 0 {
			n = len(s)
		}
		b.WriteString(s[:n])
		s = s[n:]
	}
	return b.String()
}

// notOfAToken tells what neither a ticket nor a pass has in it.
func notOfAToken(r rune) bool {
	return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// escaped escapes what a terminal or a log reader could act on.
func escaped(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
