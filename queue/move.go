package queue

import "context"

// moving is a place that goes to another visitor.
type moving struct {
	Sign
	to string
}

// Move gives the place of a ticket to another visitor, who turned out to be the
// same person, and tells where that one stands: at this place, or at an earlier
// one of their own. Nothing moves when the ticket's stay has ended or became a
// pass. The standing's State is Unknown when the other visitor has no place.
// Moved to itself a place stays as it is: so a visitor is looked up.
func (l *Line) Move(ctx context.Context, sign Sign, to string) (Standing, error) {
	s, err := l.moves.ask(ctx, moving{Sign: sign, to: to})
	if err != nil {
		return Standing{}, err
	}
	s.Visitor, s.Joined = to, sign.Joined
	if s.State == Waiting && to != sign.Visitor { // looking at oneself is no sign of life
		s.Seen = s.Room.Now
	}
	return l.told(s, sign.Ahead), nil
}

func (l *Line) sendMoves(ctx context.Context, asked []moving) ([]Standing, error) {
	args := make([]any, 0, 5*len(asked))
	var show shown
	for _, m := range asked {
		args = append(args, m.Visitor, m.Place, m.Due, m.Epoch, m.to)
		l.showTicket(&show, m.Sign)
	}
	r, err := l.run(ctx, l.scripts.move, show, args...)
	if err != nil {
		return nil, err
	}
	return l.standings(r, len(asked))
}
