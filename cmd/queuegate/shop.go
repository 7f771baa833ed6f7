package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits of the example shop.
const (
	shopMaxQuantity = 4        // lanterns in one order
	shopMaxBody     = 16 << 10 // bytes of an order
	shopMaxSlowdown = 10       // times the normal work, however many orders there are
)

//go:embed shop.html.tmpl
var shopHTML string

var shopPages = template.Must(template.New("shop").Parse(shopHTML))

// What the shop answers when it cannot take an order.
var (
	errSoldOut     = errors.New("shop: sold out")
	errBadQuantity = fmt.Errorf("shop: quantity must be a whole number from 1 to %d", shopMaxQuantity)
	errBadOrder    = errors.New("shop: the order is neither a form nor JSON such as {\"quantity\": 1}")
)

// shopOptions say how big the example shop is. A zero value means the default beside it.
type shopOptions struct {
	Stock        int                  // lanterns in one delivery; 2000
	Capacity     int                  // orders at once that the shop serves at its normal pace; 20
	RestockAfter time.Duration        // from selling the last one to the next delivery; 30 s
	Work         func() time.Duration // how long one order takes at the normal pace; 50 to 150 ms
}

func (o shopOptions) withDefaults() shopOptions {
	if o.Stock <= 0 {
		o.Stock = 2000
	}
	if o.Capacity <= 0 {
		o.Capacity = 20
	}
	if o.RestockAfter <= 0 {
		o.RestockAfter = 30 * time.Second
	}
	if o.Work == nil {
		o.Work = func() time.Duration { return 50*time.Millisecond + rand.N(100*time.Millisecond) } //nolint:gosec // pace, not a secret
	}
	return o
}

// shop is the example shop that `queuegate demo` puts behind the gate: a page about one product, a checkout and a
// stock in memory. Like a real one it slows down when more orders come in at once than it has hands for.
type shop struct {
	opts shopOptions

	mu        sync.Mutex
	stock     int
	soldOutAt time.Time // when the last one went, zero while there are some
	orders    int       // taken so far
	serving   int       // orders being worked on
	peak      int       // most of them at once
	// byAdmission makes an order repeatable: the same admission gets the order it already has. It is dropped two
	// deliveries later, so it never holds more than two deliveries' orders.
	byAdmission, byAdmissionBefore map[string]shopOrder
}

// shopOrder is an order that was taken.
type shopOrder struct {
	Number   string `json:"order"`
	Quantity int    `json:"quantity"`
}

// shopPage is what the templates are rendered with.
type shopPage struct {
	Title, Message                         string
	Stock, Orders, Serving, Peak, Capacity int
	Visitor, Admission                     string
	Choices                                []int
	Order                                  shopOrder
}

// newShop returns the example shop. It believes the X-Queuegate-* headers, so only the gate may reach it.
func newShop(opts shopOptions) http.Handler {
	opts = opts.withDefaults()
	s := &shop{opts: opts, stock: opts.Stock, byAdmission: map[string]shopOrder{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.showProduct)
	mux.HandleFunc("GET /about", s.showAbout)
	mux.HandleFunc("GET /checkout", s.showCheckout)
	mux.HandleFunc("POST /orders", s.takeOrder)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, http.StatusNotFound, "Nothing here", "There is no such page in this shop.")
	})
	return mux
}

func (s *shop) showProduct(w http.ResponseWriter, _ *http.Request) {
	page := s.figures()
	page.Title = "Paper lantern, autumn edition"
	renderShopPage(w, http.StatusOK, "product", page)
}

func (s *shop) showAbout(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=60")
	renderShopPage(w, http.StatusOK, "about", shopPage{Title: "About us"})
}

func (s *shop) showCheckout(w http.ResponseWriter, r *http.Request) {
	page := s.figures()
	page.Title = "Checkout"
	page.Visitor = r.Header.Get("X-Queuegate-Visitor")
	page.Admission = r.Header.Get("X-Queuegate-Admission")
	for n := 1; n <= min(shopMaxQuantity, page.Stock); n++ {
		page.Choices = append(page.Choices, n)
	}
	renderShopPage(w, http.StatusOK, "checkout", page)
}

func (s *shop) takeOrder(w http.ResponseWriter, r *http.Request) {
	quantity, err := shopQuantity(w, r)
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		s.refuse(w, r, http.StatusRequestEntityTooLarge, "That was too much", "The order is too long to read.")
		return
	case errors.Is(err, errBadQuantity):
		s.refuse(w, r, http.StatusUnprocessableEntity, "How many?",
			fmt.Sprintf("Please order between 1 and %d lanterns.", shopMaxQuantity))
		return
	case err != nil:
		s.refuse(w, r, http.StatusBadRequest, "We could not read that", "Please order by the form on the checkout page.")
		return
	}
	order, err := s.order(r.Context(), r.Header.Get("X-Queuegate-Admission"), quantity)
	switch {
	case errors.Is(err, errSoldOut):
		s.refuse(w, r, http.StatusConflict, "Sold out", "There are not enough lanterns left. The next delivery is on its way.")
	case err != nil:
		// The customer hung up: nothing was sold, and nobody must take this for a success.
		s.refuse(w, r, http.StatusServiceUnavailable, "Interrupted", "The order was not placed.")
	case shopWantsJSON(r):
		writeShopJSON(w, http.StatusCreated, order)
	default:
		renderShopPage(w, http.StatusCreated, "thanks", shopPage{Title: "Thank you", Order: order})
	}
}

