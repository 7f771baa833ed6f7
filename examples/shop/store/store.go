// Package store is the shop's database: SQLite in a file, or PostgreSQL.
//
// It has the last word on what is sold. Three transactions move an order on:
// [Store.Accept] writes down a request together with its line in the outbox,
// [Store.Confirm] and [Store.Fail] end it together with the lines that follow from
// that. Each of them may be said again and does nothing the second time.
package store

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

var (
	// ErrNotFound is returned for an event or a product that the database does not know.
	ErrNotFound = errors.New("store: not found")
	// ErrSoldOut is returned when a confirmation would sell more than there is.
	ErrSoldOut = errors.New("store: sold out")
	// ErrOther is returned when the visitor has another live order of the product;
	// the answer is that one.
	ErrOther = errors.New("store: the visitor has another order of this product")
)

//go:embed schema.sql
var schema string

// Status is how far an order is. Only StatusAccepted ever changes.
type Status string

// What becomes of an order.
const (
	StatusAccepted  Status = "accepted"  // written down, not decided
	StatusConfirmed Status = "confirmed" // sold
	StatusSoldOut   Status = "sold_out"  // none was left when it was to be confirmed
	StatusFailed    Status = "failed"    // not paid, or not to be read
)

// Final reports whether nothing more becomes of the order.
func (s Status) Final() bool { return s != StatusAccepted }

// Request is what a buyer asked for.
type Request struct {
	EventID, Product, Visitor string
	Quantity                  int
	Key                       string // idempotency key
	At                        time.Time
	Status                    Status
	Room, Pass                string // of the gate; Pass is empty once it is not needed
}

// Options say how to use the database. A zero value means the default beside it.
type Options struct {
	Busy  time.Duration    // how long a transaction waits for a database that is locked; 5 s
	Wrote func()           // told of each transaction that was committed; nobody
	Now   func() time.Time // time.Now
}

func (o Options) withDefaults() Options {
	if o.Busy == 0 {
		o.Busy = 5 * time.Second
	}
	if o.Wrote == nil {
		o.Wrote = func() {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Store is the database. It may be used by several goroutines, and with PostgreSQL
// by several processes.
type Store struct {
	db       *sql.DB
	postgres bool
	opts     Options
}

// Open opens the database that target names, a file of SQLite or a postgres:// URL,
// and creates the tables that are missing.
func Open(ctx context.Context, target string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	s := &Store{opts: opts, postgres: strings.HasPrefix(target, "postgres://") || strings.HasPrefix(target, "postgresql://")}
	var err error
	if s.postgres {
		s.db, err = sql.Open("pgx", target)
	} else {
		s.db, err = sql.Open("sqlite", sqliteName(target, opts.Busy))
	}
	if err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	s.db.SetMaxOpenConns(8)
	s.db.SetMaxIdleConns(8)
	if err := s.migrate(ctx); err != nil {
		_ = s.db.Close()
		return nil, fmt.Errorf("store: create the tables: %w", err)
	}
	return s, nil
}

// sqliteName asks for what the shop relies on: a commit that survives a power cut,
// readers beside the one writer, and transactions that take the write lock when
// they begin, for one that takes it later can only fail.
func sqliteName(file string, busy time.Duration) string {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(" + strconv.FormatInt(busy.Milliseconds(), 10) + ")",
		"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
	}}
	return "file:" + (&url.URL{Path: file}).EscapedPath() + "?" + query.Encode()
}

func (s *Store) migrate(ctx context.Context) error {
	serial := "INTEGER"
	if s.postgres {
		serial = "BIGSERIAL"
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		if s.postgres { // two shops that start at once would create the same table twice
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(20261)"); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, strings.ReplaceAll(schema, "/*SERIAL*/", serial))
		return err
	})
}

// Close ends the connections.
func (s *Store) Close() error { return s.db.Close() }

// sql spells the parameters of a statement as the database wants them.
func (s *Store) sql(statement string) string {
	if !s.postgres {
		return statement
	}
	var b strings.Builder
	n := 0
	for _, r := range statement {
		if r != '?' {
			b.WriteRune(r)
			continue
		}
		n++
		b.WriteString("$" + strconv.Itoa(n))
	}
	return b.String()
}

// write runs f in a transaction of its own.
func (s *Store) write(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing to undo after a commit
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.opts.Wrote()
	return nil
}

// exec runs one statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, tx *sql.Tx, statement string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, s.sql(statement), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s *Store) now() int64 { return s.opts.Now().UnixMilli() }

const requestColumns = `event_id, product_id, visitor, quantity, idempotency_key, requested_at, status, room, pass`

// scanner is a row, or the current one of several.
type scanner interface{ Scan(into ...any) error }

func scanRequest(row scanner) (Request, error) {
	var r Request
	var at int64
	err := row.Scan(&r.EventID, &r.Product, &r.Visitor, &r.Quantity, &r.Key, &at, &r.Status, &r.Room, &r.Pass)
	if errors.Is(err, sql.ErrNoRows) {
		return Request{}, ErrNotFound
	}
	r.At = time.UnixMilli(at).UTC()
	return r, err
}

// Request returns the request of an event, or an error matching [ErrNotFound].
func (s *Store) Request(ctx context.Context, eventID string) (Request, error) {
	return scanRequest(s.db.QueryRowContext(ctx,
		s.sql(`SELECT `+requestColumns+` FROM requests WHERE event_id = ?`), eventID))
}
