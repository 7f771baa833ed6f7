package queue

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Gate is one process that serves the room.
type Gate struct {
	Name    string // Options.Gate
	Version string // Options.Version
	// Silent is how long ago it called Redis for this room last: half a second at
	// most while it is well. One that was stopped is not among the gates any more;
	// one that died is for ten minutes.
	Silent time.Duration
	// Refused: its shop takes no connections, so it lets nobody in.
	Refused bool
}

// Gates lists the gates of the room, in the order of their names. The error wraps
// ErrUnavailable when Redis did not answer.
func (l *Line) Gates(ctx context.Context) ([]Gate, error) {
	_, versions := recordKeys(l.opts().Prefix, l.opts().Room)
	raw, err := l.look(ctx, l.scripts.gates, []string{l.keys[0], l.keys[12], versions})
	if err != nil {
		return nil, err
	}
	f := &fields{values: raw}
	now := f.number()
	var gates []Gate
	for f.err == nil && f.at < len(f.values) {
		name, last, word := f.text(), f.number(), f.text()
		does, version, _ := strings.Cut(word, " ")
		gates = append(gates, Gate{
			Name: name, Version: version, Refused: does == gateRefused,
			Silent: time.Duration(max(0, now-last)) * time.Millisecond,
		})
	}
	slices.SortFunc(gates, func(a, b Gate) int { return strings.Compare(a.Name, b.Name) })
	return gates, f.err
}

// Name is this gate's in the room.
func (l *Line) Name() string { return l.opts().Gate }

// What a gate tells of itself with each point.
const (
	gateHere    = "here"
	gateRefused = "refused"
	gateLeaves  = "leaves"
)

// recorder is when this gate next offers a point of the history. Only Run uses it.
type recorder struct {
	due     time.Time
	failing bool
}

// recordPoint writes a point of the history when a new one is due and no other gate
// was before. The line does not depend on it, so a failure is logged when it begins
// and the next point is tried in time.
func (l *Line) recordPoint(ctx context.Context) {
	if time.Now().Before(l.record.due) {
		return
	}
	does := gateHere
	if l.opts().Hold() {
		does = gateRefused
	}
	rest, err := l.writePoint(ctx, does)
	if err != nil {
		rest = PointEvery
		if !l.record.failing {
			l.opts().Log.WarnContext(ctx, "no point of the room's history was written", "room", l.opts().Room, "error", err.Error())
		}
	}
	l.record.failing = err != nil
	l.record.due = time.Now().Add(rest)
}

// writePoint tells how much is left of the time that the point is for.
func (l *Line) writePoint(ctx context.Context, does string) (rest time.Duration, err error) {
	history, versions := recordKeys(l.opts().Prefix, l.opts().Room)
	k := l.keys
	raw, err := l.look(ctx, l.scripts.record, []string{k[0], k[1], k[2], k[4], k[6], k[12], history, versions},
		l.opts().Gate, l.opts().Version, does)
	if err != nil {
		return 0, err
	}
	f := &fields{values: raw}
	f.number() // whether it was this call
	return time.Duration(f.number()) * time.Millisecond, f.err
}

// signOff takes this gate off the list.
func (l *Line) signOff(ctx context.Context) {
	_, _ = l.writePoint(ctx, gateLeaves) // else it is shown as silent until it is forgotten
}