// order does the work of one order and takes it from the stock. The same admission gets the same order again. It
// returns errSoldOut when there is not enough left and the context's error when the customer went away first.
func (s *shop) order(ctx context.Context, admission string, quantity int) (shopOrder, error) {
	work := s.begin()
	defer s.end()
	timer := time.NewTimer(work)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return shopOrder{}, ctx.Err()
	case <-timer.C:
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.restock()
	if admission != "" {
		for _, known := range []map[string]shopOrder{s.byAdmission, s.byAdmissionBefore} {
			if order, ok := known[admission]; ok {
				return order, nil
			}
		}
	}
	if s.stock < quantity {
		return shopOrder{}, errSoldOut
	}
	s.stock -= quantity
	if s.stock == 0 {
		s.soldOutAt = time.Now()
	}
	s.orders++
	order := shopOrder{Number: fmt.Sprintf("L-%06d", s.orders), Quantity: quantity}
	if admission != "" {
		s.byAdmission[admission] = order
	}
	return order, nil
}

// begin counts an order in and says how long it will take: beyond the shop's capacity all of them get slower.
func (s *shop) begin() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving++
	s.peak = max(s.peak, s.serving)
	slowdown := min(max(1, float64(s.serving)/float64(s.opts.Capacity)), shopMaxSlowdown)
	return time.Duration(float64(s.opts.Work()) * slowdown)
}

func (s *shop) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving--
}

// restock lets the next delivery in once it is due, so that a demonstration left running does not end sold out.
// The caller holds the lock.
func (s *shop) restock() {
	if s.soldOutAt.IsZero() || time.Since(s.soldOutAt) < s.opts.RestockAfter {
		return
	}
	s.stock, s.soldOutAt = s.opts.Stock, time.Time{}
	s.byAdmission, s.byAdmissionBefore = map[string]shopOrder{}, s.byAdmission
}

// figures is a page with the numbers of this moment.
func (s *shop) figures() shopPage {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restock()
	return shopPage{Stock: s.stock, Orders: s.orders, Serving: s.serving, Peak: s.peak, Capacity: s.opts.Capacity}
}

// refuse answers with a page or JSON that says why not.
func (s *shop) refuse(w http.ResponseWriter, r *http.Request, code int, title, message string) {
	if shopWantsJSON(r) {
		writeShopJSON(w, code, map[string]string{"error": message})
		return
	}
	renderShopPage(w, code, "message", shopPage{Title: title, Message: message})
}

// shopQuantity reads how many lanterns a form or a JSON body orders; a request without a body orders one.
func shopQuantity(w http.ResponseWriter, r *http.Request) (int, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, shopMaxBody))
	if err != nil {
		return 0, err
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return 1, nil
	}
	quantity := 1
	switch mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); mediaType {
	case "application/json":
		order := struct{ Quantity *int }{Quantity: &quantity}
		if err := json.Unmarshal(body, &order); err != nil {
			return 0, errBadOrder
		}
	case "application/x-www-form-urlencoded":
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err := r.ParseForm(); err != nil {
			return 0, errBadOrder
		}
		if text := r.PostForm.Get("quantity"); text != "" {
			if quantity, err = strconv.Atoi(text); err != nil {
				return 0, errBadQuantity
			}
		}
	default:
		return 0, errBadOrder
	}
	if quantity < 1 || quantity > shopMaxQuantity {
		return 0, errBadQuantity
	}
	return quantity, nil
}

// shopWantsJSON reports whether a program is asking: it says JSON and does not say HTML.
func shopWantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

func writeShopJSON(w http.ResponseWriter, code int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, "The shop could not write its answer.", http.StatusInternalServerError)
		return
	}
	shopHeaders(w, "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // whoever asked may be gone, there is nobody left to tell
}

// renderShopPage writes one of the templates, whole or not at all.
func renderShopPage(w http.ResponseWriter, code int, name string, page shopPage) {
	var text bytes.Buffer
	if err := shopPages.ExecuteTemplate(&text, name, page); err != nil {
		http.Error(w, "The shop could not write this page.", http.StatusInternalServerError)
		return
	}
	shopHeaders(w, "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes()) // as above
}

// shopHeaders sets what every answer carries; a Cache-Control that is already there stays.
func shopHeaders(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
}
