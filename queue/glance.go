package queue

import (
	"context"
	"time"
)

// Glance tells where the holder of a ticket stands as far as this gate can see by
// itself. It asks nobody and is no sign of life. known is false when only Redis can
// tell: among the first, at or below the highest place admitted, and after a loss
// until the place is proven again; Line.Look asks it then. While there is no recent
// snapshot what was told last stands.
func (l *Line) Glance(sign Sign) (s Standing, known bool) {
	s = Standing{
		Visitor: sign.Visitor, State: Waiting, Place: sign.Place, Joined: sign.Joined, Ahead: sign.Ahead,
		Due: sign.Due, Poll: l.pollFor(max(0, sign.Ahead)),
	}
	s.Room, _ = l.Room()
	s.Waiting = s.Room.Waiting
	if why, over := l.log.find(sign.Visitor, sign.Place); over {
		s.State, s.Why = Ended, why
		return s, true
	}
	if sign.Generation < s.Room.Generation {
		s.State, s.Why = Ended, Expired
		return s, true
	}
	snap, now, recent := l.recent()
	if !recent || s.Room.Healing > 0 {
		return numbered(s, sign.Ahead), true
	}
	far, _, ok := l.far(sign, snap, now)
	if !ok {
		return numbered(s, sign.Ahead), false
	}
	return numbered(far, sign.Ahead), true
}

// Look asks where the holder of a ticket stands. Other than Touch it is no sign of
// life: who is away stays away, and nobody is brought in.
func (l *Line) Look(ctx context.Context, sign Sign) (Standing, error) {
	s, err := l.moves.ask(ctx, moving{Sign: sign, to: sign.Visitor})
	if err != nil {
		return Standing{}, err
	}
	s.Visitor, s.Joined = sign.Visitor, sign.Joined
	return l.told(s, sign.Ahead), nil
}

// recent is the snapshot that may be answered from, and the room time.
func (l *Line) recent() (snap *snapshot, now int64, ok bool) {
	snap = l.snapshot.Load()
	now, ok = l.Now()
	ok = ok && snap != nil && time.Duration(now-snap.made)*time.Millisecond <= snapshotAge && l.up.Load() && !l.lost.Load()
	return snap, now, ok
}

// far is somebody far back as the snapshot has it, who can have been neither
// admitted nor ended, and how many people are ahead also where nobody is told.
func (l *Line) far(sign Sign, snap *snapshot, now int64) (s Standing, people int64, ok bool) {
	room := l.known.Load().room
	if sign.Epoch != room.Epoch || sign.Generation != room.Generation || room.Healing > 0 || sign.Place <= snap.top {
		return Standing{}, 0, false
	}
	if _, over := l.log.find(sign.Visitor, sign.Place); over {
		return Standing{}, 0, false
	}
	s = Standing{
		Visitor: sign.Visitor, State: Waiting, Place: sign.Place, Joined: sign.Joined,
		Waiting: room.Waiting, Due: sign.Due, Room: room,
	}
	if l.undrawn(sign.Place, now) { // it may be everybody
		s.Ahead, people = -1, room.Waiting
	} else {
		if people, ok = snap.ahead(sign.Place); !ok {
			return Standing{}, 0, false
		}
		s.Ahead = people
	}
	s.Poll = l.pollFor(people)
	return s, people, true
}
