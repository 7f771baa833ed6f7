package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Kind says what a line of the outbox asks for.
type Kind string

// What has to be done outside of the database.
const (
	KindOrder    Kind = "order"     // send the event; done when the order is decided
	KindRelease  Kind = "release"   // give the pass back to the gate
	KindGiveBack Kind = "give_back" // give the quantity back to the stock
)

// Task is one line of the outbox, with the request it is about.
type Task struct {
	ID       int64
	Kind     Kind
	Attempts int // before this one
	Request  Request
}

// outbox adds a line that is due at once.
func (s *Store) outbox(ctx context.Context, tx *sql.Tx, eventID string, kind Kind) error {
	_, err := s.exec(ctx, tx, `INSERT INTO outbox (event_id, kind, due_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		eventID, string(kind), s.now())
	return err
}

// Claim returns up to limit lines that are due, oldest first, and makes them due
// again after again: whoever claims them and dies has kept nobody for longer.
func (s *Store) Claim(ctx context.Context, limit int, again time.Duration) ([]Task, error) {
	idle, err := s.idle(ctx)
	if err != nil || idle {
		return nil, wrap("claim", err)
	}
	var tasks []Task
	err = s.write(ctx, func(tx *sql.Tx) error {
		skip := ""
		if s.postgres {
			skip = " FOR UPDATE OF o SKIP LOCKED" // what another relay has just claimed
		}
		var err error
		if tasks, err = s.due(ctx, tx, limit, skip); err != nil {
			return err
		}
		for _, task := range tasks {
			if _, err := s.exec(ctx, tx, `UPDATE outbox SET due_at = ?, attempts = attempts + 1 WHERE id = ?`,
				s.now()+again.Milliseconds(), task.ID); err != nil {
				return err
			}
		}
		return nil
	})
	return tasks, wrap("claim", err)
}

// idle reports whether nothing is due, without taking the write lock.
func (s *Store) idle(ctx context.Context) (bool, error) {
	var one int
	err := s.db.QueryRowContext(ctx,
		s.sql(`SELECT 1 FROM outbox WHERE done_at IS NULL AND due_at <= ? LIMIT 1`), s.now()).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}

func (s *Store) due(ctx context.Context, tx *sql.Tx, limit int, skip string) ([]Task, error) {
	rows, err := tx.QueryContext(ctx, s.sql(`SELECT o.id, o.kind, o.attempts,
			r.event_id, r.product_id, r.visitor, r.quantity, r.idempotency_key, r.requested_at, r.status, r.room, r.pass
		FROM outbox o JOIN requests r ON r.event_id = o.event_id
		WHERE o.done_at IS NULL AND o.due_at <= ? ORDER BY o.id LIMIT ?`+skip), s.now(), limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var tasks []Task
	for rows.Next() {
		var t Task
		t.Request, err = scanRequest(scanFunc(func(into ...any) error {
			return rows.Scan(append([]any{&t.ID, &t.Kind, &t.Attempts}, into...)...)
		}))
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, rows.Err()
}

// scanFunc makes a function a row.
type scanFunc func(into ...any) error

func (f scanFunc) Scan(into ...any) error { return f(into...) }

// Done says that what a line asked for has happened. A pass that was given back
// leaves the database.
func (s *Store) Done(ctx context.Context, t Task) error {
	return wrap("done", s.write(ctx, func(tx *sql.Tx) error {
		if t.Kind == KindRelease {
			if _, err := s.exec(ctx, tx, `UPDATE requests SET pass = '' WHERE event_id = ?`, t.Request.EventID); err != nil {
				return err
			}
		}
		_, err := s.exec(ctx, tx, `UPDATE outbox SET done_at = ? WHERE id = ? AND done_at IS NULL`, s.now(), t.ID)
		return err
	}))
}

// Later makes a line due after wait: it could not be done, or is to be looked at again.
func (s *Store) Later(ctx context.Context, t Task, wait time.Duration) error {
	return wrap("later", s.write(ctx, func(tx *sql.Tx) error {
		_, err := s.exec(ctx, tx, `UPDATE outbox SET due_at = ? WHERE id = ? AND done_at IS NULL`,
			s.now()+wait.Milliseconds(), t.ID)
		return err
	}))
}
