package web

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/queuegate/queuegate/examples/shop/order"
)

// page is what the templates are rendered with.
type page struct {
	Title, Message string
	Products       []product
	Key            string // of the order that the form will send, however often it is sent
	Choices        []int
	Order          receipt
	Standing       standing
}

type product struct {
	ID, Name string
	Left     int // -1: not known
}

func (s *shop) showProducts(w http.ResponseWriter, r *http.Request) {
	s.render(w, http.StatusOK, "products", page{Title: "Paper lanterns", Products: s.products(r)})
}

func (s *shop) showCheckout(w http.ResponseWriter, r *http.Request) {
	s.sayStock(w, r)
	p := page{Title: "Checkout", Products: s.products(r), Key: rand.Text()}
	for n := 1; n <= order.MaxQuantity; n++ {
		p.Choices = append(p.Choices, n)
	}
	s.render(w, http.StatusOK, "checkout", p)
}

func (s *shop) products(r *http.Request) []product {
	var shown []product
	all, err := s.opts.Books.Products(r.Context())
	if err != nil {
		s.opts.Log.WarnContext(r.Context(), "the products cannot be shown", "error", err)
	}
	for _, p := range all {
		left := -1
		if count, err := s.opts.Shelf.Look(r.Context(), p.ID); err == nil && count.Known {
			left = count.Left
		}
		shown = append(shown, product{ID: p.ID, Name: p.Name, Left: left})
	}
	return shown
}

// render writes a page, whole or not at all.
func (s *shop) render(w http.ResponseWriter, code int, name string, p page) {
	var text bytes.Buffer
	if err := s.pages.ExecuteTemplate(&text, name, p); err != nil {
		s.opts.Log.Error("a page cannot be written", "page", name, "error", err)
		http.Error(w, "the shop could not write this page", http.StatusInternalServerError)
		return
	}
	headers(w, "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes()) // whoever asked may be gone
}

// wantsHTML reports whether a person is asking.
func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }
