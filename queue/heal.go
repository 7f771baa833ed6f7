package queue

import "context"

// healMost is how many ends and leases one call writes back.
const healMost = 30

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
		if err := l.writeBack(ctx, ends[:n], leases[:m]); err != nil {
			return err
		}
		ends, leases = ends[n:], leases[m:]
	}
	if last, _ := l.Room(); last.Epoch != room.Epoch {
		return nil // lost once more meanwhile: the next tick begins anew
	}
	l.lost.Store(false)
	l.opts().Log.InfoContext(ctx, "written back what this gate knew", "room", l.opts().Room, "ends", known[0], "passes", known[1])
	return nil
}

func (l *Line) writeBack(ctx context.Context, ends []end, leases []Holding) error {
	args := []any{len(ends)}
	for _, e := range ends {
		args = append(args, e.visitor, e.place, string(e.why), e.admission)
	}
	for _, h := range leases {
		args = append(args, h.Visitor, h.Admission, h.Place, stage(h.Active), h.End, h.Epoch)
	}
	_, err := l.run(ctx, l.scripts.heal, shown{}, args...)
	return err
}
