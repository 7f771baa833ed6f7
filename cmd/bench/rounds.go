package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// side is one of those that take turns.
type side struct {
	name string
	load load
	// call is what a crowd does in this process in place of a load; nil for none.
	call func(context.Context) error
	// meter reads a counter that belongs to the side; nil for none.
	meter func(context.Context) (float64, error)
}

// alternate lets the sides have their turns, round by round, and turns the order
// round each time: what the machine does meanwhile meets neighbours alike. One
// short turn of each comes before and does not count. It returns the shots of
// each side, by round.
func (b *bench) alternate(ctx context.Context, sides []side) ([][]shot, error) {
	shots := make([][]shot, len(sides))
	for _, s := range sides {
		if _, err := b.fire(ctx, s, b.turn/4); err != nil {
			return nil, err
		}
	}
	for round := range b.rounds {
		for i := range sides {
			if round%2 == 1 {
				i = len(sides) - 1 - i
			}
			s, err := b.fire(ctx, sides[i], b.turn)
			if err != nil {
				return nil, err
			}
			shots[i] = append(shots[i], s)
		}
	}
	return shots, nil
}

// fire is one turn of a side, made longer on a machine so busy that nothing was
// answered in it.
func (b *bench) fire(ctx context.Context, s side, turn time.Duration) (shot, error) {
	for {
		got, err := b.fireOnce(ctx, s, turn)
		if !errors.Is(err, errNoAnswer) || turn > maxTurn {
			return got, err
		}
		turn *= 4
	}
}

// maxTurn is how long a turn may be until the next would be too long for a side that
// does not answer at all.
const maxTurn = 4 * time.Second

func (b *bench) fireOnce(ctx context.Context, s side, turn time.Duration) (shot, error) {
	began := time.Now()
	before, err := s.read(ctx)
	if err != nil {
		return shot{}, err
	}
	var got shot
	if s.call != nil {
		got, err = callMany(ctx, s.call, turn)
	} else {
		got, err = fire(ctx, b.script, s.load, turn)
	}
	if err != nil {
		return shot{}, fmt.Errorf("%s: %w", s.name, err)
	}
	after, err := s.read(ctx)
	got.metered, got.wall = after-before, time.Since(began).Seconds()
	return got, err
}

func (s side) read(ctx context.Context) (float64, error) {
	if s.meter == nil {
		return 0, nil
	}
	value, err := s.meter(ctx)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	return value, nil
}
