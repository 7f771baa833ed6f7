package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Accept writes a request down, with the line in the outbox that sends its event.
// An event that is there already stays as it is. It returns the request as the
// database has it; when the visitor has another live order of the product, that
// one and an error matching [ErrOther].
func (s *Store) Accept(ctx context.Context, r Request) (Request, error) {
	var had Request
	err := s.write(ctx, func(tx *sql.Tx) error {
		var added bool
		var err error
		if had, added, err = s.insert(ctx, tx, r, StatusAccepted); err != nil || !added {
			return err
		}
		return s.outbox(ctx, tx, r.EventID, KindOrder)
	})
	return had, wrap("accept", err)
}

// Buy writes a request down and sells it in the same transaction: there is nothing
// to send. Otherwise it is as [Store.Accept]; when none is left nothing is written
// and the error matches [ErrSoldOut].
func (s *Store) Buy(ctx context.Context, r Request) (Request, error) {
	var had Request
	err := s.write(ctx, func(tx *sql.Tx) error {
		var added bool
		var err error
		if had, added, err = s.insert(ctx, tx, r, StatusConfirmed); err != nil || !added {
			return err
		}
		return s.sell(ctx, tx, r)
	})
	return had, wrap("buy", err)
}

// insert adds a request with that status and reports true, or finds the one that
// is in its way.
func (s *Store) insert(ctx context.Context, tx *sql.Tx, r Request, status Status) (Request, bool, error) {
	r.Status = status
	if status.Final() {
		r.Pass = ""
	}
	added, err := s.exec(ctx, tx, `INSERT INTO requests (`+requestColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`,
		r.EventID, r.Product, r.Visitor, r.Quantity, r.Key, r.At.UnixMilli(), string(r.Status), r.Room, r.Pass)
	if err != nil || added == 1 {
		return r, added == 1, err
	}
	had, err := scanRequest(tx.QueryRowContext(ctx,
		s.sql(`SELECT `+requestColumns+` FROM requests WHERE event_id = ?`), r.EventID))
	if !errors.Is(err, ErrNotFound) {
		return had, false, err
	}
	had, err = scanRequest(tx.QueryRowContext(ctx, s.sql(`SELECT `+requestColumns+` FROM requests
		WHERE product_id = ? AND visitor = ? AND status IN ('accepted', 'confirmed')`), r.Product, r.Visitor))
	if err != nil {
		return Request{}, false, err
	}
	return had, false, ErrOther
}

// sell takes a request's quantity from what is left and writes the order.
func (s *Store) sell(ctx context.Context, tx *sql.Tx, r Request) error {
	taken, err := s.exec(ctx, tx, `UPDATE products SET taken = taken + ? WHERE id = ? AND taken + ? <= total`,
		r.Quantity, r.Product, r.Quantity)
	if err != nil {
		return err
	}
	if taken == 0 {
		return ErrSoldOut
	}
	_, err = s.exec(ctx, tx, `INSERT INTO orders (event_id, product_id, visitor, quantity, confirmed_at) VALUES (?, ?, ?, ?, ?)`,
		r.EventID, r.Product, r.Visitor, r.Quantity, s.now())
	return err
}

// Confirm sells an accepted request, once: the order, what is left, and the line in
// the outbox that gives the pass back are one transaction. It returns how the
// request stands afterwards, StatusSoldOut when none was left. An event that was
// decided before stays as it is; one that the database does not know is
// [ErrNotFound].
func (s *Store) Confirm(ctx context.Context, eventID string) (Status, error) {
	status, err := s.decide(ctx, eventID, func(tx *sql.Tx, r Request) (Status, error) {
		switch err := s.sell(ctx, tx, r); {
		case errors.Is(err, ErrSoldOut):
			return StatusSoldOut, nil
		case err != nil:
			return "", err
		}
		return StatusConfirmed, nil
	})
	return status, wrap("confirm", err)
}

// Fail ends an accepted request that came to nothing, once; the pass stays the
// buyer's. Otherwise it is as [Store.Confirm].
func (s *Store) Fail(ctx context.Context, eventID string) (Status, error) {
	status, err := s.decide(ctx, eventID, func(*sql.Tx, Request) (Status, error) { return StatusFailed, nil })
	return status, wrap("fail", err)
}

// decide ends an accepted request the way that how says, with what follows from
// it, and leaves every other one alone.
func (s *Store) decide(ctx context.Context, eventID string, how func(*sql.Tx, Request) (Status, error)) (Status, error) {
	var status Status
	err := s.write(ctx, func(tx *sql.Tx) error {
		// The first statement locks the row: of two that decide, one finds it decided.
		if _, err := s.exec(ctx, tx, `UPDATE requests SET status = status WHERE event_id = ?`, eventID); err != nil {
			return err
		}
		r, err := scanRequest(tx.QueryRowContext(ctx,
			s.sql(`SELECT `+requestColumns+` FROM requests WHERE event_id = ?`), eventID))
		if err != nil || r.Status.Final() {
			status = r.Status
			return err
		}
		if status, err = how(tx, r); err != nil {
			return err
		}
		return s.conclude(ctx, tx, r, status)
	})
	return status, err
}

// conclude writes down how a request ended and what has to be done about it.
func (s *Store) conclude(ctx context.Context, tx *sql.Tx, r Request, status Status) error {
	pass, follows := r.Pass, KindRelease
	if status != StatusConfirmed {
		pass, follows = "", KindGiveBack // it stays the buyer's, who may order again
	}
	if _, err := s.exec(ctx, tx, `UPDATE requests SET status = ?, pass = ? WHERE event_id = ?`,
		string(status), pass, r.EventID); err != nil {
		return err
	}
	if _, err := s.exec(ctx, tx, `UPDATE outbox SET done_at = ? WHERE event_id = ? AND kind = ? AND done_at IS NULL`,
		s.now(), r.EventID, string(KindOrder)); err != nil {
		return err
	}
	if follows == KindRelease && pass == "" {
		return nil // who came without a pass has none to give back
	}
	return s.outbox(ctx, tx, r.EventID, follows)
}

// Bury keeps a message that nobody can make an order of, once for each source.
func (s *Store) Bury(ctx context.Context, source, payload, reason string) error {
	return wrap("bury", s.write(ctx, func(tx *sql.Tx) error {
		_, err := s.exec(ctx, tx, `INSERT INTO dead_letters (source, payload, reason, seen_at) VALUES (?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, source, payload, reason, s.now())
		return err
	}))
}

// wrap names what failed; nil stays nil.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store: %s: %w", what, err)
}
