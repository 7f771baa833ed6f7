package store

import (
	"context"
	"database/sql"
	"errors"
)

// Product is something for sale.
type Product struct {
	ID, Name string
	Total    int // ever
	Taken    int // sold
}

// AddProduct puts a product on sale; one that is there already stays as it is.
func (s *Store) AddProduct(ctx context.Context, p Product) error {
	return wrap("add product", s.write(ctx, func(tx *sql.Tx) error {
		_, err := s.exec(ctx, tx, `INSERT INTO products (id, name, total) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			p.ID, p.Name, p.Total)
		return err
	}))
}

// Products returns everything for sale, by id.
func (s *Store) Products(ctx context.Context) ([]Product, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, name, total, taken FROM products ORDER BY id`)
	if err != nil {
		return nil, wrap("products", err)
	}
	defer func() { _ = rows.Close() }()
	var products []Product
	for rows.Next() {
		var p Product
		if err := rows.Scan(&p.ID, &p.Name, &p.Total, &p.Taken); err != nil {
			return nil, wrap("products", err)
		}
		products = append(products, p)
	}
	return products, wrap("products", rows.Err())
}

// Books is what the database says of one product at one moment.
type Books struct {
	Left     int       // not sold and not asked for
	Live     []Request // accepted and confirmed
	GiveBack int       // that came to nothing and that the stock was not told of yet
}

// Books reads what a stock is filled from, all of one moment. For a product that is
// not there the error matches [ErrNotFound].
func (s *Store) Books(ctx context.Context, product string) (Books, error) {
	b, err := s.books(ctx, product)
	return b, wrap("books", err)
}

func (s *Store) books(ctx context.Context, product string) (Books, error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: s.postgres})
	if err != nil {
		return Books{}, err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	var b Books
	err = tx.QueryRowContext(ctx, s.sql(`SELECT total FROM products WHERE id = ?`), product).Scan(&b.Left)
	if errors.Is(err, sql.ErrNoRows) {
		return Books{}, ErrNotFound
	} else if err != nil {
		return Books{}, err
	}
	if err := tx.QueryRowContext(ctx, s.sql(`SELECT COUNT(*) FROM outbox o JOIN requests r ON r.event_id = o.event_id
		WHERE r.product_id = ? AND o.kind = 'give_back' AND o.done_at IS NULL`), product).Scan(&b.GiveBack); err != nil {
		return Books{}, err
	}
	rows, err := tx.QueryContext(ctx, s.sql(`SELECT `+requestColumns+` FROM requests
		WHERE product_id = ? AND status IN ('accepted', 'confirmed')`), product)
	if err != nil {
		return Books{}, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		r, err := scanRequest(rows)
		if err != nil {
			return Books{}, err
		}
		b.Left -= r.Quantity
		b.Live = append(b.Live, r)
	}
	return b, rows.Err()
}
