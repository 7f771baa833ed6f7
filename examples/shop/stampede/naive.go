package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/queuegate/queuegate/examples/shop/web"
)

// naiveShop is the shop as it is written first: it reads what is left, takes the
// money, and writes one less. Nothing is faked: what it sells too much are updates
// that other orders' updates overwrote.
type naiveShop struct {
	db      *sql.DB
	payment time.Duration
	log     *slog.Logger
}

// startNaive starts the shop with a database in file. It returns where it is and what
// ends it, once the orders are done whose buyers hung up.
func startNaive(ctx context.Context, file string, stock int, payment time.Duration, log *slog.Logger) (string, func(), error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return "", nil, err
	}
	db.SetMaxOpenConns(8) // as the other shop
	for _, statement := range []string{
		`CREATE TABLE products (id TEXT PRIMARY KEY, remaining INTEGER NOT NULL)`,
		`CREATE TABLE orders (id INTEGER PRIMARY KEY, visitor TEXT NOT NULL)`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return "", nil, errors.Join(err, db.Close())
		}
	}
	if _, err := db.ExecContext(ctx, `INSERT INTO products VALUES ('lantern', ?)`, stock); err != nil {
		return "", nil, errors.Join(err, db.Close())
	}
	s := &naiveShop{db: db, payment: payment, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /checkout", s.checkout)
	mux.HandleFunc("POST /orders", s.order)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, db.Close())
	}
	server := &http.Server{Handler: web.Logged(mux, log), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Shutdown
	stop := func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = server.Shutdown(grace) // whoever is not served within a minute is not
		_ = db.Close()
	}
	return "http://" + listener.Addr().String(), stop, nil
}

func (s *naiveShop) left(ctx context.Context) (int, error) {
	var left int
	err := s.db.QueryRowContext(ctx, `SELECT remaining FROM products WHERE id = 'lantern'`).Scan(&left)
	return left, err
}

func (s *naiveShop) checkout(w http.ResponseWriter, r *http.Request) {
	if _, err := s.left(r.Context()); err != nil {
		http.Error(w, "no answer from the database", http.StatusServiceUnavailable)
	}
}

func (s *naiveShop) order(w http.ResponseWriter, r *http.Request) {
	ctx := context.WithoutCancel(r.Context()) // a payment that has begun goes on when its buyer hangs up
	left, err := s.left(ctx)
	switch {
	case err != nil:
		http.Error(w, "no answer from the database", http.StatusServiceUnavailable)
		return
	case left < 1:
		http.Error(w, "sold out", http.StatusConflict)
		return
	}
	<-time.After(s.payment)
	visitor := r.Header.Get("X-Queuegate-Visitor")
	if err := s.write(ctx, left-1, visitor); err != nil {
		http.Error(w, "no answer from the database", http.StatusServiceUnavailable)
		return
	}
	s.log.InfoContext(ctx, "order decided", "visitor", visitor, "quantity", 1, "status", "confirmed")
	w.WriteHeader(http.StatusCreated)
}

func (s *naiveShop) write(ctx context.Context, left int, visitor string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing to undo after a commit
	if _, err := tx.ExecContext(ctx, `UPDATE products SET remaining = ? WHERE id = 'lantern'`, left); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (visitor) VALUES (?)`, visitor); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.log.InfoContext(ctx, "write")
	return nil
}
