// Package web is the shop's HTTP side. It believes the X-Queuegate-* headers, so
// nobody but the gate may reach it: let it listen on 127.0.0.1.
package web

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/queuegate/queuegate/examples/shop/order"
	"github.com/queuegate/queuegate/examples/shop/stock"
	"github.com/queuegate/queuegate/examples/shop/store"
)

// Desk takes orders.
type Desk interface {
	Place(context.Context, order.Ask) (order.Receipt, error)
	Buy(context.Context, order.Ask) (order.Receipt, error)
}

// Books is what buyers can read.
type Books interface {
	Products(context.Context) ([]store.Product, error)
	Request(ctx context.Context, eventID string) (store.Request, error)
}

// Shelf is the stock.
type Shelf interface {
	Look(ctx context.Context, product string) (stock.Count, error)
}

//go:embed shop.html.tmpl
var pagesHTML string

//go:embed order.js
var orderJS []byte

// Options say what the shop sells and how. Fields without a default are required.
type Options struct {
	Desk     Desk
	Books    Books
	Shelf    Shelf
	Products []string      // for sale, by id
	Log      *slog.Logger  // discarded
	Follow   time.Duration // between two looks at an order that somebody follows; 250 ms
	Stream   time.Duration // how long somebody may follow one; 2 min
}

type shop struct {
	opts  Options
	pages *template.Template
}

// New returns the shop. GET / shows it, GET /checkout is where an order is made,
// POST /orders takes one (202) and POST /purchases sells at once (201); GET
// /orders/{id} and /orders/{id}/events tell how far one is.
func New(opts Options) (http.Handler, error) {
	if opts.Desk == nil || opts.Books == nil || opts.Shelf == nil {
		return nil, errors.New("web: Desk, Books and Shelf are needed")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Follow == 0 {
		opts.Follow = 250 * time.Millisecond
	}
	if opts.Stream == 0 {
		opts.Stream = 2 * time.Minute
	}
	pages, err := template.New("shop").Parse(pagesHTML)
	if err != nil {
		return nil, err
	}
	s := &shop{opts: opts, pages: pages}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.showProducts)
	mux.HandleFunc("GET /checkout", s.showCheckout)
	mux.HandleFunc("POST /orders", s.place)
	mux.HandleFunc("POST /purchases", s.buy)
	mux.HandleFunc("POST /orders/stock", s.tellStock)
	mux.HandleFunc("GET /orders/{id}", s.showOrder)
	mux.HandleFunc("GET /orders/{id}/events", s.followOrder)
	mux.HandleFunc("GET /order.js", serveScript)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return mux, nil
}

func serveScript(w http.ResponseWriter, _ *http.Request) {
	headers(w, "text/javascript; charset=utf-8")
	_, _ = w.Write(orderJS) // whoever asked may be gone
}

// headers sets what every answer carries.
func headers(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "the shop could not write its answer", http.StatusInternalServerError)
		return
	}
	headers(w, "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // whoever asked may be gone
}
