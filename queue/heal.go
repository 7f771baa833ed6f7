package queue

import "context"

// healMost is how many ends and leases one call writes back.
const healMost = 500

// Heal writes back, after Redis lost its history, what this gate knows: the
// limits, the ends of stays, and the leases it saw in Redis's answers. Places are
// not among it: every visitor's ticket proves its own.
func (l *Line) Heal(ctx context.Context) error {
	if err := l.Configure(ctx); err != nil {
		return err
	}
	room, _ := l.Room()
	ends, leases := l.log.all(), l.holders.all(room.Now)
	known := [2]int{len(ends), len(leases)}
	for len(ends)+len(leases) > 0 {
		n, m := min(len(ends), healMost), min(len(leases), healMost)
		args := []any{n}
		for _, e := range ends[:n] {
			args = append(args, e.visitor, e.place, string(e.why), e.admission)
		}
		for _, h := range leases[:m] {
			args = append(args, h.Visitor, h.Admission, h.Place, stage(h.Active), h.End, h.Epoch)
		}
		if _, err := l.run(ctx, l.scripts.heal, shown{}, args...); err != nil {
			return err
		}
		ends, leases = ends[n:], leases[m:]
	}
	if last, _ := l.Room(); last.Epoch != room.Epoch {
		return nil // lost once more meanwhile: the next tick begins anew
	}
	l.lost.Store(false)
	l.opts.Log.InfoContext(ctx, "written back what this gate knew", "room", l.opts.Room, "ends", known[0], "passes", known[1])
	return nil
}
