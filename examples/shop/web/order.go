package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/queuegate/queuegate/examples/shop/order"
)

// maxBody is how many bytes an order may have.
const maxBody = 16 << 10

// What the shop says to the gate with its answers.
const (
	headerStock   = "X-Queuegate-Stock"
	headerCommand = "X-Queuegate-Command"
)

// receipt is the answer to an order: the same each time it is sent.
type receipt struct {
	Order    string `json:"order"`
	Product  string `json:"product_id"`
	Quantity int    `json:"quantity"`
	Status   string `json:"status_url"`
}

func (s *shop) place(w http.ResponseWriter, r *http.Request) {
	ask, err := readAsk(w, r)
	if err != nil {
		s.refuse(w, r, order.Receipt{}, err)
		return
	}
	taken, err := s.opts.Desk.Place(r.Context(), ask)
	s.answer(w, r, http.StatusAccepted, taken, err)
}

func (s *shop) buy(w http.ResponseWriter, r *http.Request) {
	ask, err := readAsk(w, r)
	if err != nil {
		s.refuse(w, r, order.Receipt{}, err)
		return
	}
	taken, err := s.opts.Desk.Buy(r.Context(), ask)
	s.answer(w, r, http.StatusCreated, taken, err)
}

func (s *shop) answer(w http.ResponseWriter, r *http.Request, code int, taken order.Receipt, err error) {
	s.sayStock(w, r)
	if err != nil {
		s.refuse(w, r, taken, err)
		return
	}
	body := receiptOf(taken)
	w.Header().Set("Location", body.Status)
	if wantsHTML(r) {
		s.render(w, code, "thanks", page{Title: "Thank you", Order: body})
		return
	}
	writeJSON(w, code, body)
}

func receiptOf(taken order.Receipt) receipt {
	return receipt{Order: taken.EventID, Product: taken.Product, Quantity: taken.Quantity, Status: "/orders/" + taken.EventID}
}

// refuse says why there is no order.
func (s *shop) refuse(w http.ResponseWriter, r *http.Request, taken order.Receipt, err error) {
	code, title, problem := http.StatusServiceUnavailable, "Please try again", "unavailable"
	message := "We could not write your order down. Send it again: it is taken once."
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		code, title, problem = http.StatusRequestEntityTooLarge, "That was too much", "too-large"
		message = "The order is too long to read."
	case errors.Is(err, order.ErrInvalid):
		code, title, problem = http.StatusUnprocessableEntity, "We could not take that", "invalid"
		message = strings.TrimPrefix(err.Error(), order.ErrInvalid.Error()+": ")
	case errors.Is(err, order.ErrUnknownProduct):
		code, title, problem, message = http.StatusNotFound, "Not for sale", "unknown-product", "We do not sell that."
	case errors.Is(err, order.ErrSoldOut):
		code, title, problem, message = http.StatusConflict, "Sold out", "sold-out", "There are not enough left."
	case errors.Is(err, order.ErrDeclined):
		code, title, problem = http.StatusPaymentRequired, "Not paid", "declined"
		message = "The payment was declined. You may order again."
	case errors.Is(err, order.ErrOther):
		code, title, problem = http.StatusConflict, "You have ordered", "already-ordered"
		message = "One order of this product is all a visitor can have: " + receiptOf(taken).Status
	}
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if wantsHTML(r) {
		s.render(w, code, "message", page{Title: title, Message: message})
		return
	}
	writeJSON(w, code, map[string]string{"error": problem, "message": message})
}

// readAsk reads an order: a form or JSON, who sends it, and under which key.
func readAsk(w http.ResponseWriter, r *http.Request) (order.Ask, error) {
	ask := order.Ask{
		Visitor: r.Header.Get("X-Queuegate-Visitor"), Room: r.Header.Get("X-Queuegate-Room"),
		Pass: r.Header.Get("X-Entry-Token"), Key: r.Header.Get("Idempotency-Key"), Quantity: 1,
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return ask, err
	}
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType == "application/x-www-form-urlencoded" {
		err = readForm(&ask, r, body)
	} else {
		err = readJSON(&ask, body)
	}
	if ask.Key == "" {
		// Who names no key has one order for each visit.
		ask.Key = r.Header.Get("X-Queuegate-Admission")
	}
	return ask, err
}

func readForm(ask *order.Ask, r *http.Request, body []byte) error {
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if err := r.ParseForm(); err != nil {
		return fmt.Errorf("%w: the form cannot be read", order.ErrInvalid)
	}
	ask.Product = r.PostForm.Get("product_id")
	if key := r.PostForm.Get("idempotency_key"); key != "" {
		ask.Key = key
	}
	text := r.PostForm.Get("quantity")
	if text == "" {
		return nil // one
	}
	quantity, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%w: quantity must be a whole number", order.ErrInvalid)
	}
	ask.Quantity = quantity
	return nil
}

func readJSON(ask *order.Ask, body []byte) error {
	var sent struct {
		Product  string `json:"product_id"`
		Quantity *int   `json:"quantity"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return fmt.Errorf(`%w: send a form or JSON such as {"product_id": "lantern", "quantity": 1}`, order.ErrInvalid)
	}
	ask.Product = sent.Product
	if sent.Quantity != nil {
		ask.Quantity = *sent.Quantity
	}
	return nil
}

// sayStock tells the gate what is left of everything. When nothing is, newcomers
// get no place in a line that leads to nothing; as soon as something is, they do.
func (s *shop) sayStock(w http.ResponseWriter, r *http.Request) {
	left := 0
	for _, product := range s.opts.Products {
		count, err := s.opts.Shelf.Look(r.Context(), product)
		if err != nil || !count.Known {
			return // not known is not sold out
		}
		left += count.Left
	}
	w.Header().Set(headerStock, strconv.Itoa(left))
	if left == 0 {
		w.Header().Set(headerCommand, "sold-out")
	} else {
		w.Header().Set(headerCommand, "on-sale")
	}
}

// tellStock answers the shop's own machines, through the gate, which reads the headers.
func (s *shop) tellStock(w http.ResponseWriter, r *http.Request) {
	s.sayStock(w, r)
	w.WriteHeader(http.StatusNoContent)
}
