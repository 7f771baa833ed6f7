package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Controls are the values of a room and where they come from. They live in Redis:
// all gates follow within a second, and a gate that starts finds them there.
type Controls struct {
	// Version grows with every change. After a loss the highest version that any
	// gate remembers counts.
	Version int64 `json:"version"`
	// File are the values of the gate that was started or reloaded last.
	File map[Setting]string `json:"file"`
	// Live are values set by hand or by the shop. Each stays until it is cleared;
	// then the file's counts again.
	Live map[Setting]Live `json:"live,omitempty"`
	// History are the last changes of Live and what operators did, the newest last,
	// at most 20; the shop's own counts of its stock are not among them.
	History []Changed `json:"history,omitempty"`
}

// Live is a value set while the room runs.
type Live struct {
	Value string    `json:"value"`
	By    string    `json:"by"`
	At    time.Time `json:"at"` // by Redis's TIME
}

// Changed is one change of a live value. Old is the value in force before and New
// the one in force after it, which is the file's when it was cleared. Or it is what
// an operator did, and Setting one of the actions.
type Changed struct {
	Setting Setting   `json:"setting"`
	Old     string    `json:"old"`
	New     string    `json:"new"`
	Cleared bool      `json:"cleared,omitempty"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
}

// ByShop is who changes what the shop asks for in its answers.
const ByShop = "shop"

// Change sets live values of a room and clears others.
type Change struct {
	By    string // who makes it, 1 to 64 characters; required
	Set   map[Setting]string
	Clear []Setting
	// Yield leaves alone what somebody else has set.
	Yield bool
	// Version, when not 0, is the one the change was made for: it is refused when
	// the room's values have changed since.
	Version int64
}

const (
	keptChanges   = 20
	controlTrials = 8 // of a change that others came before
)

// control is what a gate knows of the room's values.
type control struct {
	controls Controls
	settings Settings
}

// Control makes a change of the room's live values for all gates and returns what
// is there then. The error wraps ErrSetting when the change cannot be made,
// ErrConflict when others came before, and ErrUnavailable when Redis did not answer: the change may then have been made, and
// can be made again.
func (l *Line) Control(ctx context.Context, c Change) (Controls, error) {
	if err := named(c.By); err != nil {
		return Controls{}, err
	}
	l.controlling.Lock()
	defer l.controlling.Unlock()
	return l.rewrite(ctx, func(base Controls) (Controls, error) {
		if c.Version != 0 && c.Version != base.Version {
			return base, ErrConflict
		}
		return base.with(c, l.clock())
	})
}

// Controls are the room's values as this gate heard last, without asking.
func (l *Line) Controls() Controls { return l.control.Load().controls }

// Settings are the values in force as this gate heard last, without asking.
func (l *Line) Settings() Settings { return l.control.Load().settings }

// Configure writes the values of this gate's file, beside live ones if there are
// any. Run does it at its start and whenever Redis holds none or older ones.
func (l *Line) Configure(ctx context.Context) error {
	l.controlling.Lock()
	defer l.controlling.Unlock()
	file := l.opts().fileValues()
	_, err := l.rewrite(ctx, func(base Controls) (Controls, error) {
		if base.Version > 0 && !maps.Equal(base.File, file) {
			l.opts().Log.WarnContext(ctx, "the room's values in Redis were others than this gate's file and are replaced; all gates should have the same",
				"room", l.opts().Room, "before", base.File, "now", file)
		}
		base.File = file
		return base, nil
	})
	return err
}

// rewrite writes what change makes of the room's values, and begins anew when
// others have changed them meanwhile.
func (l *Line) rewrite(ctx context.Context, change func(Controls) (Controls, error)) (Controls, error) {
	base := l.control.Load().controls
	seen := base.Version
	for range controlTrials {
		next, err := change(base)
		if err != nil {
			return Controls{}, err
		}
		settings, err := next.inForce()
		if err != nil {
			return Controls{}, err
		}
		if next.Version == 0 || !sameRecord(base, next) {
			now, _ := l.Now()
			next.Version = max(base.Version+1, seen+1, now*1000)
		}
		stored, written, err := l.sendControls(ctx, seen, next, settings)
		switch {
		case err != nil:
			return Controls{}, err
		case written:
			l.control.Store(&control{controls: next, settings: settings})
			l.stored.Store(next.Version)
			ring(l.changed)
			return next, nil
		}
		seen = stored.Version
		if seen > base.Version {
			base = stored
		}
	}
	return Controls{}, unavailable(fmt.Errorf("others changed the room's values %d times at once", controlTrials))
}

func sameRecord(a, b Controls) bool {
	return maps.Equal(a.File, b.File) && sameLive(a, b) && slices.Equal(a.History, b.History)
}

// sendControls runs configure, and returns what Redis holds then and whether that
// is next.
func (l *Line) sendControls(ctx context.Context, seen int64, next Controls, s Settings) (stored Controls, written bool, err error) {
	text, err := json.Marshal(next)
	if err != nil {
		return Controls{}, false, fmt.Errorf("queue: encode control values: %w", err)
	}
	r, err := l.run(ctx, l.scripts.configure, shown{}, seen, next.Version, s.Limits.Slots, s.Limits.PerMinute, s.Limits.Burst,
		string(s.State), text)
	if err != nil {
		return Controls{}, false, err
	}
	f := &fields{values: r.rest}
	version, record := f.number(), f.text()
	if f.err != nil || version == 0 || record == string(text) {
		return Controls{}, f.err == nil && version > 0, f.err
	}
	stored, err = parseControls(record)
	return stored, false, err
}

func parseControls(record string) (Controls, error) {
	var c Controls
	if err := json.Unmarshal([]byte(record), &c); err != nil {
		return Controls{}, fmt.Errorf("%w: control values", ErrReply)
	}
	return c, nil
}

// heardControls keeps what a tick tells of the room's values: their version in
// Redis, and the record when this gate knows another.
func (l *Line) heardControls(version int64, record string) error {
	l.stored.Store(version)
	if record == "" {
		return nil
	}
	c, err := parseControls(record)
	if err != nil {
		return err
	}
	settings, err := c.inForce()
	if err != nil {
		return err
	}
	l.controlling.Lock()
	defer l.controlling.Unlock()
	if c.Version > l.control.Load().controls.Version {
		l.control.Store(&control{controls: c, settings: settings})
		ring(l.changed)
	}
	return nil
}

// with is c changed.
func (c Controls) with(change Change, now time.Time) (Controls, error) {
	before := c.asked()
	c.Live, c.History = maps.Clone(c.Live), slices.Clone(c.History)
	if c.Live == nil {
		c.Live = map[Setting]Live{}
	}
	others := func(name Setting) bool {
		live, set := c.Live[name]
		return change.Yield && set && live.By != change.By
	}
	var touched []Setting
	for name, value := range change.Set {
		if live, set := c.Live[name]; !others(name) && (!set || live.Value != value || live.By != change.By) {
			c.Live[name] = Live{Value: value, By: change.By, At: now}
			touched = append(touched, name)
		}
	}
	for _, name := range change.Clear {
		if _, set := c.Live[name]; set && !others(name) {
			delete(c.Live, name)
			touched = append(touched, name)
		}
	}
	after := c.asked()
	if _, err := after.settings(); err != nil {
		return c, err
	}
	slices.Sort(touched)
	for _, name := range touched {
		if name == SettingStock && change.By == ByShop {
			continue
		}
		_, set := c.Live[name]
		c = c.noted(Changed{Setting: name, Old: before[name], New: after[name], Cleared: !set, By: change.By, At: now})
	}
	return c, nil
}

// noted is c with one more entry of its history.
func (c Controls) noted(entry Changed) Controls {
	kept := c.History[max(0, len(c.History)-keptChanges+1):]
	c.History = append(slices.Clone(kept), entry)
	return c
}

// clock is Redis's TIME by now, as far as this gate knows.
func (l *Line) clock() time.Time {
	k := l.known.Load()
	if k == nil {
		return time.Now().UTC().Truncate(time.Millisecond)
	}
	return k.room.Clock.Add(time.Since(k.sent)).UTC().Truncate(time.Millisecond)
}

// wishes are changes the shop has asked for that Redis has still to be told; of
// several about one setting the newest counts.
type wishes struct {
	mu  sync.Mutex
	set map[Setting]*string // nil: to be cleared
}

func (w *wishes) add(c Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set == nil {
		w.set = map[Setting]*string{}
	}
	for name, value := range c.Set {
		w.set[name] = &value
	}
	for _, name := range c.Clear {
		w.set[name] = nil
	}
}

// take returns all of them as one change; ok is false when there are none.
func (w *wishes) take() (c Change, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c = Change{By: ByShop, Yield: true, Set: map[Setting]string{}}
	for name, value := range w.set {
		if value == nil {
			c.Clear = append(c.Clear, name)
		} else {
			c.Set[name] = *value
		}
	}
	ok = len(w.set) > 0
	w.set = nil
	return c, ok
}

// putBack keeps a change for later, but for settings the shop has spoken of since.
func (w *wishes) putBack(c Change) {
	w.mu.Lock()
	newer := w.set
	w.set = nil
	w.mu.Unlock()
	w.add(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(w.set, newer)
}

// Obey makes a change of live values that the shop has asked for with an answer;
// what an operator has set stays. What Redis does not take now Run repeats, the
// newest word on each setting. An error wraps ErrSetting: no room could obey.
func (l *Line) Obey(ctx context.Context, set map[Setting]string, cleared ...Setting) error {
	wish := Change{By: ByShop, Yield: true, Set: set, Clear: cleared}
	known := l.Controls()
	next, err := known.with(wish, time.Time{})
	switch {
	case err != nil:
		return err
	case sameLive(next, known): // most answers repeat what the one before said
		return nil
	}
	l.wishes.add(wish)
	if l.controlling.TryLock() { // else whoever is writing goes first, and the next tick does it
		defer l.controlling.Unlock()
		_ = l.obey(ctx)
	}
	return nil
}

func sameLive(a, b Controls) bool {
	return maps.EqualFunc(a.Live, b.Live, func(x, y Live) bool { return x.Value == y.Value && x.By == y.By })
}

// obeyRest tells Redis what the shop has asked for and Redis did not take.
func (l *Line) obeyRest(ctx context.Context) error {
	l.controlling.Lock()
	defer l.controlling.Unlock()
	return l.obey(ctx)
}

// obey tells Redis what the shop has asked for. The caller holds controlling.
func (l *Line) obey(ctx context.Context) error {
	c, ok := l.wishes.take()
	if !ok {
		return nil
	}
	_, err := l.rewrite(ctx, func(base Controls) (Controls, error) { return base.with(c, l.clock()) })
	if errors.Is(err, ErrSetting) { // an operator has changed what it went with
		l.opts().Log.WarnContext(ctx, "the shop asks for what the room cannot do", "room", l.opts().Room, "error", err)
		return nil
	}
	if err != nil {
		l.wishes.putBack(c)
	}
	return err
}
